//! The transformer of Qwen-Image: latents and a prompt, in blocks with joint attention.
//!
//! Ported from `diffusers.models.transformers.transformer_qwenimage`, for float32 and bfloat16. What a published checkpoint
//! calls `img_mod.1` or `attn.add_q_proj` is renamed when it is loaded: both streams have the same layers, so
//! here they are one type, [`Stream`] and in attention [`Projections`].

mod attention;
mod block;
mod layers;
mod rope;

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

pub use attention::{JointAttention, Projections};
pub use block::{Block, Mlp, Stream};
pub use layers::{AdaNorm, TimeEmbedding};
pub use rope::{Rope, rotate};

/// The keys of a published `config.json` that the port uses.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Height and width of a patch in latents.
    pub patch_size: i32,
    /// Features per input patch.
    pub in_channels: i32,
    /// Channels of the output latents.
    pub out_channels: i32,
    /// Number of blocks.
    pub num_layers: usize,
    /// Features per head.
    pub attention_head_dim: i32,
    /// Number of heads.
    pub num_attention_heads: i32,
    /// Features per token of the prompt.
    pub joint_attention_dim: i32,
    /// Features per head for frame, row and column.
    pub axes_dims_rope: [i32; 3],
}

/// The inputs of the transformer.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// Patches `[batch, patches, in_channels]` of the generated image, then of reference images.
    pub hidden_states: &'a Array,
    /// The prompt, `[batch, tokens, joint_attention_dim]`.
    pub encoder_hidden_states: &'a Array,
    /// Which tokens of the prompt are no padding, `[batch, tokens]`.
    pub encoder_hidden_states_mask: &'a Array,
    /// Timestep from 0 to 1, `[batch]`.
    pub timestep: &'a Array,
    /// Frames, height and width of each image, in patches.
    pub shapes: &'a [[i32; 3]],
}

/// The transformer.
#[derive(Debug, ModuleParameters)]
pub struct Transformer {
    /// Embedding of patches.
    #[param]
    pub img_in: nn::Linear,
    /// Norm of the prompt.
    #[param]
    pub txt_norm: nn::RmsNorm,
    /// Embedding of the prompt.
    #[param]
    pub txt_in: nn::Linear,
    /// Embedding of the timestep.
    #[param]
    pub time: TimeEmbedding,
    /// Blocks in order.
    #[param]
    pub blocks: Vec<Block>,
    /// Norm after the last block.
    #[param]
    pub norm_out: AdaNorm,
    /// Output projection, to patches.
    #[param]
    pub proj_out: nn::Linear,
    /// Rotary positions.
    pub rope: Rope,
}

impl Transformer {
    /// Creates a transformer. Its parameters still have to be loaded.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let dim = config.num_attention_heads * config.attention_head_dim;
        Ok(Self {
            img_in: nn::Linear::new(config.in_channels, dim)?,
            txt_norm: layers::rms_norm(config.joint_attention_dim)?,
            txt_in: nn::Linear::new(config.joint_attention_dim, dim)?,
            time: TimeEmbedding::new(dim)?,
            blocks: (0..config.num_layers)
                .map(|_| Block::new(dim, config.attention_head_dim))
                .collect::<Result<_, _>>()?,
            norm_out: AdaNorm { linear: nn::Linear::new(dim, 2 * dim)? },
            proj_out: nn::Linear::new(dim, config.patch_size.pow(2) * config.out_channels)?,
            rope: Rope { axes: config.axes_dims_rope, theta: 10_000.0 },
        })
    }

    /// Predicts the velocity per patch, `[batch, patches, patch_size² * out_channels]`.
    pub fn forward(&mut self, inputs: &Inputs<'_>) -> Result<Array, Exception> {
        let mut img = tap("img_in", self.img_in.forward(inputs.hidden_states)?)?;
        let normed = tap("txt_norm", self.txt_norm.forward(inputs.encoder_hidden_states)?)?;
        let mut txt = tap("txt_in", self.txt_in.forward(&normed)?)?;
        let time = self.time.forward(&inputs.timestep.as_dtype(img.dtype())?)?;
        let (of_img, of_txt) = self.rope.tables(inputs.shapes, txt.dim(1))?;
        let tables = (tap("rope.img", of_img)?, tap("rope.txt", of_txt)?);
        // Every modulation starts with the same activation.
        let time = tap("time.silu", layers::silu(&time)?)?;
        let mask = attention::joint_mask(inputs.encoder_hidden_states_mask, img.dim(1))?;
        for (i, block) in self.blocks.iter_mut().enumerate() {
            let _scope = scope("blocks", i);
            (img, txt) = block.forward(&img, &txt, &time, &tables, &mask)?;
        }
        let normed = self.norm_out.forward(&img, &time)?;
        tap("proj_out", self.proj_out.forward(&normed)?)
    }
}
