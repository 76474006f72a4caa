//! The servers of mlx-parity, for programs and coding agents.
//!
//! - [`rest`]: debug sessions over HTTP on this machine. `cargo parity debug --serve 127.0.0.1:8000` starts it.
//! - [`mcp`]: specs, runs, causes and debug sessions over MCP on standard input and output. `cargo parity mcp` starts it.
//!
//! Both have one [`Debugger`], which holds at most one debug session. The answers are those of
//! [`mlx_parity_cli::debug::Answer`], with the same JSON in both.

#[macro_use]
extern crate mlx_parity_core;

mod arguments;
mod debugger;
mod end_signal;
mod failure;
pub mod mcp;
pub mod rest;

pub use arguments::main;
pub use debugger::{Debugger, StartRequest};
pub use failure::{Failure, FailureKind};
