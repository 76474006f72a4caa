//! The transformer of Flux, `FluxTransformer2DModel` in diffusers: from noisy latents and text to the velocity of the flow.
//!
//! Parameters have the names of diffusers, except for `to_out.0`, which is `to_out` here, and in feed-forward parts `net.0.proj`
//! and `net.2`, which are `proj` and `out`.

mod attention;
mod blocks;
mod embed;
mod norm;
mod numeric;
mod rope;

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, nn};
use serde::Deserialize;

pub use attention::{Attention, JointAttention};
pub use blocks::{DoubleBlock, FeedForward, SingleBlock};
pub use embed::{Embedder, TimeTextEmbed};
pub use norm::{AdaLayerNorm, FinalNorm};
pub use rope::Rope;

/// The sizes of a transformer, with the names of diffusers.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Features per patch, of latents and of the prediction.
    pub in_channels: i32,
    /// Number of blocks with two streams.
    pub num_layers: usize,
    /// Number of blocks with one stream, which come after them.
    pub num_single_layers: usize,
    /// Features per head.
    pub attention_head_dim: i32,
    /// Number of heads.
    pub num_attention_heads: i32,
    /// Features per text token.
    pub joint_attention_dim: i32,
    /// Features of the pooled text.
    pub pooled_projection_dim: i32,
    /// Whether the model was distilled to take its guidance as an input.
    #[serde(default)]
    pub guidance_embeds: bool,
    /// Features per head for each axis of the ids.
    pub axes_dims_rope: Vec<i32>,
}

impl Config {
    /// Features per token in every block.
    pub fn dim(&self) -> i32 {
        self.attention_head_dim * self.num_attention_heads
    }
}

/// The inputs of one prediction.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Patches of latents, `[batch, patches, in_channels]`.
    pub hidden_states: Array,
    /// Text tokens, `[batch, tokens, joint_attention_dim]`.
    pub encoder_hidden_states: Array,
    /// Pooled text, `[batch, pooled_projection_dim]`.
    pub pooled_projections: Array,
    /// Share of noise in the latents, from 0 to 1, `[batch]`.
    pub timestep: Array,
    /// Guidance, `[batch]`, for models that take it.
    pub guidance: Option<Array>,
    /// Position of each patch, `[patches, axes]`.
    pub img_ids: Array,
    /// Position of each text token, `[tokens, axes]`.
    pub txt_ids: Array,
}

/// The transformer.
#[derive(Debug, ModuleParameters)]
pub struct Transformer {
    /// Embedding of patches.
    #[param]
    pub x_embedder: nn::Linear,
    /// Embedding of timestep, guidance and pooled text.
    #[param]
    pub time_text_embed: TimeTextEmbed,
    /// Embedding of text tokens.
    #[param]
    pub context_embedder: nn::Linear,
    /// Blocks with two streams.
    #[param]
    pub transformer_blocks: Vec<DoubleBlock>,
    /// Blocks with one stream.
    #[param]
    pub single_transformer_blocks: Vec<SingleBlock>,
    /// Last norm.
    #[param]
    pub norm_out: FinalNorm,
    /// Output projection, to patches of the velocity.
    #[param]
    pub proj_out: nn::Linear,
    /// Rotary positions.
    pub rope: Rope,
}

impl Transformer {
    /// Creates a transformer. Its parameters still have to be loaded.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let (dim, heads) = (config.dim(), config.num_attention_heads);
        let doubles = (0..config.num_layers).map(|_| DoubleBlock::new(dim, heads));
        let singles = (0..config.num_single_layers).map(|_| SingleBlock::new(dim, heads));
        Ok(Self {
            x_embedder: nn::Linear::new(config.in_channels, dim)?,
            time_text_embed: TimeTextEmbed::new(dim, config.pooled_projection_dim, config.guidance_embeds)?,
            context_embedder: nn::Linear::new(config.joint_attention_dim, dim)?,
            transformer_blocks: doubles.collect::<Result<_, _>>()?,
            single_transformer_blocks: singles.collect::<Result<_, _>>()?,
            norm_out: FinalNorm::new(dim)?,
            proj_out: nn::Linear::new(dim, config.in_channels)?,
            rope: Rope { theta: 10_000.0, axes: config.axes_dims_rope.clone() },
        })
    }

    /// Predicts the velocity per patch, `[batch, patches, in_channels]`.
    pub fn forward(&mut self, inputs: &Inputs) -> Result<Array, Exception> {
        let mut image = tap("x_embedder", self.x_embedder.forward(&inputs.hidden_states)?)?;
        // The reference rounds to the dtype of the model before it scales: in bfloat16, 0.75 becomes 752.
        let thousands =
            |x: &Array| x.as_dtype(image.dtype())?.multiply(numeric::scalar(1000.0, image.dtype())?);
        let timestep = tap("timestep", thousands(&inputs.timestep)?)?;
        let guidance = match &inputs.guidance {
            Some(guidance) => Some(tap("guidance", thousands(guidance)?)?),
            None => None,
        };
        let condition =
            self.time_text_embed.forward(&timestep, guidance.as_ref(), &inputs.pooled_projections)?;
        let mut text =
            tap("context_embedder", self.context_embedder.forward(&inputs.encoder_hidden_states)?)?;

        let rope = self.rope.tables(&concatenate(&[&inputs.txt_ids, &inputs.img_ids], 0)?)?;
        for (i, block) in self.transformer_blocks.iter_mut().enumerate() {
            let _scope = scope("transformer_blocks", i);
            (text, image) = block.forward(&text, &image, &condition, &rope)?;
        }
        let mut both = concatenate(&[&text, &image], 1)?;
        for (i, block) in self.single_transformer_blocks.iter_mut().enumerate() {
            let _scope = scope("single_transformer_blocks", i);
            both = block.forward(&both, &condition, &rope)?;
        }
        let image = both.try_index((.., text.dim(1).., ..))?;
        let image = self.norm_out.forward(&image, &condition)?;
        tap("proj_out", self.proj_out.forward(&image)?)
    }
}
