//! Every kind of wrong, planted in values and found in them again; and values that nothing explains.

mod functions;
mod kit;
mod order;
mod rotary;
mod unexplained;
mod values;
