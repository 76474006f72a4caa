//! The terminal front of a session: a prompt with line editing, or lines from a pipe.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::script::lines;
use super::session::Session;
use super::{Answer, Command, State, answer_text};
use crate::say;
use mlx_parity_core::text::printable;
use mlx_parity_core::text::program::program;

/// Time between two looks at a running port.
const PROGRESS: Duration = Duration::from_secs(2);
/// The prompt.
const PROMPT: &str = "(parity) ";

/// How the front prints.
pub(super) struct Front {
    /// Answers are JSON objects, one per line.
    pub(super) json: bool,
    /// The root of the project, from which paths are printed.
    pub(super) root: PathBuf,
}

/// Serves a session from standard input to its end, and returns the exit code.
pub(super) fn serve(session: Session, front: Front) -> ExitCode {
    let session = Arc::new(session);
    let interrupts = Arc::new(Interrupts::default());
    handle_interrupts(&session, &interrupts);
    let prompt = Prompt { session, front, interrupts };
    let started = prompt.watched(prompt.session.wait(Some(PROGRESS)));
    prompt.print(&started);
    let misused = match started {
        Answer::Ended(_) => false,
        _ if io::stdin().is_terminal() => prompt.ask_at_terminal(),
        _ => prompt.read_script(),
    };
    let crashed = prompt.session.status().ended.is_some_and(|ended| ended.how.is_failure());
    prompt.session.terminate();
    prompt.print_trace();
    match (misused, crashed) {
        (true, _) => ExitCode::from(2),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}

struct Prompt {
    session: Arc<Session>,
    front: Front,
    interrupts: Arc<Interrupts>,
}

/// What the handler of Ctrl-C knows.
#[derive(Default)]
struct Interrupts {
    /// Whether a command is being performed.
    performing: AtomicBool,
    /// Whether Ctrl-C was pressed since the latest command.
    pressed: AtomicBool,
}

impl Prompt {
    /// Reads lines from a pipe. Returns whether a line was no command, which ends the script.
    fn read_script(&self) -> bool {
        for (index, line) in lines(io::stdin().lock()).enumerate() {
            let line = match line {
                Ok(line) => line,
                Err(problem) => {
                    self.print(&Answer::error(format!("line {} of the script {problem}", index + 1)));
                    return true;
                }
            };
            if !self.front.json && !line.trim().is_empty() {
                say(&format!("{PROMPT}{}\n", printable::clean(line.trim())));
            }
            match self.perform(&line) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(message) => {
                    self.print(&Answer::error(format!("line {} of the script: {message}", index + 1)));
                    return true;
                }
            }
        }
        false
    }

    /// Asks for lines at a terminal.
    fn ask_at_terminal(&self) -> bool {
        let mut editor = match DefaultEditor::new() {
            Ok(editor) => editor,
            Err(error) => {
                eprintln!("the terminal cannot edit lines: {error}");
                return self.read_script();
            }
        };
        let mut is_second = false;
        loop {
            match editor.readline(PROMPT) {
                Ok(line) => {
                    is_second = false;
                    let _ = editor.add_history_entry(line.as_str());
                    match self.perform(&line) {
                        Ok(true) => {}
                        Ok(false) => return false,
                        Err(message) => self.print(&Answer::error(message)),
                    }
                }
                Err(ReadlineError::Interrupted) if !is_second => {
                    is_second = true;
                    eprintln!("`terminate` or a second Ctrl-C ends the session");
                }
                Err(ReadlineError::Interrupted | ReadlineError::Eof) => return false,
                Err(error) => {
                    eprintln!("the terminal cannot be read: {error}");
                    return false;
                }
            }
        }
    }

    /// Performs one line. Returns whether the session goes on, or why the line is no command.
    fn perform(&self, line: &str) -> Result<bool, String> {
        let Some(command) = Command::parse(line).map_err(|error| error.to_string())? else { return Ok(true) };
        let is_last = command == Command::Terminate;
        self.interrupts.pressed.store(false, Ordering::Relaxed);
        self.interrupts.performing.store(true, Ordering::Relaxed);
        let answer = self.watched(self.session.perform(command, Some(PROGRESS)));
        self.interrupts.performing.store(false, Ordering::Relaxed);
        self.print(&answer);
        Ok(!is_last)
    }

    /// Waits until the port stands. A terminal shows how far it is every two seconds.
    fn watched(&self, mut answer: Answer) -> Answer {
        let mut bar: Option<ProgressBar> = None;
        while let Answer::Running(status) = &answer {
            // While it starts, Cargo draws its own progress.
            if status.state != State::Starting && io::stderr().is_terminal() {
                let text = format!("{}, {} s", answer_text(&answer).trim_end(), status.seconds);
                let bar = bar.get_or_insert_with(ProgressBar::new_spinner);
                bar.set_message(printable::clean(&text).into_owned());
                bar.tick();
            }
            answer = self.session.wait(Some(PROGRESS));
        }
        bar.inspect(ProgressBar::finish_and_clear);
        answer
    }

    fn print(&self, answer: &Answer) {
        if !self.front.json {
            say(&answer_text(answer));
            return;
        }
        match serde_json::to_string(answer) {
            Ok(text) => say(&format!("{}\n", printable::json(&text))),
            Err(error) => eprintln!("the answer cannot be written as JSON: {error}"),
        }
    }

    /// Names the folder of the session.
    fn print_trace(&self) {
        let folder = self.session.folder();
        let shown = folder.strip_prefix(&self.front.root).unwrap_or(folder);
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        eprintln!("DEBUG session, nothing was judged; trace: {}/trace.jsonl", shown.display());
        eprintln!("see it with `{} report {name}`", program());
    }
}

/// The first Ctrl-C pauses a running port, the second ends it. While the port stands and a command computes, the first one
/// only says so, since the work of a command has a limit. Otherwise, it ends the session.
fn handle_interrupts(session: &Arc<Session>, interrupts: &Arc<Interrupts>) {
    let (session, interrupts) = (Arc::downgrade(session), Arc::clone(interrupts));
    let handled = ctrlc::set_handler(move || {
        let Some(session) = session.upgrade() else { return };
        let is_first = !interrupts.pressed.swap(true, Ordering::Relaxed);
        if is_first && session.pause() {
            eprintln!("the port pauses at its next tap; a second Ctrl-C ends it");
            return;
        }
        let computes =
            || interrupts.performing.load(Ordering::Relaxed) && session.status().state == State::Paused;
        if is_first && computes() {
            eprintln!("the command goes on to its end; a second Ctrl-C ends the session");
            return;
        }
        session.terminate();
    });
    if let Err(error) = handled {
        eprintln!("Ctrl-C ends the session at once: {error}");
    }
}
