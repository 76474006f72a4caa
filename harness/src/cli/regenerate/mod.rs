//! `cargo xtask regenerate-fixtures`: runs references, so that goldens again belong to what their specs name.

mod changes;
mod error;
mod findings;
mod folder;
mod leftovers;
mod make;
mod owned;
mod plan;
mod reproduce;
mod swap;
mod table;
mod variables;

use std::process::ExitCode;

pub(crate) use error::RegenerateError;
pub(crate) use folder::left_behind;
pub(crate) use plan::{Set, plan};
pub(crate) use reproduce::CHANGED_FLOOR;

use super::ask::{Answer, ask};
use super::references::Environments;
use super::steps::Steps;
use super::{CliError, Project, say};
use crate::golden::{ChecksumMemory, Trust};
use crate::printable::{clean, indented};
use crate::report::error_chain;
use crate::run::Out;
use crate::size::{self, Limits};
use crate::spec::Specs;
use crate::spec::list::counted;
use changes::{Changes, changes};
use folder::{Workplace, check_target, committed, is_littered};
use make::{Made, Maker};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask regenerate-fixtures                      every set that is missing, stale or broken\n  \
    cargo xtask regenerate-fixtures gated_mlp/block      that one\n  \
    cargo xtask regenerate-fixtures --check              say what is not current, change nothing\n  \
    cargo xtask regenerate-fixtures --check --run        run the references, and see that they give the set again\n\n\
    A reference is run twice as `python SCRIPT FOLDER`, and must give the same bytes. It runs in the environment that\n\
    exporter/references locks, in the group that a line `# parity: environment = \"torch\"` of the script or\n\
    `environment` in `[tool.parity]` beside the lock names; or with the machine's Python (PARITY_PYTHON names another)\n\
    where nothing is locked. You see what changes before you\n\
    are asked, and the old set stays until the new one takes its place in one step.\n\n\
    A script has 30 minutes each time (`timeout` in the spec's `reference`), and sees PATH, HOME and a few more of your\n\
    environment variables (`env: [HF_TOKEN]` there adds one; exporter/README.md lists them).\n\n\
    PARITY_SIZE_WARN (1 GB) and PARITY_SIZE_LIMIT (10 GB) bound what fixtures and runs take.")]
pub(crate) struct Arguments {
    /// Specs, as `model/component`, or fixture folders; all of them unless told
    specs: Vec<String>,
    /// Also sets that are current
    #[arg(long)]
    force: bool,
    /// Change nothing, and exit with 1 if a set is missing, stale or broken
    #[arg(long, conflicts_with_all = ["force", "new_inputs"])]
    check: bool,
    /// With --check: also run the references, and see that they give the committed sets, by the floors measured now
    #[arg(long, requires = "check")]
    run: bool,
    /// Make new inputs and weights instead of using the committed ones again
    #[arg(long)]
    new_inputs: bool,
    /// Also measure how far other kernels of the reference's library are
    #[arg(long, conflicts_with = "check")]
    spread: bool,
    /// Show every tensor that changes, not only the first ones
    #[arg(long)]
    full: bool,
    /// Replace without asking, and download without asking
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let (spec_root, fixture_root) = (project.spec_root(), project.fixture_root());
    let found = Specs::load(&spec_root);
    let sets = plan(&found, &spec_root, &fixture_root, &arguments.specs)?;
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
    if !arguments.force && wrong.is_empty() && !is_littered(&fixture_root) {
        return nothing_to_do();
    }
    let workplace = Workplace::enter(&fixture_root)?;
    // Somebody else may have replaced sets while we waited, or old ones have been put back.
    let wrong = not_current(project, &sets, trust);
    let is_due = |set: &&Set| arguments.force || wrong.iter().any(|(name, _)| *name == set.folder);
    let due: Vec<&Set> = sets.iter().filter(is_due).collect();
    if due.is_empty() {
        return nothing_to_do();
    }
    regenerate(project, arguments, &workplace, &due, sets.len(), &wrong)
}

/// What is wrong with each set that is not current, by its folder.
pub(crate) fn not_current<'a>(project: &Project, sets: &[Set<'a>], trust: Trust) -> Vec<(&'a str, String)> {
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
    // What was hashed need not be hashed again; a command that cannot remember it is slower, not wrong.
    let _ = memory.save();
    wrong
}

