//! End-to-end tests of `mlx-parity-serve`: the real program, real clients, and ports that run.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on reports where")]

mod client;
mod described;
mod fronts;
mod hostile;
mod in_step;
mod mcp;
#[path = "../../../../tests/e2e/processes.rs"]
mod processes;
mod project;
mod rest;
mod start;
mod workflows;
