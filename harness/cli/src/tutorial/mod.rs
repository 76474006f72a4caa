//! The command `tutorial`: a small crate with a planted mistake, and eleven steps from its red run to a spec that can be
//! trusted. Each step is checked on the real files and the real results.

mod error;
mod files;
mod folder;
mod lessons;
mod session;
mod source;
mod state;
mod workshop;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::init::SourceArguments;
use super::{CliError, say};
pub(crate) use error::TutorialError;
use folder::{Beginning, OpenFolder, Wanted};
use lessons::LESSONS;
use mlx_parity_core::text::printable::{clean, paint};
use mlx_parity_core::text::program::program;
use session::{Learner, Sitting, SittingEnd};
use state::State;
use workshop::Workshop;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask tutorial                      Start in a temporary folder, or continue there\n  \
    cargo xtask tutorial learn                Start in the folder `learn`, or continue there\n  \
    cargo xtask tutorial learn --restart      Begin again\n  \
    cargo xtask tutorial --list               List the steps\n\n\
    The tutorial takes about ten minutes, and the first build some minutes more. It needs no PyTorch\n\
    and changes nothing outside its folder. Leave at any time with q, Ctrl-D or Ctrl-C: steps that\n\
    are done stay done. CARGO_TARGET_DIR moves the build elsewhere, as usual. If this program is in a\n\
    checkout of mlx-parity, the crates come from there.\n\n\
    With --non-interactive, exits with 1 when a step fails its check.")]
pub(crate) struct Arguments {
    /// Folder of the tutorial, new or empty [default: a temporary folder]
    folder: Option<PathBuf>,
    /// List the steps, and with FOLDER those that are done
    #[arg(long, conflicts_with_all = ["restart", "non_interactive", "path", "git", "rev"])]
    list: bool,
    /// Begin again: write the crate's files anew
    #[arg(long)]
    restart: bool,
    /// Do every step without a learner, and check each
    #[arg(long)]
    non_interactive: bool,
    #[command(flatten)]
    source: SourceArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.list {
        let state = arguments.folder.as_deref().map(State::read).transpose()?.flatten();
        say(&list(state.as_ref()));
        return Ok(ExitCode::SUCCESS);
    }
    let open = OpenFolder::open(&Wanted {
        folder: arguments.folder.as_deref(),
        source: &arguments.source,
        restart: arguments.restart,
    })?;
    let OpenFolder { root, state, beginning, .. } = &open;
    let Some(first) = first_step(root, state)? else {
        say(&format!(
            "You have finished the tutorial in `{}`. To begin again, add `--restart`.\n",
            clean(&root.display().to_string())
        ));
        return Ok(ExitCode::SUCCESS);
    };
    say(&welcome(root, *beginning));
    let mut input = std::io::stdin().lock();
    let session = Sitting {
        lessons: LESSONS,
        workshop: &Workshop::new(root),
        learner: if arguments.non_interactive { Learner::Nobody } else { Learner::Person(&mut input) },
        say: &mut |text| {
            say(text);
            // The prompt does not end a line.
            let _ = std::io::stdout().flush();
        },
        save: &mut |step| State::at(step, state.source.clone()).write(root),
    };
    match session.run(first)? {
        SittingEnd::Finished => say(&farewell(root)),
        SittingEnd::Left(at) => say(&format!(
            "\nYou left at step {} of {}. To continue:\n\n  {}\n",
            at + 1,
            LESSONS.len(),
            continuation(root)
        )),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the position of the step to continue with; `None` after the last.
fn first_step(root: &Path, state: &State) -> Result<Option<usize>, TutorialError> {
    let Some(id) = &state.step else { return Ok(None) };
    match lessons::position(id) {
        Some(position) => Ok(Some(position)),
        None => {
            let known: Vec<&str> = LESSONS.iter().map(|lesson| lesson.id).collect();
            Err(State::wrong_step(root, id, &known))
        }
    }
}

fn list(state: Option<&State>) -> String {
    let next = state.map(|state| state.step.as_deref().and_then(lessons::position).unwrap_or(LESSONS.len()));
    let mut text = String::new();
    for (at, lesson) in LESSONS.iter().enumerate() {
        let mark = match next {
            Some(next) if at < next => "done",
            Some(next) if at == next => "next",
            _ => "",
        };
        let line = format!("{:>3}  {:<11} {:<22} {mark}", at + 1, lesson.id, lesson.title);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn welcome(root: &Path, beginning: Beginning) -> String {
    let folder = clean(&root.display().to_string()).into_owned();
    if beginning == Beginning::Continued {
        return format!("Welcome back. The tutorial's folder is\n\n  {folder}\n");
    }
    let heading = "From a red port to a spec that you can trust, in eleven steps";
    format!(
        "{}\n\n\
         You get a crate with a port that is nearly right. You find its mistake, fix\n\
         it, and make sure that no mistake like it comes back. That takes about ten\n\
         minutes, and needs no PyTorch. The crate is in\n\n  \
         {folder}\n\n\
         Open this folder in your editor. At the prompt, Enter goes on, `hint` helps,\n\
         `solve` does the step for you, and `q` leaves. To continue later:\n\n  \
         {}\n",
        paint(true, "1", heading),
        continuation(root)
    )
}

fn farewell(root: &Path) -> String {
    format!(
        "\n{}\n\n\
         You ran a port against its reference, read the cause of a failure, fixed it,\n\
         added a checkpoint, injected a golden, stepped through the port, read a record,\n\
         accepted statistics and tested the spec itself. In your own crate, start with\n\n  \
         {} init\n\n\
         The tutorial's folder is yours to play with. When you no longer need it:\n\n  \
         rm -r {}\n",
        paint(true, "1;32", "That was the tutorial."),
        program(),
        shell_word(root)
    )
}

/// Returns the command that continues the tutorial in this folder.
fn continuation(root: &Path) -> String {
    format!("{} tutorial {}", program(), shell_word(root))
}

/// Returns the path as one word of a shell.
fn shell_word(path: &Path) -> String {
    let text = clean(&path.display().to_string()).into_owned();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::CrateSource;

    fn at(step: Option<&str>) -> State {
        State::at(step, CrateSource::Git { url: "https://x.test".into(), revision: None })
    }

    #[test]
    fn the_list_marks_what_is_done() {
        insta::assert_snapshot!("list", list(None));
        insta::assert_snapshot!("list_at_fix", list(Some(&at(Some("fix")))));
        assert_eq!(list(Some(&at(None))).matches("done").count(), LESSONS.len());
    }

    #[test]
    fn an_unknown_step_is_an_error_that_lists_the_known_ones() {
        assert_eq!(first_step(Path::new("/a"), &at(Some("fix"))).unwrap(), Some(2));
        assert_eq!(first_step(Path::new("/a"), &at(None)).unwrap(), None);
        let error = first_step(Path::new("/a"), &at(Some("fxi"))).unwrap_err().to_string();
        assert!(error.contains("`fxi`") && error.contains("`run`, `diagnose`, `fix`"), "{error}");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word(Path::new("/tmp/a-b_1")), "/tmp/a-b_1");
        assert_eq!(shell_word(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
