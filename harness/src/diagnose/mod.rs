//! A failing pair becomes what kind of wrong it is.

mod kind;

pub use kind::Kind;
