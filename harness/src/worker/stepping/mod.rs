//! The worker of a debug session: the port stands at its taps, and the session's commands are performed there.

mod channel;
mod condition;
mod here;
mod perform;
mod source_lines;
mod stepper;
mod tensors;

pub(super) use stepper::step;
