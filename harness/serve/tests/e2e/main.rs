//! End-to-end tests of `mlx-parity-serve`: the real program, real clients, and ports that run.

mod client;
mod hostile;
mod mcp;
mod project;
mod rest;
mod same_answers;
mod start;
