//! `new-spec --missing`: the goldens of a reference and the taps of the last run that a spec does not declare.

use std::collections::BTreeSet;
use std::fs;

use super::fold::{FoldedLine, fold};
use super::insert::{NewLine, insert};
use super::left_out::{left_out, same_again, usable};
use super::names::Levels;
use super::spec_text::checkpoint;
use super::taps::taps;
use super::{Arguments, NewSpecError};
use crate::find_spec::find_spec;
use crate::references::Environments;
use crate::regenerate::{Listing, ListingRequest, default_memory};
use crate::{CliError, Project, say};
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::results::RunData;
use mlx_parity_core::run_folder::Folder;
use mlx_parity_core::runs::Out;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{Spec, Specs, parse_spec};
use mlx_parity_core::text::printable::clean;
use mlx_parity_core::text::program::program;

/// Prints the lines to paste, or writes them with `--write`.
pub(super) fn run(project: &Project, arguments: &Arguments) -> Result<(), CliError> {
    let spec = find_spec(project, &arguments.name)?;
    let reference =
        spec.reference.as_ref().ok_or_else(|| NewSpecError::NoReference { id: spec.id.clone() })?;
    let mut environments = Environments::new(project, arguments.yes);
    let runner = environments.of(&project.root().join(&reference.script))?;
    let memory = arguments.memory.unwrap_or_else(default_memory);
    let listing = ListingRequest::of(reference, spec.external(), memory).run(project, &runner)?;
    let tapped = undeclared_taps(project, &spec)?;
    let has_exact = Specs::load(&project.spec_root()).policies.named.contains_key("exact");
    let found = Missing::of(&spec, &listing, &tapped, has_exact);
    say(&found.text(&spec));
    if arguments.write && !found.lines.is_empty() {
        found.write(project, &spec)?;
        say(&format!(
            "wrote {0} to {1}; next: `{2} regenerate-fixtures {3}`, then tap these names; when they are green, accept their \
             statistics with `{2} accept {3}`\n",
            counted(found.lines.len(), "line"),
            spec.path.display(),
            program(),
            spec.id
        ));
    } else if !found.lines.is_empty() {
        say("`--write` writes these lines into the spec\n");
    }
    Ok(())
}

/// The taps that the last run reached and the spec does not declare.
fn undeclared_taps(project: &Project, spec: &Spec) -> Result<BTreeSet<String>, NewSpecError> {
    let folder = Folder::at(Out::of(project.root()).run("latest").join(&spec.id));
    let data = RunData::read(&folder)?;
    let names = data.iter().flat_map(RunData::undeclared_taps).map(str::to_owned);
    Ok(names.filter(|name| spec.checkpoints.position(name).is_none()).collect())
}

/// What a spec does not declare.
struct Missing {
    /// The lines to add, each with the text of its mapping.
    lines: Vec<(FoldedLine, String)>,
    /// For each line, the line of the spec after which it belongs.
    places: Vec<Option<usize>>,
    /// How many of the goldens the port taps already.
    tapped: usize,
    goldens: usize,
    /// Goldens that no line is offered for, one line per loop with the reason.
    useless: Vec<String>,
    /// Taps for which the reference records no golden.
    unrecorded: Vec<String>,
}

