//! The mixer of a layer: a causal convolution per channel, and a selective scan over the tokens.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::{Module, Param};
use mlx_rs::ops::indexing::{Ellipsis, TryIndexOp};
use mlx_rs::{Array, nn, ops};

use super::Config;

/// What one layer keeps from token to token.
#[derive(Debug, Clone, Default)]
pub struct MixerState {
    /// The last inputs of the convolution, `[batch, channels, kernel]`.
    pub conv: Option<Array>,
    /// The state of the scan after the last token, `[batch, channels, state]`.
    pub scan: Option<Array>,
}

/// Parameters of the convolution per channel.
#[derive(Debug, ModuleParameters)]
pub struct Conv {
    /// `[channels, 1, kernel]`.
    #[param]
    pub weight: Param<Array>,
    /// `[channels]`.
    #[param]
    pub bias: Param<Array>,
}

/// Mixes tokens.
#[derive(Debug, ModuleParameters)]
#[expect(non_snake_case, reason = "parameters have the names of published checkpoints")]
pub struct Mixer {
    /// Projection to the channels and to their gate.
    #[param]
    pub in_proj: nn::Linear,
    /// Convolution over the last tokens.
    #[param]
    pub conv1d: Conv,
    /// Projection to dt, B and C.
    #[param]
    pub x_proj: nn::Linear,
    /// Projection of dt to the channels.
    #[param]
    pub dt_proj: nn::Linear,
    /// The logarithm of how fast each number of the state decays, `[channels, state]`.
    #[param]
    pub A_log: Param<Array>,
    /// How much of its input each channel passes on, `[channels]`.
    #[param]
    pub D: Param<Array>,
    /// Output projection.
    #[param]
    pub out_proj: nn::Linear,
}

impl Mixer {
    pub(super) fn new(config: &Config) -> Result<Self, Exception> {
        let linear = |from, to, bias| nn::LinearBuilder::new(from, to).bias(bias).build();
        let empty = |shape: &[i32]| ops::zeros::<f32>(shape).map(Param::new);
        let (dim, channels, state) = (config.hidden_size, config.channels(), config.state_size);
        Ok(Self {
            in_proj: linear(dim, 2 * channels, false)?,
            conv1d: Conv { weight: empty(&[channels, 1, config.conv_kernel])?, bias: empty(&[channels])? },
            x_proj: linear(channels, config.rank() + 2 * state, false)?,
            dt_proj: linear(config.rank(), channels, true)?,
            A_log: empty(&[channels, state])?,
            D: empty(&[channels])?,
            out_proj: linear(channels, dim, false)?,
        })
    }

    /// Maps `[batch, tokens, hidden]` to the same shape, after the tokens that made the state.
    pub(super) fn forward(&mut self, x: &Array, state: &mut MixerState) -> Result<Array, Exception> {
        let _scope = scope("mixer", None);
        let projected = tap("in_proj", self.in_proj.forward(x)?)?.transpose_axes(&[0, 2, 1])?;
        let halves = projected.split_equal(2, 1)?;
        let (x, gate) = (tap("conv", nn::silu(self.conv1d.forward(&halves[0], state)?)?)?, &halves[1]);
        let selected = tap("x_proj", self.x_proj.forward(&x.transpose_axes(&[0, 2, 1])?)?)?;
        let (rank, size) = (self.dt_proj.weight.dim(1), self.A_log.dim(1));
        let parts = selected.split_at_indices(&[rank, rank + size], -1)?;
        let dt = self.dt_proj.weight.matmul(parts[0].transpose_axes(&[0, 2, 1])?)?;
        let selected = Selected { x, dt: self.step_size(&dt)?, b: parts[1].clone(), c: parts[2].clone() };
        let y = match state.scan.take() {
            Some(old) if selected.x.dim(2) == 1 => self.step(&selected, old, state)?,
            old => self.scan(&selected, old, state)?,
        };
        let gated = y.multiply(nn::silu(gate)?)?.transpose_axes(&[0, 2, 1])?;
        tap("out_proj", self.out_proj.forward(&tap("gated", gated)?)?)
    }

