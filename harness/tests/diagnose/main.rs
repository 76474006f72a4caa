//! Every kind of wrong, planted in values and found in them again; and values that nothing explains.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod facts;
mod functions;
mod kit;
mod order;
mod rotary;
mod unexplained;
mod values;
mod wrong_causes;
