//! Variants of the scheduler.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype};
use parity_tests::flow_match::{Config, Schedule, TimeShift};
use serde::Deserialize;

use super::ops::{Computed, scalar};
use super::{Variant, add};
use crate::change::through;
use crate::flow_match::right::Case;

const NAMES: &[&str] = &[
    "spaced_without_end",
    "static_shift_once",
    "tokens_from_zero",
    "stretched_before_shift",
    "stretched_by_inverse",
    "rho_of_five",
    "noise_and_image_exchanged",
    "step_without_length",
    "image_kept_by_variance",
    "sigmas_in_bfloat16",
    // Rewrites.
    "shifted_by_reciprocal",
    "moved_in_its_dtype",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "flow_match::euler", NAMES, walk)
}

#[derive(Deserialize)]
struct Params {
    cases: Vec<Case>,
}

fn walk(run: &Run, v: &Variant) -> PortResult {
    let noise = [run.input("noise")?, run.input("noise_bf16")?];
    let velocity = [run.input("velocity")?, run.input("velocity_bf16")?];
    let image = run.input("image")?;
    for case in run.params::<Params>()?.cases {
        // The one case whose latents are bfloat16 has this name.
        let kind = usize::from(case.name == "bfloat16");
        let _scope = scope(&case.name, None);
        let schedule = match case.image_tokens {
            Some(tokens) => schedule_for_image(&case.config, case.steps, tokens, v)?,
            None => schedule(&case.config, case.steps, v)?,
        };
        let mut sample = match case.begin {
            Some(begin) => noised(&schedule, begin as i32, &image, &noise[kind], v)?,
            None => noise[kind].clone(),
        };
        for index in case.begin.unwrap_or(0)..schedule.steps() {
            let _scope = scope("step", index);
            let velocity = velocity[kind].try_index(index as i32)?;
            sample = step(&schedule, index as i32, &velocity, &sample, v)?;
        }
    }
    Ok(())
}

fn schedule(config: &Config, steps: usize, v: &Variant) -> Result<Schedule, Exception> {
    let trained = f64::from(config.num_train_timesteps);
    let is_shifted = !config.use_dynamic_shifting && !v.is("static_shift_once");
    let end = |sigma| if is_shifted { shifted(config.shift, sigma, v) } else { sigma };
    schedule_with(config, linspace(end(1.0), end(1.0 / trained), steps, v), None, v)
}

fn schedule_for_image(
    config: &Config,
    steps: usize,
    tokens: u32,
    v: &Variant,
) -> Result<Schedule, Exception> {
    let (base, max) = (f64::from(config.base_image_seq_len), f64::from(config.max_image_seq_len));
    let slope = (config.max_shift - config.base_shift) / (max - base);
    let more = f64::from(tokens) - if v.is("tokens_from_zero") { 0.0 } else { base };
    let mu = tap("mu", Array::from_f32((config.base_shift + slope * more) as f32))?;
    let mu = f64::from(mu.item_exact::<f32>());
    schedule_with(config, linspace(1.0, 1.0 / steps as f64, steps, v), Some(mu), v)
}

