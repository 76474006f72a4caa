//! The program `cargo parity`, end to end: the real binary runs in projects of its own, and each test expects an exit code
//! and what is printed. One module per command.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on reports where")]

mod build_script;
#[cfg(target_os = "linux")]
mod check_macos;
mod clean;
mod colours;
mod command;
mod debug_reference;
mod diff;
mod doctor;
mod documents;
mod external_weights;
mod fixtures;
mod help;
mod init;
mod lint;
mod lint_base;
mod new_spec;
mod not_regular;
mod printed_text;
mod project;
mod recorded_run;
mod references;
mod regenerate;
mod screens;
mod serve;
#[cfg(target_os = "linux")]
mod setup;
mod shell_project;
mod show;
mod skill;
mod spec_from_reference;
mod tutorial;
mod weights;