/// Makes sets aside, shows what changes, asks, and replaces.
fn regenerate(
    project: &Project,
    arguments: &Arguments,
    workplace: &Workplace,
    due: &[&Set],
    all: usize,
    wrong: &[(&str, String)],
) -> Result<ExitCode, CliError> {
    let fixture_root = project.fixture_root();
    for set in due {
        check_target(&fixture_root, set.folder, None)?;
    }
    let limits = Limits::read().map_err(RegenerateError::from)?;
    let taken = taken(project);
    limits.check(taken)?;
    let steps = Steps::start(format_args!("making {}", counted(due.len(), "set")));
    let mut environments = Environments::new(project, arguments.yes);
    let maker = Maker {
        project,
        workplace,
        steps: &steps,
        new_inputs: arguments.new_inputs,
        spread: arguments.spread,
    };
    let mut made: Vec<(&Set, Made)> = Vec::new();
    let mut failed = 0;
    for set in due {
        let script = project.root().join(&set.reference.script);
        let result = environments
            .of(&script)
            .map_err(RegenerateError::from)
            .and_then(|runner| maker.twice(set, &runner));
        match result {
            Ok(new) => made.push((set, new)),
            Err(error) => {
                tell(set.folder, &error);
                failed += 1;
            }
        }
    }
    let more: u64 = made.iter().map(|(_, new)| size::of_folder(&new.folder)).sum();
    let less: u64 = made.iter().map(|(set, _)| size::of_folder(&fixture_root.join(set.folder))).sum();
    limits.check((taken + more).saturating_sub(less))?;

    let (mut replaced, mut kept, mut same, mut unasked) = (0, 0, 0, 0);
    for (set, new) in &made {
        let old = committed(&fixture_root, set.folder);
        let changes = changes(old.as_ref(), &new.set);
        let is_whole = !wrong.iter().any(|(name, _)| *name == set.folder);
        if is_whole && changes.rows.is_empty() && changes.told_otherwise.is_empty() {
            say(&format!("{}: made again to the byte\n", set.folder));
            same += 1;
            continue;
        }
        show(set, new, &changes, wrong, arguments.full);
        let answer =
            if arguments.yes { Answer::Yes } else { ask(&format!("replace the fixtures `{}`?", set.folder)) };
        match answer {
            Answer::Yes => {
                // The mapped files of the old set must not be what keeps the disk full.
                drop(old);
                workplace.replace(set.folder, &new.folder)?;
                replaced += 1;
            }
            Answer::No => kept += 1,
            Answer::NoTerminal => unasked += 1,
        }
    }
    if unasked > 0 {
        return Err(RegenerateError::NotAsked { count: counted(unasked, "set") }.into());
    }
    let current = all - due.len() + same;
    let mut words = vec![format!("{replaced} replaced"), format!("{current} current")];
    words.extend((kept > 0).then(|| format!("{kept} kept as they were")));
    words.extend((failed > 0).then(|| format!("{failed} failed")));
    let next = if replaced > 0 { "; next: `cargo xtask parity`" } else { "" };
    say(&format!("{}{next}\n", words.join(", ")));
    Ok(if failed + kept == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the references of sets that are current, and holds what they give against these.
fn check_by_running(
    project: &Project,
    arguments: &Arguments,
    sets: &[Set],
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
        let made = match result {
            Ok(made) => made,
            Err(error) => {
                tell(set.folder, &error);
                bad += 1;
                continue;
            }
        };
        let found = reproduce::reproduced(set, &old, &made.set);
        let headline = match found.wrong.is_empty() {
            true => reproduce::words(&old, &made.set),
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

/// One line each, and how many more there are unless all are asked for.
fn lines(texts: &[String], prefix: &str, full: bool) -> String {
    let shown = if full { texts.len() } else { texts.len().min(10) };
    let mut lines: String =
        texts[..shown].iter().map(|text| format!("  {prefix}{}\n", clean(text))).collect();
    if texts.len() > shown {
        lines += &format!("  {prefix}… and {} more; --full shows all\n", texts.len() - shown);
    }
    lines
}

/// What fixtures and runs take together.
fn taken(project: &Project) -> u64 {
    size::of_folder(&project.fixture_root()) + size::of_folder(&Out::of(project.root()).path().join("runs"))
}

impl Limits {
    /// Warns about much, and stops at too much.
    fn check(self, found: u64) -> Result<(), RegenerateError> {
        if found > self.stop {
            return Err(RegenerateError::TooLarge { found, limit: self.stop });
        }
        if found > self.warn {
            eprintln!(
                "warning: fixtures and runs take {}; the limit is {}",
                size::words(found),
                size::words(self.stop)
            );
        }
        Ok(())
    }
}

fn tell(set: &str, error: &RegenerateError) {
    eprintln!("error: {set}: {}", indented(&error_chain(error), 7));
    if let Some(next) = error.next() {
        eprintln!("to do: {next}");
    }
}

fn show(set: &Set, new: &Made, changes: &Changes, wrong: &[(&str, String)], full: bool) {
    let why = wrong.iter().find(|(name, _)| *name == set.folder).map(|(_, why)| {
        // The command that it ends with is the one that is running.
        format!(": {}", why.split("; run `cargo xtask regenerate-fixtures").next().unwrap_or(why))
    });
    let mut text = format!("\n{}{}\n", set.folder, why.unwrap_or_default());
    for remark in new.report.remarks() {
        text += &format!("  {remark}\n");
    }
    say(&(text + &table::table(changes, full)));
}