fn schedule_with(
    config: &Config,
    mut sigmas: Vec<f64>,
    mu: Option<f64>,
    v: &Variant,
) -> Result<Schedule, Exception> {
    let shift = match mu.filter(|_| config.use_dynamic_shifting) {
        None => config.shift,
        Some(mu) if config.time_shift_type == TimeShift::Linear => mu,
        Some(mu) => mu.exp(),
    };
    let shift_all = |sigmas: &mut Vec<f64>| {
        sigmas.iter_mut().for_each(|sigma| *sigma = shifted(shift, *sigma, v));
    };
    let is_shifted_last = v.is("stretched_before_shift");
    if !is_shifted_last {
        shift_all(&mut sigmas);
    }
    if let (Some(terminal), Some(&last)) = (config.shift_terminal, sigmas.last()) {
        let scale = if v.is("stretched_by_inverse") {
            (1.0 - terminal) / (1.0 - last)
        } else {
            (1.0 - last) / (1.0 - terminal)
        };
        sigmas.iter_mut().for_each(|sigma| *sigma = 1.0 - (1.0 - *sigma) / scale);
    }
    if is_shifted_last {
        shift_all(&mut sigmas);
    }
    let (Some(&first), Some(&last)) = (sigmas.first(), sigmas.last()) else {
        return Err(Exception::custom("a schedule needs at least one step"));
    };
    if config.use_karras_sigmas {
        let rho = if v.is("rho_of_five") { 5 } else { 7 };
        let root = |sigma: f64| sigma.powf(1.0 / f64::from(rho));
        let roots = linspace(root(first), root(last), sigmas.len(), v);
        sigmas = roots.into_iter().map(|root| root.powi(rho)).collect();
    } else if config.use_exponential_sigmas {
        let logarithms = linspace(first.ln(), last.ln(), sigmas.len(), v);
        sigmas = logarithms.into_iter().map(f64::exp).collect();
    }
    if config.invert_sigmas {
        sigmas.iter_mut().for_each(|sigma| *sigma = 1.0 - *sigma);
    }
    let trained = config.num_train_timesteps as f32;
    let mut sigmas: Vec<f32> = sigmas.into_iter().map(|sigma| sigma as f32).collect();
    let timesteps: Vec<f32> = sigmas.iter().map(|sigma| sigma * trained).collect();
    sigmas.push(if config.invert_sigmas { 1.0 } else { 0.0 });
    Ok(Schedule {
        sigmas: tap("sigmas", Array::from_slice(&sigmas, &[sigmas.len() as i32]))?,
        timesteps: tap("timesteps", Array::from_slice(&timesteps, &[timesteps.len() as i32]))?,
    })
}

fn step(schedule: &Schedule, index: i32, velocity: &Array, sample: &Array, v: &Variant) -> Computed {
    let sigmas = if v.is("sigmas_in_bfloat16") {
        through(&schedule.sigmas, Dtype::Bfloat16)?
    } else {
        schedule.sigmas.clone()
    };
    let change = sigmas.try_index(index + 1)?.subtract(sigmas.try_index(index)?)?;
    let change = change.as_dtype(velocity.dtype())?;
    let way = if v.is("step_without_length") { velocity.clone() } else { change.multiply(velocity)? };
    // The sum of two numbers of bfloat16 is rounded once, with or without float32 in between.
    let moved = if v.is("moved_in_its_dtype") {
        sample.add(way)?
    } else {
        sample.as_dtype(Dtype::Float32)?.add(way)?
    };
    tap("sample", moved.as_dtype(velocity.dtype())?)
}

fn noised(schedule: &Schedule, index: i32, image: &Array, noise: &Array, v: &Variant) -> Computed {
    let sigma = schedule.sigmas.try_index(index)?.as_dtype(image.dtype())?;
    let clean = if v.is("image_kept_by_variance") {
        // As in diffusion that keeps the variance: the squares of both shares add up to one.
        scalar(1.0, image.dtype())?.subtract(sigma.square()?)?.sqrt()?
    } else {
        scalar(1.0, image.dtype())?.subtract(&sigma)?
    };
    let (noise, image) = if v.is("noise_and_image_exchanged") { (image, noise) } else { (noise, image) };
    tap("noised", sigma.multiply(noise)?.add(clean.multiply(image)?)?)
}

fn shifted(shift: f64, sigma: f64, v: &Variant) -> f64 {
    if v.is("shifted_by_reciprocal") {
        return shift / (shift + (1.0 / sigma - 1.0));
    }
    shift * sigma / (1.0 + (shift - 1.0) * sigma)
}

fn linspace(first: f64, last: f64, count: usize, v: &Variant) -> Vec<f64> {
    let parts = if v.is("spaced_without_end") { count } else { count.max(2) - 1 };
    (0..count).map(|index| first + (last - first) * (index as f64 / parts as f64)).collect()
}
