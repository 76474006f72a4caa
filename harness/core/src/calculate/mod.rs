//! Expressions over tensors, evaluated in float64: `abs(actual - golden)[0, :, 3].max()`.
//!
//! A text is a list of statements, one per line or separated by `;`. `name = expression` sets a variable, any other
//! statement is an answer. `#` starts a comment. From loosest to tightest: `|`, `&`, one comparison
//! (`== != < <= > >=`), `+ -`, `* / % @`, unary `-` and `!`, `**`, and `[…]`, `.name(…)`, `.shape`. Shapes broadcast as in
//! NumPy. A truth value is 1 or 0. [`help`] lists the functions.
//!
//! The parser is hand-written: the grammar has a dozen rules, and every error needs the exact place, the allowed words and
//! the names of the tensors. The operations are those of [`replay`](crate::replay), so its limits on steps and memory hold.

mod answer;
mod arguments;
mod calculator;
mod error;
mod functions;
mod indexing;
mod lexer;
mod syntax;
mod tree;

pub use answer::{Answer, Number, Printed, short};
pub use calculator::{Calculator, Limits, Tensors};
pub use error::CalculateError;
pub use functions::help;
pub use syntax::check_syntax;

#[cfg(test)]
mod tests;
