//! Mistakes in the scheduler.

#[path = "../parity/flow_match.rs"]
mod right;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype};
use parity_tests::flow_match::{Schedule, TimeShift};
use right::{Case, walk};

pub(crate) fn ports(suite: Suite) -> Suite {
    right::ports(suite)
        // A timestep is taken for an index: step 1000 of 4, which the schedule refuses.
        .port("flow_match::euler/indexed_by_timestep", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                let timestep = schedule.timestep(index)?.item_exact::<f32>();
                schedule.step(timestep as usize, velocity, sample)
            })
        })
        // Red only from the third step on: evenly spaced steps are all as long as one another, but for the last.
        .port("flow_match::euler/one_step_late", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                schedule.step((index + 1).min(schedule.steps() - 1), velocity, sample)
            })
        })
        .port("flow_match::euler/static_shift_forgotten", |run| with(run, |case| case.config.shift = 1.0))
        // The right formula for mu, with an end that is not this model's.
        .port("flow_match::euler/max_shift", |run| with(run, |case| case.config.max_shift = 1.16))
        .port("flow_match::euler/linear_as_exponential", |run| {
            with(run, |case| case.config.time_shift_type = TimeShift::Exponential)
        })
        .port("flow_match::euler/no_terminal", |run| with(run, |case| case.config.shift_terminal = None))
        // The velocity of a model that predicts the way from noise to image.
        .port("flow_match::euler/velocity_sign", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                schedule.step(index, &velocity.negative()?, sample)
            })
        })
        .port("flow_match::euler/one_step_early_from_image", |run| {
            with(run, |case| case.begin = case.begin.map(|begin| begin - 1))
        })
        // The step hands on what it computed in, not what the model computes in.
        .port("flow_match::euler/stays_float32", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                schedule.step(index, &velocity.as_dtype(Dtype::Float32)?, sample)
            })
        })
}

/// The port as it is, but for what `mistake` does to each case.
fn with(run: &Run, mistake: impl Fn(&mut Case)) -> PortResult {
    walk(run, mistake, Schedule::step)
}

/// The port as it is, but for how a step is taken.
fn stepping(
    run: &Run,
    step: impl Fn(&Schedule, usize, &Array, &Array) -> Result<Array, Exception>,
) -> PortResult {
    walk(run, |_| {}, step)
}
