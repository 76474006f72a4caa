//! Faults in the scheduler.

#[path = "../parity/flow_match.rs"]
pub(crate) mod right;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype};
use parity_tests::flow_match::{Schedule, TimeShift};
use right::{Case, walk};

use crate::at_tap::{TapFault, add_faults};
use crate::change::{backwards, garbage, plus, taken, times};

pub(crate) fn ports(suite: Suite) -> Suite {
    add_faults(right::ports(suite), "flow_match::euler", |run| with(run, |_| {}), AT_TAPS)
        // A timestep in place of an index: step 1000 of 4, which the schedule refuses.
        .port("flow_match::euler/indexed_by_timestep", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                let timestep = schedule.timestep(index)?.item_exact::<f32>();
                schedule.step(timestep as usize, velocity, sample)
            })
        })
        // Red only from the third step on, since evenly spaced steps all have the same length, except for the last.
        .port("flow_match::euler/one_step_late", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                schedule.step((index + 1).min(schedule.steps() - 1), velocity, sample)
            })
        })
        .port("flow_match::euler/static_shift_forgotten", |run| with(run, |case| case.config.shift = 1.0))
        // The right formula for mu, with the upper end of another model.
        .port("flow_match::euler/max_shift", |run| with(run, |case| case.config.max_shift = 1.16))
        .port("flow_match::euler/linear_as_exponential", |run| {
            with(run, |case| case.config.time_shift_type = TimeShift::Exponential)
        })
        .port("flow_match::euler/no_terminal", |run| with(run, |case| case.config.shift_terminal = None))
        // The velocity of a model that predicts from noise to image.
        .port("flow_match::euler/velocity_sign", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                schedule.step(index, &velocity.negative()?, sample)
            })
        })
        .port("flow_match::euler/one_step_early_from_image", |run| {
            with(run, |case| case.begin = case.begin.map(|begin| begin - 1))
        })
        // Once in the loop and once in the function that it calls.
        .port("flow_match::euler/stepped_twice", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                let sample = schedule.step(index, velocity, sample)?;
                schedule.step(index, velocity, &sample)
            })
        })
        // The step returns the dtype that it computes in, not the dtype of the model.
        .port("flow_match::euler/stays_float32", |run| {
            stepping(run, |schedule, index, velocity, sample| {
                schedule.step(index, &velocity.as_dtype(Dtype::Float32)?, sample)
            })
        })
}

const AT_TAPS: &[TapFault] = &[
    ("ascending", "karras.timesteps", &[], |x, _| backwards(x, 0)),
    // The values after each step, not before it.
    ("timesteps_one_late", "terminal.timesteps", &["terminal.sigmas"], |_, from| {
        times(&from[0].try_index(1..)?, 1000.0)
    }),
    // From 1 to 1000, not from 0 to 999.
    ("timesteps_from_one", "exponential.timesteps", &[], |x, _| plus(x, 1.0)),
    // Red at one of five, since the last but one is written twice.
    ("last_timestep_doubled", "karras.timesteps", &[], |x, _| taken(x, 0, [0, 1, 2, 3, 3])),
    ("timesteps_in_shares", "static_shift.timesteps", &[], |x, _| times(x, 1e-3)),
    ("step_left_out", "plain.step.1.sample", &["plain.step.0.sample"], |_, from| Ok(from[0].clone())),
    // A timestep in place of an index, where nothing refuses it.
    ("read_out_of_bounds", "karras.step.0.sample", &[], |x, _| garbage(x.shape(), x.dtype())),
];

/// Runs the port with this change to each case.
fn with(run: &Run, fault: impl Fn(&mut Case)) -> PortResult {
    walk(run, fault, Schedule::step)
}

/// Runs the port with this function in place of a step.
fn stepping(
    run: &Run,
    step: impl Fn(&Schedule, usize, &Array, &Array) -> Result<Array, Exception>,
) -> PortResult {
    walk(run, |_| {}, step)
}
