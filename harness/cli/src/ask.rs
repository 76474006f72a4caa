//! Asks the person at the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum YesNo {
    Yes,
    No,
    /// Nobody can be asked: stdin or stderr is not a terminal.
    NoTerminal,
}

/// Asks a question on stderr. Anything but `y` or `yes` is a no.
pub(crate) fn ask(question: &str) -> YesNo {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return YesNo::NoTerminal;
    }
    eprint!("{question} [y/N] ");
    let _ = io::stderr().flush();
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(_) if matches!(line.trim().to_lowercase().as_str(), "y" | "yes") => YesNo::Yes,
        _ => YesNo::No,
    }
}
