//! Sampling for flow-matching models: a schedule of noise levels, and its steps.

mod config;
mod euler;

pub use config::{Config, TimeShift};
pub use euler::{Schedule, Scheduler};
