//! End-to-end tests of `mlx-parity-serve`: the real program, real clients, and ports that run.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on reports where")]

mod client;
mod hostile;
mod mcp;
mod project;
mod rest;
mod same_answers;
mod start;
