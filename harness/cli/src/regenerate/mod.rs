//! `cargo xtask regenerate-fixtures`: runs references to replace fixtures that are missing, stale or broken.

mod changes;
mod debug_script;
mod error;
mod exporter_report;
mod external_files;
mod leftovers;
mod listing;
mod make;
mod owned;
mod plan;
mod removal;
mod reproduce;
mod same_bytes;
mod script_call;
mod second;
mod smaller_file;
mod smaller_text;
mod swap;
mod table;
mod variables;
mod workplace;

use std::collections::BTreeSet;
use std::process::ExitCode;

pub(crate) use debug_script::debug_script;
pub(crate) use error::RegenerateError;
pub(crate) use listing::{ListedTensor, Listing, ListingRequest, default_memory, parse_memory};
pub(crate) use plan::{PlannedSet, plan};
pub(crate) use removal::{TensorName, check_removable, remove_set, remove_tensors};
pub(crate) use reproduce::CHANGED_FLOOR;
pub(crate) use second::agreement_text;
pub(crate) use table::number;
pub(crate) use workplace::{leftover_bytes, remove_leftovers};

use super::ask::{YesNo, ask};
use super::references::Environments;
use super::steps::Steps;
use super::{CliError, Project, say};
use crate::error::CommandError;
use changes::{SetChanges, changes};
use make::{MadeSet, Maker};
use mlx_parity_core::files::size::{self, SizeLimits};
use mlx_parity_core::golden::{ChecksumMemory, Trust};
use mlx_parity_core::runs::Out;
use mlx_parity_core::settings::Settings;
use mlx_parity_core::spec::Specs;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::{clean, indented};
use mlx_parity_core::text::program::{program, suite_command, with_program};
use workplace::{Workplace, check_target, committed, has_leftovers};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask regenerate-fixtures                      every set that is missing, stale or broken\n  \
    cargo xtask regenerate-fixtures gated_mlp/block      only this set\n  \
    cargo xtask regenerate-fixtures --list flux/t5       print every name that its script can record\n  \
    cargo xtask regenerate-fixtures --check              report which sets are not current\n  \
    cargo xtask regenerate-fixtures --check --run        also check that the references reproduce them\n\n\
    The command runs each reference twice, as `python SCRIPT FOLDER`, and requires the same bytes.\n\
    The script runs in a locked environment of exporter/references. Its line\n\
    `# parity: environment = \"torch\"` names the dependency group. Without this line,\n\
    `environment` in `[tool.parity]`, in the pyproject.toml beside the lock, names the group. If\n\
    nothing is locked, the machine's Python runs the script (PARITY_PYTHON selects another). The\n\
    command shows what changes, asks before it replaces a set, and replaces it in one step.\n\n\
    `also` in `reference` names a second script, which computes the same in its own way. It gets\n\
    the inputs and weights of the first. If its goldens disagree, the set is refused.\n\n\
    Each run of a script may take 30 minutes (`timeout` in the spec's `reference`). The script\n\
    sees PATH, HOME and a few more of your environment variables, which exporter/README.md\n\
    lists; `env: [HF_TOKEN]` in `reference` adds one.\n\n\
    PARITY_SIZE_WARN (1 GB) and PARITY_SIZE_LIMIT (10 GB) limit the size of fixtures and runs.")]
