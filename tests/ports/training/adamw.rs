//! AdamW as `torch.optim` computes it. mlx-rs's own `AdamW` does not correct the bias of the moments.

use std::rc::Rc;

use mlx_rs::Array;
use mlx_rs::error::{Exception, StateProjectionError};
use mlx_rs::optimizers::{Optimizer, OptimizerState, State};
use mlx_rs::utils::{StateProjection, Updatable};

/// The first and the second moment per parameter.
pub type Moments = State<(Array, Array)>;

/// The optimiser.
#[derive(Debug, Clone)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f32,
    /// Decay of the first and of the second moment. In float32, `1 - 0.999` is off by 1.3e-5 of itself.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Weight decay of parameters with two axes or more. Norms and biases do not decay.
    pub weight_decay: f32,
    /// Number of the step, from 1. The caller increases it.
    pub step: i32,
    /// Moments per parameter.
    pub moments: Moments,
}

impl AdamW {
    /// Creates an optimiser before its first step, with torch's betas and eps.
    pub fn new(lr: f32, weight_decay: f32) -> Self {
        Self { lr, betas: (0.9, 0.999), eps: 1e-8, weight_decay, step: 1, moments: State::new() }
    }

    /// The moments of a parameter after this gradient, and stores them.
    pub fn moments_after(&mut self, key: &Rc<str>, gradient: &Array) -> Result<(Array, Array), Exception> {
        let zeros = || Ok::<_, Exception>((gradient.multiply(number(0.0))?, gradient.multiply(number(0.0))?));
        let (m, v) = self.moments.remove(key).map_or_else(zeros, Ok)?;
        let (first, second) = self.betas;
        let m = mixed(&m, gradient, first)?;
        let v = mixed(&v, &gradient.square()?, second)?;
        self.moments.insert(Rc::clone(key), (m.clone(), v.clone()));
        Ok((m, v))
    }

    /// The part of a decayed parameter that is left.
    pub fn kept(&self, parameter: &Array) -> Result<Array, Exception> {
        match parameter.ndim() >= 2 {
            true => parameter.multiply(number(1.0 - self.lr * self.weight_decay)),
            false => Ok(parameter.clone()),
        }
    }

    /// What corrects the bias of the moments in this step: `1 - beta^step` of each.
    pub fn corrections(&self) -> (f32, f32) {
        let left = |beta: f64| (1.0 - beta.powi(self.step)) as f32;
        (left(self.betas.0), left(self.betas.1))
    }
}

impl Optimizer for AdamW {
    type State = Moments;

    fn state(&self) -> &Moments {
        &self.moments
    }

    fn state_mut(&mut self) -> &mut Moments {
        &mut self.moments
    }

    fn update_single(
        &mut self,
        key: &Rc<str>,
        gradient: &Array,
        parameter: &mut Array,
    ) -> Result<(), Exception> {
        let (m, v) = self.moments_after(key, gradient)?;
        let (first, second) = self.corrections();
        let divisor = v.sqrt()?.divide(number(second.sqrt()))?.add(number(self.eps))?;
        let update = m.divide(divisor)?.multiply(number(self.lr / first))?;
        *parameter = self.kept(parameter)?.subtract(update)?;
        Ok(())
    }
}

impl Updatable for AdamW {
    fn state_projection(&mut self) -> Result<StateProjection<'_>, StateProjectionError> {
        self.moments.state_projection()
    }
}

fn number(value: f32) -> Array {
    Array::from_f32(value)
}

/// `keep * before + (1 - keep) * now`.
fn mixed(before: &Array, now: &Array, keep: f64) -> Result<Array, Exception> {
    before.multiply(number(keep as f32))?.add(now.multiply(number((1.0 - keep) as f32))?)
}
