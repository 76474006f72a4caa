//! The Euler scheduler for flow matching, `FlowMatchEulerDiscreteScheduler` in diffusers.

use mlx_parity_tap::tap;
use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype};

use super::{Config, TimeShift};

/// Makes schedules.
#[derive(Debug, Clone)]
pub struct Scheduler {
    config: Config,
}

impl Scheduler {
    /// Creates a scheduler.
    ///
    /// # Errors
    /// When the config asks for something that is not supported, or for two spacings at once.
    pub fn new(config: Config) -> Result<Self, Exception> {
        if config.use_beta_sigmas || config.stochastic_sampling {
            return Err(Exception::custom("`use_beta_sigmas` and `stochastic_sampling` are not supported"));
        }
        if config.use_karras_sigmas && config.use_exponential_sigmas {
            return Err(Exception::custom("sigmas are spaced by Karras or exponentially, not both"));
        }
        Ok(Self { config })
    }

    /// A schedule of evenly spaced sigmas between the ends that the model was trained with.
    ///
    /// # Errors
    /// When the shift depends on the image.
    pub fn schedule(&self, steps: usize) -> Result<Schedule, Exception> {
        let trained = f64::from(self.config.num_train_timesteps);
        // The ends are shifted first, and then all sigmas, so the sigmas are shifted twice.
        let end =
            |sigma| if self.config.use_dynamic_shifting { sigma } else { shifted(self.config.shift, sigma) };
        self.schedule_with(linspace(end(1.0), end(1.0 / trained), steps), None)
    }

    /// The schedule for an image of this many tokens, as the pipelines of Flux and Qwen-Image make it: the larger the
    /// image, the longer it stays near pure noise.
    ///
    /// # Errors
    /// When there are no steps.
    pub fn schedule_for_image(&self, steps: usize, tokens: u32) -> Result<Schedule, Exception> {
        let Config { base_shift, max_shift, .. } = self.config;
        let (base, max) = (self.config.base_image_seq_len, self.config.max_image_seq_len);
        let slope = (max_shift - base_shift) / (f64::from(max) - f64::from(base));
        let mu =
            tap("mu", Array::from_f32((base_shift + slope * (f64::from(tokens) - f64::from(base))) as f32))?;
        self.schedule_with(linspace(1.0, 1.0 / steps as f64, steps), Some(f64::from(mu.item_exact::<f32>())))
    }

    /// The schedule of the given sigmas before any shift. Everything is computed in float64 and rounded once.
    fn schedule_with(&self, mut sigmas: Vec<f64>, mu: Option<f64>) -> Result<Schedule, Exception> {
        let shift = match (self.config.use_dynamic_shifting, mu) {
            (false, _) => self.config.shift,
            (true, None) => return Err(Exception::custom("a dynamic shift needs the size of the image")),
            (true, Some(mu)) if self.config.time_shift_type == TimeShift::Linear => mu,
            (true, Some(mu)) => mu.exp(),
        };
        sigmas.iter_mut().for_each(|sigma| *sigma = shifted(shift, *sigma));
        if let (Some(terminal), Some(&last)) = (self.config.shift_terminal, sigmas.last()) {
            let scale = (1.0 - last) / (1.0 - terminal);
            sigmas.iter_mut().for_each(|sigma| *sigma = 1.0 - (1.0 - *sigma) / scale);
        }
        let (Some(&first), Some(&last)) = (sigmas.first(), sigmas.last()) else {
            return Err(Exception::custom("a schedule needs at least one step"));
        };
        if self.config.use_karras_sigmas {
            let roots = linspace(first.powf(1.0 / 7.0), last.powf(1.0 / 7.0), sigmas.len());
            sigmas = roots.into_iter().map(|root| root.powi(7)).collect();
        } else if self.config.use_exponential_sigmas {
            let logarithms = linspace(first.ln(), last.ln(), sigmas.len());
            sigmas = logarithms.into_iter().map(f64::exp).collect();
        }
        if self.config.invert_sigmas {
            sigmas.iter_mut().for_each(|sigma| *sigma = 1.0 - *sigma);
        }
        let trained = self.config.num_train_timesteps as f32;
        let mut sigmas: Vec<f32> = sigmas.into_iter().map(|sigma| sigma as f32).collect();
        let timesteps: Vec<f32> = sigmas.iter().map(|sigma| sigma * trained).collect();
        // Where the last step ends: at the clean image.
        sigmas.push(if self.config.invert_sigmas { 1.0 } else { 0.0 });
        Ok(Schedule {
            sigmas: tap("sigmas", Array::from_slice(&sigmas, &[sigmas.len() as i32]))?,
            timesteps: tap("timesteps", Array::from_slice(&timesteps, &[timesteps.len() as i32]))?,
        })
    }
}

/// The noise levels of all steps. A step is given by its index: a timestep is a number for the model, and MLX returns
/// foreign memory for an index that is out of bounds.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Share of noise before each step and after the last one, so one more than steps.
    pub sigmas: Array,
    /// Timesteps that the model receives, one per step.
    pub timesteps: Array,
}

impl Schedule {
    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.timesteps.size()
    }

    /// The timestep that the model receives before step `index`.
    ///
    /// # Errors
    /// When there is no such step.
    pub fn timestep(&self, index: usize) -> Result<Array, Exception> {
        self.timesteps.try_index(self.checked(index)?)
    }

    /// Takes step `index`: moves `sample` along `velocity` to the next noise level. The result has the dtype of `velocity`.
    ///
    /// # Errors
    /// When there is no such step.
    pub fn step(&self, index: usize, velocity: &Array, sample: &Array) -> Result<Array, Exception> {
        let index = self.checked(index)?;
        let change = self.sigmas.try_index(index + 1)?.subtract(self.sigmas.try_index(index)?)?;
        // Scalars of PyTorch do not widen a product, so the change is computed in the dtype of the velocity;
        // it is added to the sample in float32.
        let way = change.as_dtype(velocity.dtype())?.multiply(velocity)?;
        let moved = sample.as_dtype(Dtype::Float32)?.add(way)?;
        tap("sample", moved.as_dtype(velocity.dtype())?)
    }

    /// Adds to `sample` the noise that there is before step `index`, so that sampling can start there.
    ///
    /// # Errors
    /// When there is no such step.
    pub fn add_noise(&self, index: usize, sample: &Array, noise: &Array) -> Result<Array, Exception> {
        let sigma = self.sigmas.try_index(self.checked(index)?)?.as_dtype(sample.dtype())?;
        let clean = Array::from_f32(1.0).as_dtype(sample.dtype())?.subtract(&sigma)?;
        tap("noised", sigma.multiply(noise)?.add(clean.multiply(sample)?)?)
    }

    fn checked(&self, index: usize) -> Result<i32, Exception> {
        if index < self.steps() {
            return Ok(index as i32);
        }
        Err(Exception::custom(format!("there is no step {index}, the schedule has {}", self.steps())))
    }
}

/// Moves a sigma towards 1: `shift / (shift + 1 / sigma - 1)`.
fn shifted(shift: f64, sigma: f64) -> f64 {
    shift * sigma / (1.0 + (shift - 1.0) * sigma)
}

/// `count` evenly spaced numbers, both ends included.
fn linspace(first: f64, last: f64, count: usize) -> Vec<f64> {
    let way = |index: usize| index as f64 / (count.max(2) - 1) as f64;
    (0..count).map(|index| first + (last - first) * way(index)).collect()
}
