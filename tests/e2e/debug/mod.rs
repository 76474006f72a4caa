//! Debug sessions, end to end: scripts through a pipe, a session that a program drives, and the prompt in a terminal.

mod commands;
mod lifecycle;
mod nothing_judged;
mod scripts;
mod session;
mod terminal;