    /// The step sizes of `[batch, channels, tokens]`: always above 0.
    fn step_size(&self, dt: &Array) -> Result<Array, Exception> {
        let bias = self.dt_proj.bias.value.as_ref();
        let bias = bias.ok_or_else(|| Exception::custom("`dt_proj` has no bias"))?;
        nn::softplus(dt.add(bias.expand_dims(-1)?)?)
    }

    /// How fast each number of the state decays: always below 0.
    fn a(&self) -> Result<Array, Exception> {
        self.A_log.exp()?.negative()
    }

    /// Goes through the tokens one after the other, from an old state if there is one: `[batch, channels, tokens]`.
    fn scan(&self, on: &Selected, old: Option<Array>, state: &mut MixerState) -> Result<Array, Exception> {
        let dt = tap("dt", on.dt.clone())?.expand_dims(-1)?;
        let decay = tap("decay", self.a()?.expand_dims(1)?.multiply(&dt)?.exp()?)?;
        let b = dt.multiply(on.b.expand_dims(1)?)?;
        let input = tap("input", b.multiply(on.x.expand_dims(-1)?)?)?;
        let mut held = match old {
            Some(old) => old,
            None => ops::zeros_like(input.try_index((.., .., 0))?)?,
        };
        let mut outs = Vec::new();
        for token in 0..on.x.dim(2) {
            let _scope = scope("scan", token as usize);
            let kept = decay.try_index((.., .., token))?.multiply(&held)?;
            held = tap("state", kept.add(input.try_index((.., .., token))?)?)?;
            outs.push(tap("out", held.matmul(on.c.try_index((.., token))?.expand_dims(-1)?)?)?);
        }
        state.scan = Some(held);
        let y = ops::concatenate(&outs, -1)?;
        tap("skipped", y.add(on.x.multiply(self.D.expand_dims(-1)?)?)?)
    }

    /// One token after an old state: `[batch, channels, 1]`.
    fn step(&self, on: &Selected, old: Array, state: &mut MixerState) -> Result<Array, Exception> {
        let first = |x: &Array| x.try_index((Ellipsis, 0));
        let (x, dt) = (first(&on.x)?, tap("dt", first(&on.dt)?)?.expand_dims(-1)?);
        let decay = tap("decay", dt.multiply(self.a()?)?.exp()?)?;
        let b = dt.multiply(on.b.try_index((.., 0))?.expand_dims(1)?)?;
        let input = tap("input", b.multiply(x.expand_dims(-1)?)?)?;
        let _scope = scope("scan", 0);
        let held = tap("state", old.multiply(decay)?.add(input)?)?;
        let out = tap("out", held.matmul(on.c.try_index((.., 0))?.expand_dims(-1)?)?)?;
        state.scan = Some(held);
        out.add(x.multiply(&*self.D)?.expand_dims(-1)?)
    }
}

/// What the scan goes over.
struct Selected {
    /// `[batch, channels, tokens]`.
    x: Array,
    /// Step sizes, `[batch, channels, tokens]`.
    dt: Array,
    /// `[batch, tokens, state]`.
    b: Array,
    /// `[batch, tokens, state]`.
    c: Array,
}

impl Conv {
    /// Convolves `[batch, channels, tokens]` with the inputs before, and keeps the last ones.
    fn forward(&self, x: &Array, state: &mut MixerState) -> Result<Array, Exception> {
        let (kernel, tokens) = (self.weight.dim(2), x.dim(2));
        let before = match state.conv.take() {
            Some(before) => before,
            None => ops::zeros_dtype(&[x.dim(0), x.dim(1), kernel], x.dtype())?,
        };
        let all = ops::concatenate(&[&before, x], 2)?;
        let mut sum = self.bias.expand_dims(-1)?;
        for at in 0..kernel {
            // The last weight is that of the token itself.
            let part = all.try_index((.., .., at + 1..at + 1 + tokens))?;
            sum = sum.add(part.multiply(self.weight.try_index((.., .., at))?)?)?;
        }
        state.conv = Some(all.try_index((.., .., tokens..))?);
        Ok(sum)
    }
}
