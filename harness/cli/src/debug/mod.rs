//! Debug sessions: a port stands at its taps, can be looked at and changed there, and goes on.
//!
//! All fronts (the prompt of `cargo parity debug`, and servers) use one [`Session`]: they give it a [`Command`] and get an
//! [`Answer`]. Both are serde types with a stable JSON shape, and both have a text form for people: [`Command::parse`],
//! `Command`'s `Display`, and [`answer_text`].
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mlx_parity_cli::Project;
//! use mlx_parity_cli::debug::{Answer, Command, Options, Session, answer_text};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let project = Project::new(".", "parity-specs", "fixtures");
//! let session = Session::start(&project, Options::new("gated_mlp/block"))?;
//! session.perform(Command::parse("break failed")?.unwrap(), None);
//! let answer = session.perform(Command::Continue, Some(Duration::from_secs(60)));
//! if let Answer::Stopped(stop) = &answer {
//!     assert!(stop.tap.is_some());
//! }
//! print!("{}", answer_text(&answer));
//! # Ok(()) }
//! ```

mod arguments;
mod error;
mod link;
mod options;
mod prompt;
mod reference;
mod script;
mod session;
mod state;
mod suite;

pub(crate) use arguments::{Arguments, run};
pub use error::DebugError;
pub use mlx_parity_core::debug::{
    Breakpoint, CommandUsage, DebugAnswer as Answer, DebugCommand as Command, DebugState as State,
    DebugStatus as Status, Diagnosed, EndKind, Ended, GoesOn, HelpTopic, On, ParseError, ShownTensor, Stop,
    StopReason, TappedTensor, Trace, TraceEvent, TraceLine, Value, Variable, VariableKind, Variables,
    command_help,
};
pub use mlx_parity_core::report::answer_text;
pub use options::Options;
pub use session::Session;
