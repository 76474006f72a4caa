//! How the scheduler is run: each case makes its schedule and steps through it with the velocities of the fixture.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::scope;
use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use parity_tests::flow_match::{Config, Schedule, Scheduler};
use serde::Deserialize;

pub(crate) fn ports(suite: Suite) -> Suite {
    suite.port("flow_match::euler", |run| walk(run, |_| {}, Schedule::step))
}

/// One way of making a schedule.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) steps: usize,
    /// The shift depends on the size of the image.
    pub(crate) image_tokens: Option<u32>,
    /// The first step starts here, from an image with noise.
    pub(crate) begin: Option<usize>,
    /// The latents are in bfloat16.
    #[serde(default)]
    bfloat16: bool,
    #[serde(default)]
    pub(crate) config: Config,
}

#[derive(Deserialize)]
struct Params {
    cases: Vec<Case>,
}

/// Runs every case after `change`, and calls `step` for each of its steps.
pub(crate) fn walk(
    run: &Run,
    change: impl Fn(&mut Case),
    step: impl Fn(&Schedule, usize, &Array, &Array) -> Result<Array, Exception>,
) -> PortResult {
    let noise = [run.input("noise")?, run.input("noise_bf16")?];
    let velocity = [run.input("velocity")?, run.input("velocity_bf16")?];
    let image = run.input("image")?;
    for mut case in run.params::<Params>()?.cases {
        change(&mut case);
        let kind = usize::from(case.bfloat16);
        let _scope = scope(&case.name, None);
        let scheduler = Scheduler::new(case.config)?;
        let schedule = match case.image_tokens {
            Some(tokens) => scheduler.schedule_for_image(case.steps, tokens)?,
            None => scheduler.schedule(case.steps)?,
        };
        let mut sample = match case.begin {
            Some(begin) => schedule.add_noise(begin, &image, &noise[kind])?,
            None => noise[kind].clone(),
        };
        for index in case.begin.unwrap_or(0)..schedule.steps() {
            let _scope = scope("step", index);
            let velocity = velocity[kind].try_index(index as i32)?;
            sample = step(&schedule, index, &velocity, &sample)?;
        }
    }
    Ok(())
}
