//! Mamba, the text decoder without attention: a norm and a mixer per layer, and a state of fixed size in place of a KV cache.
//!
//! Ported from `transformers.models.mamba.modeling_mamba`; parameters have the names of published checkpoints.

mod mixer;

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};
use serde::Deserialize;

use crate::qwen3::choose;
pub use mixer::{Conv, Mixer, MixerState};

/// The keys of a published `config.json` that the port uses.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Size of the vocabulary.
    pub vocab_size: i32,
    /// Features per token between layers.
    pub hidden_size: i32,
    /// Channels per feature.
    pub expand: i32,
    /// Numbers of the state per channel.
    pub state_size: i32,
    /// Tokens under the convolution.
    pub conv_kernel: i32,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Epsilon of RMSNorm.
    pub layer_norm_epsilon: f32,
}

impl Config {
    /// Channels of a mixer.
    pub fn channels(&self) -> i32 {
        self.expand * self.hidden_size
    }

    /// Features of dt before its projection.
    pub fn rank(&self) -> i32 {
        (self.hidden_size + 15) / 16
    }
}

/// The model with its head, which shares the weight of the embedding: token ids to logits.
#[derive(Debug, ModuleParameters)]
pub struct Mamba {
    /// The model without its head.
    #[param]
    pub backbone: Backbone,
}

/// The model without its head: token ids to features.
#[derive(Debug, ModuleParameters)]
pub struct Backbone {
    /// Token embedding.
    #[param]
    pub embeddings: nn::Embedding,
    /// Layers in order.
    #[param]
    pub layers: Vec<Layer>,
    /// Norm after the last layer.
    #[param]
    pub norm_f: nn::RmsNorm,
}

/// A mixer with a norm before it and a residual around both.
#[derive(Debug, ModuleParameters)]
pub struct Layer {
    /// Norm before the mixer.
    #[param]
    pub norm: nn::RmsNorm,
    /// Mixer.
    #[param]
    pub mixer: Mixer,
}

impl Mamba {
    /// Creates a model. Its parameters still have to be loaded.
    ///
    /// # Errors
    /// When MLX cannot make a layer.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let norm = || nn::RmsNormBuilder::new(config.hidden_size).eps(config.layer_norm_epsilon).build();
        let layer =
            |_| -> Result<Layer, Exception> { Ok(Layer { norm: norm()?, mixer: Mixer::new(config)? }) };
        Ok(Self {
            backbone: Backbone {
                embeddings: nn::Embedding::new(config.vocab_size, config.hidden_size)?,
                layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
                norm_f: norm()?,
            },
        })
    }

    /// Empty states for one batch of sequences.
    pub fn new_states(&self) -> Vec<MixerState> {
        vec![MixerState::default(); self.backbone.layers.len()]
    }

    /// Computes logits `[batch, tokens, vocab]` for tokens `[batch, tokens]` after those that made the states.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(&mut self, tokens: &Array, states: &mut [MixerState]) -> Result<Array, Exception> {
        let backbone = &mut self.backbone;
        let mut x = tap("embeddings", backbone.embeddings.forward(tokens)?)?;
        for (i, (layer, state)) in backbone.layers.iter_mut().zip(states).enumerate() {
            let _scope = scope("layers", i);
            let normed = tap("norm", layer.norm.forward(&x)?)?;
            x = tap("out", x.add(layer.mixer.forward(&normed, state)?)?)?;
        }
        let hidden = tap("norm_f", backbone.norm_f.forward(&x)?)?;
        tap("lm_head", backbone.embeddings.as_linear(&hidden)?)
    }

    /// Generates `count` tokens after a prompt `[batch, tokens]`, always the likeliest.
    ///
    /// The prompt takes one scan, and each further token one step.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn generate(&mut self, prompt: &Array, count: usize) -> Result<(), Exception> {
        let mut states = self.new_states();
        let mut tokens = prompt.clone();
        for step in 0..count {
            let _scope = scope("step", step);
            tokens = choose(&self.forward(&tokens, &mut states)?)?.token.expand_dims(1)?;
            tap_states(&mut states)?;
        }
        Ok(())
    }
}

/// Taps the states of each layer.
///
/// # Errors
/// When a tap fails.
pub fn tap_states(states: &mut [MixerState]) -> Result<(), Exception> {
    for (i, state) in states.iter_mut().enumerate() {
        let (_layer, _cache) = (scope("layers", i), scope("cache", None));
        state.conv = state.conv.take().map(|conv| tap("conv", conv)).transpose()?;
        state.scan = state.scan.take().map(|scan| tap("scan", scan)).transpose()?;
    }
    Ok(())
}