impl Missing {
    fn of(spec: &Spec, listing: &Listing, tapped: &BTreeSet<String>, has_exact: bool) -> Self {
        let is_new = |name: &str| {
            let base = name.rsplit_once('@').map_or(name, |(base, _)| base);
            spec.checkpoints.position(base).is_none() && spec.checkpoints.position(name).is_none()
        };
        let (kept, left) = usable(&listing.goldens);
        let left: Vec<_> = left.into_iter().filter(|golden| is_new(&golden.name)).collect();
        let skipped = listing.skipped.iter().filter(|(name, _)| is_new(name));
        let useless = left_out(&left).into_iter().chain(same_again(skipped)).collect();
        let new: Vec<_> = kept.iter().filter(|golden| is_new(&golden.name)).cloned().collect();
        let levels = Levels::of(&fold(&kept));
        let lines: Vec<(FoldedLine, String)> = fold(&new)
            .into_iter()
            .map(|line| {
                let text = checkpoint(&line, levels.level(&line), &listing.params, has_exact);
                (line, text)
            })
            .collect();
        let places = lines
            .iter()
            .map(|(line, _)| {
                let first = listing.goldens.iter().position(|golden| line.contains(&golden.name))?;
                let earlier = listing.goldens[..first].iter().rev();
                let before = earlier.filter_map(|golden| spec.checkpoints.position(&golden.name)).next()?;
                Some(spec.checkpoints[before].line)
            })
            .collect();
        let recorded: BTreeSet<&str> = listing.goldens.iter().map(|golden| golden.name.as_str()).collect();
        let unrecorded = tapped.iter().filter(|name| !recorded.contains(name.as_str())).cloned().collect();
        let both = new.iter().filter(|golden| tapped.contains(&golden.name)).count();
        Self { lines, places, tapped: both, goldens: new.len(), useless, unrecorded }
    }

    fn text(&self, spec: &Spec) -> String {
        let mut text = String::new();
        if self.lines.is_empty() {
            let but = if self.useless.is_empty() { "" } else { ", but those that would prove nothing" };
            text += &format!("{} declares every golden that its reference records{but}\n", spec.id);
        } else {
            text += &format!(
                "{} does not declare {} that its reference records; the port taps {} of them\n",
                spec.id,
                counted(self.goldens, "golden"),
                self.tapped
            );
            for (_, line) in &self.lines {
                text += &format!("  - {line}\n");
            }
            if self.tapped < self.goldens {
                let lines: Vec<FoldedLine> = self.lines.iter().map(|(line, _)| line.clone()).collect();
                text += &format!("\ntaps of the port for these lines:\n{}\n", taps(&lines, "  "));
            }
        }
        if !self.useless.is_empty() {
            text += "no line is offered for these, because they would prove nothing:\n";
            for line in &self.useless {
                text += &format!("  {}\n", clean(line));
            }
        }
        if !self.unrecorded.is_empty() {
            text += &format!(
                "the port taps {} that the reference does not record; record each with `rec.save(name, x)` or a hook:\n",
                counted(self.unrecorded.len(), "tensor")
            );
            for name in &self.unrecorded {
                text += &format!("  {name}\n");
            }
        }
        text
    }

    fn write(&self, project: &Project, spec: &Spec) -> Result<(), NewSpecError> {
        let path = project.root().join(&spec.path);
        let text =
            fs::read_to_string(&path).map_err(|source| NewSpecError::Read { path: path.clone(), source })?;
        let new: Vec<NewLine> = self
            .lines
            .iter()
            .zip(&self.places)
            .map(|((_, text), after)| NewLine { after: *after, text: format!("- {text}") })
            .collect();
        let starts: BTreeSet<usize> = spec.checkpoints.iter().map(|checkpoint| checkpoint.line).collect();
        let edited = insert(&text, &starts, &new);
        // Never written unless it is the same spec with more checkpoints.
        let policies = Specs::load(&project.spec_root()).policies;
        let unusable = |problem: String| NewSpecError::Unusable { problem };
        let read = parse_spec(&spec.id, &spec.path, &edited, &policies)
            .map_err(|error| unusable(error.to_string()))?;
        let added: usize = self
            .lines
            .iter()
            .map(|(line, _)| line.axes().map(|(_, values)| values.len()).product::<usize>())
            .sum();
        if read.checkpoints.len() != spec.checkpoints.len() + added {
            return Err(unusable(
                "the new lines do not fit into its list of checkpoints; paste them yourself".into(),
            ));
        }
        write_atomically(&path, |out| out.write_all(edited.as_bytes()))
            .map_err(|source| NewSpecError::Write { path, source })
    }
}
