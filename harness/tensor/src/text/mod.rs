//! Text for people: safe printing, error chains, the name of the program, suggestions for misspelt names, patterns.

#[macro_use]
pub mod printable;
mod error_chain;
pub mod glob;
pub mod program;
pub mod suggest;

pub use error_chain::error_chain;

/// `once`, or `3 times`.
pub fn times(count: usize) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}
