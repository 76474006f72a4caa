//! The vision tower of Qwen2.5-VL: patches of images and videos to features that its text model reads.
//!
//! Ported from `transformers.models.qwen2_5_vl.modeling_qwen2_5_vl`; parameters have the names of published checkpoints,
//! after `visual.`. Most blocks attend within windows, so patches are put into the order of windows first, and the
//! merged tokens are put back.

mod block;
mod grid;

use std::collections::HashMap;
use std::error::Error;

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::{Module, ModuleParameters};
use mlx_rs::{Array, Dtype, nn, ops};
use serde::Deserialize;

use crate::qwen3::Rope;
pub use block::{Attention, Block};
pub use grid::Grid;

/// The keys of a published `vision_config` that the port uses.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Number of blocks.
    pub depth: usize,
    /// Features per patch between blocks.
    pub hidden_size: i32,
    /// Features inside the MLP of a block.
    pub intermediate_size: i32,
    /// Number of heads.
    pub num_heads: i32,
    /// Channels of a pixel.
    pub in_channels: i32,
    /// Height and width of a patch in pixels.
    pub patch_size: i32,
    /// Length of a patch in frames.
    pub temporal_patch_size: i32,
    /// Height and width of a token in patches.
    pub spatial_merge_size: i32,
    /// Height and width of a window in pixels.
    pub window_size: i32,
    /// Blocks that attend to the whole frame.
    pub fullatt_block_indexes: Vec<usize>,
    /// Features per token.
    pub out_hidden_size: i32,
}

/// The tower.
#[derive(Debug, ModuleParameters)]
pub struct VisionTower {
    /// Embedding of patches.
    #[param]
    pub patch_embed: PatchEmbed,
    /// Blocks in order.
    #[param]
    pub blocks: Vec<Block>,
    /// Merger of neighbouring patches into one token.
    #[param]
    pub merger: Merger,
    config: Config,
}

/// A convolution whose kernel is one patch.
#[derive(Debug, ModuleParameters)]
pub struct PatchEmbed {
    /// The convolution.
    #[param]
    pub proj: nn::Conv3d,
}

/// Norm, then an MLP over the features of a square of patches. Published, its layers are `mlp.0` and `mlp.2`.
#[derive(Debug, ModuleParameters)]
pub struct Merger {
    /// Norm of each patch.
    #[param]
    pub ln_q: nn::RmsNorm,
    /// First projection, before GELU.
    #[param]
    pub up: nn::Linear,
    /// Projection to the features of a token.
    #[param]
    pub down: nn::Linear,
}

