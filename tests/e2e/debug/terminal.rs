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
}

impl Terminal {
    fn open(project: &Project) -> Self {
        let shown = project.path("terminal.txt");
        let mut command = in_terminal(&project.xtask(&["debug", ID, "--color", "never"]));
        let file = File::create(&shown).unwrap();
        command.stdin(Stdio::piped()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), shown }
    }

    fn text(&self) -> String {
        let mut bytes = Vec::new();
        File::open(&self.shown).unwrap().read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the terminal shows this text for the `times`th time.
    #[track_caller]
    fn shows(&self, text: &str, times: usize) {
        until(|| self.text().matches(text).count() >= times);
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
    terminal.shows("the port stands before its start", 1);
    // The cursor goes to the left, and the missing letter is typed there.
    terminal.types("break gted\x1b[D\x1b[D\x1b[Da\r");
    terminal.shows("  1  gated", 1);
    terminal.types("continue\r");
    terminal.shows("stopped at `gated`, red: value", 1);
    terminal.types("eval 40 + 2\r");
    terminal.shows("\n42", 1);
    // The last line comes back.
    terminal.types("\x1b[A\r");
    terminal.shows("\n42", 2);
    terminal.types("evl 1\r");
    terminal.shows("unknown command `evl`, did you mean `eval`?", 1);
    terminal.types("terminate\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
#[ignore = "slow: waits for the progress, which comes every two seconds"]
fn ctrl_c_pauses_a_running_port_and_a_second_one_ends_it() {
    let project = Project::with_port("waits");
    let mut terminal = Terminal::open(&project);
    terminal.shows("the port stands before its start", 1);
    terminal.types("continue\r");
    // The progress, which comes every two seconds while the port runs.
    terminal.shows("running, 2 taps, last `gated`", 1);
    terminal.types("\x03");
    terminal.shows("the port pauses at its next tap; a second Ctrl-C ends it", 1);
    File::create(project.path("go")).unwrap();
    terminal.shows("stopped at `out`, green", 1);
    terminal.shows("by a pause", 1);
    std::fs::remove_file(project.path("go")).unwrap();
    terminal.types("restart\r");
    terminal.shows("the port stands before its start", 2);
    terminal.types("continue\r");
    terminal.shows("running, 2 taps, last `gated`", 2);
    terminal.types("\x03");
    terminal.shows("the port pauses at its next tap", 2);
    terminal.types("\x03");
    terminal.shows("ended: terminated", 1);
    // The terminal drops this key if it comes before the prompt.
    until(|| {
        let _ = terminal.child.stdin.as_mut().unwrap().write_all(b"\x04");
        terminal.child.try_wait().unwrap().is_some()
    });
    assert_eq!(terminal.ends(), Some(0));
}
