//! A failing pair becomes what kind of wrong it is.

mod cause;
mod kind;

pub use cause::{Cause, Residual};
pub use kind::Kind;