impl VisionTower {
    /// Creates a tower. Its parameters still have to be loaded.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let merged = config.hidden_size * config.spatial_merge_size.pow(2);
        let kernel = (config.temporal_patch_size, config.patch_size, config.patch_size);
        let conv = nn::Conv3dBuilder::new(config.in_channels, config.hidden_size, kernel);
        Ok(Self {
            patch_embed: PatchEmbed {
                proj: conv
                    .stride(kernel)
                    .bias(false)
                    .build()
                    .map_err(|error| Exception::custom(error.to_string()))?,
            },
            blocks: (0..config.depth).map(|_| Block::new(config)).collect::<Result<_, _>>()?,
            merger: Merger {
                ln_q: norm(config.hidden_size)?,
                up: nn::Linear::new(merged, merged)?,
                down: nn::Linear::new(merged, config.out_hidden_size)?,
            },
            config: config.clone(),
        })
    }

    /// Gives every parameter the weight with its name. The kernel has the layout of PyTorch, `[out, in, frames, height, width]`.
    ///
    /// # Errors
    /// An error of `weight`, or a weight whose shape is not that of its parameter.
    pub fn load<E>(
        &mut self,
        weight: impl Fn(&str) -> Result<Array, E>,
    ) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut loaded = HashMap::new();
        for (name, parameter) in self.parameters().flatten() {
            let mut array = weight(&name).map_err(Into::into)?;
            if array.ndim() == 5 {
                array = array.transpose_axes(&[0, 2, 3, 4, 1])?;
            }
            let (found, wanted) = (array.shape(), parameter.shape());
            if found != wanted {
                return Err(format!("`{name}` has shape {found:?}, expected {wanted:?}").into());
            }
            loaded.insert(name, array);
        }
        self.update_flattened(loaded);
        Ok(())
    }

    /// Maps patches `[patches, channels * frames * height * width]` to tokens `[tokens, out_hidden_size]`, of all images
    /// and videos in sequence. Four neighbouring patches, which are adjacent, make one token.
    pub fn forward(&mut self, pixels: &Array, grids: &[Grid]) -> Result<Array, Exception> {
        let merge = self.config.spatial_merge_size;
        let window = self.config.window_size / merge / self.config.patch_size;
        let positions = tap("position_ids", grid::positions(grids, merge))?;
        let windows = grid::windows(grids, merge, window);
        let order = tap("window_index", Array::from_slice(&windows.order, &[windows.order.len() as i32]))?;

        let patches = self.patch_embed.forward(pixels, &self.config)?;
        let (cos, sin) = self.tables(&positions)?;
        let mut x = tap("windowed.patches", reordered(&patches, &order)?)?;
        let cos = tap("windowed.cos", reordered(&cos, &order)?)?;
        let sin = tap("windowed.sin", reordered(&sin, &order)?)?;

        let frames = grid::frames(grids);
        for (i, block) in self.blocks.iter_mut().enumerate() {
            let _scope = scope("blocks", i);
            let whole = self.config.fullatt_block_indexes.contains(&i);
            x = block.forward(&x, (&cos, &sin), if whole { &frames } else { &windows.lengths })?;
        }
        let merged = self.merger.forward(&x, merge * merge)?;
        tap("merged", merged.take_axis(ops::argsort(&order)?, 0)?)
    }

    /// Cosines and sines `[patches, features of a head]`: a quarter depends on the row, a quarter on the column, and
    /// both are repeated.
    fn tables(&self, positions: &Array) -> Result<(Array, Array), Exception> {
        let each_axis = self.config.hidden_size / self.config.num_heads / 2;
        let frequencies = Rope::new(each_axis, 10_000.0).frequencies();
        let angles = positions.as_dtype(Dtype::Float32)?.expand_dims(-1)?.multiply(frequencies)?;
        let angles = angles.reshape(&[positions.dim(0), each_axis])?;
        let angles = ops::concatenate(&[&angles, &angles], -1)?;
        Ok((tap("rope.cos", angles.cos()?)?, tap("rope.sin", angles.sin()?)?))
    }
}

impl PatchEmbed {
    fn forward(&mut self, pixels: &Array, config: &Config) -> Result<Array, Exception> {
        let Config { in_channels, temporal_patch_size, patch_size, hidden_size, .. } = *config;
        // Pixels have their channels first, but the convolution of MLX expects them last.
        let shape = [-1, in_channels, temporal_patch_size, patch_size, patch_size];
        let pixels = pixels.reshape(&shape)?.transpose_axes(&[0, 2, 3, 4, 1])?;
        let embedded = tap("patch_embed.proj", self.proj.forward(&pixels)?)?;
        embedded.reshape(&[-1, hidden_size])
    }
}

impl Merger {
    fn forward(&mut self, x: &Array, patches: i32) -> Result<Array, Exception> {
        let _scope = scope("merger", None);
        let normed = tap("ln_q", self.ln_q.forward(x)?)?;
        let squares = normed.reshape(&[-1, patches * x.dim(-1)])?;
        let up = tap("act_fn", nn::gelu(tap("up", self.up.forward(&squares)?)?)?)?;
        tap("down", self.down.forward(&up)?)
    }
}

/// Reorders groups of neighbouring rows; there are as many groups as `order` has entries.
fn reordered(x: &Array, order: &Array) -> Result<Array, Exception> {
    x.reshape(&[order.dim(0), -1, x.dim(-1)])?.take_axis(order, 0)?.reshape(x.shape())
}

/// RMSNorm with the eps of the tower; the default of mlx-rs is 1e-5.
fn norm(dim: i32) -> Result<nn::RmsNorm, Exception> {
    nn::RmsNormBuilder::new(dim).eps(1e-6).build()
}
