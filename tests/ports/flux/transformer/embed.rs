//! The condition of every block: timestep, guidance and pooled text.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::concatenate;
use mlx_rs::{Array, Dtype, nn};

use super::numeric::silu;

/// Features per number before the embedding.
const SINUSOIDS: i32 = 256;

/// The sum of three embeddings.
#[derive(Debug, ModuleParameters)]
pub struct TimeTextEmbed {
    /// Embedding of the timestep.
    #[param]
    pub timestep_embedder: Embedder,
    /// Embedding of the guidance, in models that take it.
    #[param]
    pub guidance_embedder: Option<Embedder>,
    /// Embedding of the pooled text.
    #[param]
    pub text_embedder: Embedder,
}

impl TimeTextEmbed {
    pub(super) fn new(dim: i32, pooled: i32, guidance: bool) -> Result<Self, Exception> {
        Ok(Self {
            timestep_embedder: Embedder::new(SINUSOIDS, dim)?,
            guidance_embedder: if guidance { Some(Embedder::new(SINUSOIDS, dim)?) } else { None },
            text_embedder: Embedder::new(pooled, dim)?,
        })
    }

    /// Embeds `timestep` and `guidance` in thousandths, both `[batch]`, to `[batch, dim]`.
    pub(super) fn forward(
        &mut self,
        timestep: &Array,
        guidance: Option<&Array>,
        pooled: &Array,
    ) -> Result<Array, Exception> {
        let _scope = scope("time_text_embed", None);
        let proj = |x: &Array| tap("time_proj", sinusoids(x)?)?.as_dtype(pooled.dtype());
        let mut sum = self.timestep_embedder.forward("timestep_embedder", &proj(timestep)?)?;
        match (&mut self.guidance_embedder, guidance) {
            (Some(embedder), Some(guidance)) => {
                let guidance = embedder.forward("guidance_embedder", &proj(guidance)?)?;
                sum = tap("time_guidance", sum.add(guidance)?)?;
            }
            (None, None) => {}
            (Some(_), None) => return Err(Exception::custom("this model takes its guidance as an input")),
            (None, Some(_)) => {
                return Err(Exception::custom("this model was not distilled to take guidance"));
            }
        }
        let text = self.text_embedder.forward("text_embedder", pooled)?;
        tap("out", sum.add(text)?)
    }
}

/// Two linear layers with SiLU between them.
#[derive(Debug, ModuleParameters)]
pub struct Embedder {
    /// Projection to the features of a token.
    #[param]
    pub linear_1: nn::Linear,
    /// Projection between features of a token.
    #[param]
    pub linear_2: nn::Linear,
}

impl Embedder {
    fn new(from: i32, dim: i32) -> Result<Self, Exception> {
        Ok(Self { linear_1: nn::Linear::new(from, dim)?, linear_2: nn::Linear::new(dim, dim)? })
    }

    fn forward(&mut self, name: &str, x: &Array) -> Result<Array, Exception> {
        let _scope = scope(name, None);
        let x = tap("linear_1", self.linear_1.forward(x)?)?;
        let x = tap("act", silu(&x)?)?;
        tap("linear_2", self.linear_2.forward(&x)?)
    }
}

/// Cosines and then sines of `x`, `[batch]`, at frequencies from 1 down to nearly 1 / 10,000, in float32.
fn sinusoids(x: &Array) -> Result<Array, Exception> {
    let half = SINUSOIDS / 2;
    let frequency = |i| (-(10_000f64.ln()) * f64::from(i) / f64::from(half)).exp() as f32;
    let frequencies = Array::from_iter((0..half).map(frequency), &[1, half]);
    let angles = x.as_dtype(Dtype::Float32)?.expand_dims(-1)?.multiply(frequencies)?;
    concatenate(&[&angles.cos()?, &angles.sin()?], -1)
}
