//! The prompt in a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use super::session::ID;
use crate::processes::{in_terminal, until};
use crate::project::Project;

/// Python's pty: what is written to its standard input is typed, and what the terminal shows goes to a file.
struct Terminal {
    child: Child,
    shown: std::path::PathBuf,
    /// The end of the text that was waited for last.
    seen: usize,
}

impl Terminal {
    fn open(project: &Project) -> Self {
        let shown = project.path("terminal.txt");
        let mut command = in_terminal(&project.xtask(&["debug", ID, "--color", "never"]));
        let file = File::create(&shown).unwrap();
        command.stdin(Stdio::piped()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), shown, seen: 0 }
    }

    /// Waits until the terminal shows this text behind all that was waited for before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        until(|| {
            let mut bytes = Vec::new();
            File::open(&self.shown).unwrap().read_to_end(&mut bytes).unwrap();
            let found = bytes[self.seen..].windows(text.len()).position(|part| part == text.as_bytes());
            self.seen += found.map_or(0, |at| at + text.len());
            found.is_some()
        });
    }

    fn types(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    fn ends(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn lines_can_be_edited_and_repeated() {
    let project = Project::with_port("scaled");
    let mut terminal = Terminal::open(&project);
    terminal.shows("the port stands before its start");
    // The cursor goes to the left, and the missing letter is typed there.
    terminal.types("break gted\x1b[D\x1b[D\x1b[Da\r");
    terminal.shows("  1  gated");
    terminal.types("continue\r");
    terminal.shows("stopped at `gated`, red: value");
    terminal.types("eval 40 + 2\r");
    terminal.shows("\n42");
    // The last line comes back.
    terminal.types("\x1b[A\r");
    terminal.shows("\n42");
    terminal.types("evl 1\r");
    terminal.shows("unknown command `evl`, did you mean `eval`?");
    terminal.types("terminate\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
#[ignore = "slow: waits for the progress, which comes every two seconds"]
fn ctrl_c_pauses_a_running_port_and_a_second_one_ends_it() {
    let project = Project::with_port("waits");
    let mut terminal = Terminal::open(&project);
    terminal.shows("the port stands before its start");
    terminal.types("continue\r");
    // The progress, which comes every two seconds while the port runs.
    terminal.shows("running, 2 taps, last `gated`");
    terminal.types("\x03");
    terminal.shows("the port pauses at its next tap; a second Ctrl-C ends it");
    File::create(project.path("go")).unwrap();
    terminal.shows("stopped at `out`, green");
    terminal.shows("by a pause");
    std::fs::remove_file(project.path("go")).unwrap();
    terminal.types("restart\r");
    terminal.shows("the port stands before its start");
    terminal.types("continue\r");
    terminal.shows("running, 2 taps, last `gated`");
    terminal.types("\x03");
    terminal.shows("the port pauses at its next tap");
    terminal.types("\x03");
    terminal.shows("ended: terminated");
    // The terminal drops this key if it comes before the prompt.
    until(|| {
        let _ = terminal.child.stdin.as_mut().unwrap().write_all(b"\x04");
        terminal.child.try_wait().unwrap().is_some()
    });
    assert_eq!(terminal.ends(), Some(0));
}