pub(crate) struct Arguments {
    /// Specs, as `model/component`, or fixture folders; all of them by default
    specs: Vec<String>,
    /// Replace sets that are current too
    #[arg(long)]
    force: bool,
    /// Change nothing, and exit with 1 if a set is missing, stale or broken
    #[arg(long, conflicts_with_all = ["force", "new_inputs"])]
    check: bool,
    /// With --check: also run the references, and check that they reproduce the committed sets within 8 times the floors of this run
    #[arg(long, requires = "check")]
    run: bool,
    /// Make new inputs and weights instead of reusing the committed ones
    #[arg(long)]
    new_inputs: bool,
    /// Also measure how far results differ between the library's kernels
    #[arg(long, conflicts_with = "check")]
    spread: bool,
    /// Show every tensor that changes, not only the first ones
    #[arg(long)]
    full: bool,
    /// Print every golden, and every output that the script's hooks see, in call order, with the spec's params, and make no set
    #[arg(long, conflicts_with_all = ["force", "check", "new_inputs", "spread", "full"])]
    list: bool,
    /// With --list: how much memory a script may use [default: half of the machine's]
    #[arg(long, requires = "list", value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// Replace without asking, and download without asking
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let (spec_root, fixture_root) = (project.spec_root(), project.fixture_root());
    let found = Specs::load(&spec_root);
    let sets = plan(&found, &spec_root, &fixture_root, &arguments.specs)?;
    if arguments.list {
        return list(project, arguments, &sets);
    }
    let trust = if arguments.check { Trust::Nothing } else { Trust::here() };
    let wrong = not_current(project, &sets, trust);
    if arguments.check {
        for (set, problem) in &wrong {
            say(&format!("{set}: {problem}\n"));
        }
        if arguments.run {
            return check_by_running(project, arguments, &sets, &wrong);
        }
        let current = sets.len() - wrong.len();
        say(&format!("{current} current, {} not\n", wrong.len()));
        return Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let nothing_to_do = || {
        say(&format!("{} current, nothing to do\n", counted(sets.len(), "set")));
        Ok(ExitCode::SUCCESS)
    };
    if !arguments.force && wrong.is_empty() && !has_leftovers(&fixture_root) {
        return nothing_to_do();
    }
    let workplace = Workplace::enter(&fixture_root)?;
    // Another command may have replaced sets meanwhile, or `enter` may have restored old ones.
    let wrong = not_current(project, &sets, trust);
    let is_due = |set: &&PlannedSet| arguments.force || wrong.iter().any(|(name, _)| *name == set.folder);
    let due: Vec<&PlannedSet> = sets.iter().filter(is_due).collect();
    if due.is_empty() {
        return nothing_to_do();
    }
    regenerate(project, arguments, &workplace, &due, sets.len(), &wrong)
}

/// Prints what the script of each set can record, with the params of its spec.
fn list(project: &Project, arguments: &Arguments, sets: &[PlannedSet]) -> Result<ExitCode, CliError> {
    let mut environments = Environments::new(project, arguments.yes);
    let memory = arguments.memory.unwrap_or_else(default_memory);
    for set in sets {
        let runner =
            environments.of(&project.root().join(&set.reference.script)).map_err(RegenerateError::from)?;
        let listing = ListingRequest::of(set.reference, set.external()?, memory).run(project, &runner)?;
        let mut text = format!("{}  {}\n", set.folder, set.reference.script);
        // A model that is hooked several times has each of its points as often.
        let mut seen = BTreeSet::new();
        for point in listing.points.iter().filter(|point| seen.insert((&point.name, &point.kind))) {
            text += &format!("  {}  {}\n", clean(&point.name), clean(&point.kind));
        }
        say(&text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder of each set that is not current, and what is wrong with it.
pub(crate) fn not_current<'a>(
    project: &Project,
    sets: &[PlannedSet<'a>],
    trust: Trust,
) -> Vec<(&'a str, String)> {
    let mut memory = ChecksumMemory::load(Out::of(project.root()).checksums(), trust);
    let mut wrong = Vec::new();
    for set in sets {
        let problems = set.problems(project, &mut memory);
        if let Some(first) = problems.first() {
            let more = if problems.len() > 1 {
                format!(" (and {} more)", problems.len() - 1)
            } else {
                String::new()
            };
            wrong.push((set.folder, format!("{first}{more}")));
        }
    }
    // If the checksums cannot be saved, the next command is slower but still right.
    let _ = memory.save();
    wrong
}

/// Makes sets in the workplace, shows what changes, and asks before it replaces a set.
fn regenerate(
    project: &Project,
    arguments: &Arguments,
    workplace: &Workplace,
    due: &[&PlannedSet],
    all: usize,
    wrong: &[(&str, String)],
) -> Result<ExitCode, CliError> {
    let fixture_root = project.fixture_root();
    for set in due {
        check_target(&fixture_root, set.folder, None)?;
    }
    let limits = Settings::of_process().map_err(RegenerateError::from)?.sizes;
    let taken = Out::of(project.root()).taken(&project.fixture_root());
    check_size(limits, taken)?;
    let steps = Steps::start(format_args!("making {}", counted(due.len(), "set")));
    let mut environments = Environments::new(project, arguments.yes);
    let maker = Maker {
        project,
        workplace,
        steps: &steps,
        new_inputs: arguments.new_inputs,
        spread: arguments.spread,
    };
    let mut made: Vec<(&PlannedSet, MadeSet)> = Vec::new();
    let mut failed = 0;
    for set in due {
        let script = project.root().join(&set.reference.script);
        let result = environments
            .of(&script)
            .map_err(RegenerateError::from)
            .and_then(|runner| maker.twice(set, &runner))
            .and_then(|made| with_second(&maker, &mut environments, set, made));
        match result {
            Ok(new) => made.push((set, new)),
            Err(error) => {
                print_error(set.folder, &error);
                failed += 1;
            }
        }
    }
    let more: u64 = made.iter().map(|(_, new)| size::of_folder(&new.folder)).sum();
    let less: u64 = made.iter().map(|(set, _)| size::of_folder(&fixture_root.join(set.folder))).sum();
    check_size(limits, (taken + more).saturating_sub(less))?;

    let (mut new_sets, mut replaced, mut kept, mut same, mut unasked) = (0, 0, 0, 0, 0);
    for (set, new) in &made {
        let old = committed(&fixture_root, set.folder);
        let changes = changes(old.as_ref(), &new.set);
        let is_whole = !wrong.iter().any(|(name, _)| *name == set.folder);
        if is_whole && changes.rows.is_empty() && changes.manifest_changes.is_empty() {
            say(&format!("{}: reproduced byte for byte\n", set.folder));
            same += 1;
            continue;
        }
        show(set, new, &changes, wrong, arguments.full);
        let is_new = !fixture_root.join(set.folder).exists();
        // A new set replaces nothing.
        let answer = match arguments.yes || is_new {
            true => YesNo::Yes,
            false => ask(&format!("replace the fixtures `{}`?", set.folder)),
        };
        match answer {
            YesNo::Yes => {
                *(if is_new { &mut new_sets } else { &mut replaced }) += 1;
                // The old set's mapped files would keep its disk space in use.
                drop(old);
                workplace.replace(set.folder, &new.folder)?;
            }
            YesNo::No => kept += 1,
            YesNo::NoTerminal => unasked += 1,
        }
    }
    if unasked > 0 {
        return Err(RegenerateError::NotAsked { count: counted(unasked, "set") }.into());
    }
    let current = all - due.len() + same;
    let mut words: Vec<String> = (new_sets > 0).then(|| format!("{new_sets} new")).into_iter().collect();
    words.extend([format!("{replaced} replaced"), format!("{current} current")]);
    words.extend((kept > 0).then(|| format!("{kept} kept")));
    words.extend((failed > 0).then(|| format!("{failed} failed")));
    let next = if new_sets + replaced > 0 { format!("; next: `{}`", suite_command()) } else { String::new() };
    say(&format!("{}{next}\n", words.join(", ")));
    Ok(if failed + kept == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the second reference of a set, if the spec names one, and adds to the new set how far both agree.
fn with_second(
    maker: &Maker,
    environments: &mut Environments,
    set: &PlannedSet,
    made: MadeSet,
) -> Result<MadeSet, RegenerateError> {
    let Some(also) = &set.reference.also else { return Ok(made) };
    let runner = environments.of(&maker.project.root().join(also))?;
    let second = maker.second(set, &runner, also, &made)?;
    second::add_to_set(maker.workplace, set.folder, made, second)
}

/// Runs the references of sets that are current, and compares the results with the committed sets.
fn check_by_running(
    project: &Project,
    arguments: &Arguments,
    sets: &[PlannedSet],
    wrong: &[(&str, String)],
) -> Result<ExitCode, CliError> {
    let fixture_root = project.fixture_root();
    if wrong.len() == sets.len() {
        say(&format!("0 reproduced, {} not\n", wrong.len()));
        return Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let private = project.private_folder().join("check");
    let workplace = Workplace::look_at(&fixture_root, &private)?;
    project.keep_git_away().map_err(|source| RegenerateError::write(&private, source))?;
    let steps = Steps::start(format_args!("running {}", counted(sets.len() - wrong.len(), "reference")));
    let mut environments = Environments::new(project, arguments.yes);
    let maker = Maker { project, workplace: &workplace, steps: &steps, new_inputs: false, spread: false };
    let mut bad = wrong.len();
    for set in sets.iter().filter(|set| !wrong.iter().any(|(name, _)| *name == set.folder)) {
        let Some(old) = committed(&fixture_root, set.folder) else { continue };
        let script = project.root().join(&set.reference.script);
        let result = environments
            .of(&script)
            .map_err(RegenerateError::from)
            .and_then(|runner| maker.once(set, &runner, "first"));
        let mut made = match result {
            Ok(made) => made,
            Err(error) => {
                print_error(set.folder, &error);
                bad += 1;
                continue;
            }
        };
        let mut found = reproduce::reproduced(set, &old, &made.set);
        match with_second(&maker, &mut environments, set, made) {
            Ok(both) => {
                found.notes.extend(both.second.as_ref().map(agreement_text));
                made = both;
            }
            Err(error) => {
                print_error(set.folder, &error);
                bad += 1;
                continue;
            }
        }
        let headline = match found.wrong.is_empty() {
            true => reproduce::summary(&old, &made.set),
            false => "not reproduced".to_owned(),
        };
        bad += usize::from(!found.wrong.is_empty());
        let mut text = format!("{}: {headline}\n", set.folder);
        text += &lines(&found.wrong, "", arguments.full);
        text += &lines(&found.notes, "note: ", arguments.full);
        say(&text);
    }
    say(&format!("{} reproduced, {bad} not\n", sets.len() - bad));
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line per text: the first ten and a count of the rest, or all with `full`.
fn lines(texts: &[String], prefix: &str, full: bool) -> String {
    let shown = if full { texts.len() } else { texts.len().min(10) };
    let mut lines: String =
        texts[..shown].iter().map(|text| format!("  {prefix}{}\n", clean(text))).collect();
    if texts.len() > shown {
        lines += &format!("  {prefix}… and {} more; --full shows all\n", texts.len() - shown);
    }
    lines
}

/// Warns when `found` is above the first limit, and fails when it is above the second.
fn check_size(limits: SizeLimits, found: u64) -> Result<(), RegenerateError> {
    if found > limits.stop {
        return Err(RegenerateError::TooLarge { found, limit: limits.stop });
    }
    if found > limits.warn {
        eprintln!(
            "warning: fixtures and runs take {}; the limit is {}",
            size::words(found),
            size::words(limits.stop)
        );
    }
    Ok(())
}

fn print_error(set: &str, error: &RegenerateError) {
    eprintln!("error: {set}: {}", indented(&error_chain(error), 7));
    if let Some(next) = error.next() {
        eprintln!("to do: {}", with_program(&next, program()));
    }
}

fn show(set: &PlannedSet, new: &MadeSet, changes: &SetChanges, wrong: &[(&str, String)], full: bool) {
    let why = wrong.iter().find(|(name, _)| *name == set.folder).map(|(_, why)| {
        // The advice at its end is to run this very command.
        format!(": {}", why.split(&format!("; run `{} regenerate-fixtures", program())).next().unwrap_or(why))
    });
    let mut text = format!("\n{}{}\n", set.folder, why.unwrap_or_default());
    for remark in new.report.remarks().chain(new.second.as_ref().map(agreement_text)) {
        text += &format!("  {remark}\n");
    }
    say(&(text + &table::table(changes, full)));
}
