//! A linear layer and quantised copies of it, side by side: what a model gains and loses by quantisation.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn, ops};
use serde::Deserialize;

/// The sizes of the layer and its packings.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Input features.
    pub inputs: i32,
    /// Output features.
    pub outputs: i32,
    /// The layer has one quantised copy per packing.
    pub packings: Vec<Packing>,
}

/// How weights are packed into unsigned integers of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Packing {
    /// Bits per weight.
    pub bits: i32,
    /// Weights that share a scale and a bias. The default of mlx-rs and of Python is 64.
    pub group_size: i32,
}

/// A layer, and the copies that Python MLX made of it.
#[derive(Debug, ModuleParameters)]
pub struct Twins {
    /// The layer in float.
    #[param]
    pub float: nn::Linear,
    /// Quantised copies, one per packing.
    #[param]
    pub packed: Vec<nn::QuantizedLinear>,
}

impl Twins {
    /// Creates the layers. Their parameters still have to be loaded.
    ///
    /// # Errors
    /// When a packing does not fit the number of inputs.
    pub fn new(config: &Config) -> Result<Self, Exception> {
        let packed = |packing: &Packing| {
            nn::QuantizedLinearBuilder::new(config.inputs, config.outputs)
                .group_size(packing.group_size)
                .bits(packing.bits)
                .build()
        };
        Ok(Self {
            float: nn::Linear::new(config.inputs, config.outputs)?,
            packed: config.packings.iter().map(packed).collect::<Result<_, _>>()?,
        })
    }

    /// Runs the layer and each copy on `[batch, tokens, inputs]`.
    ///
    /// # Errors
    /// When shapes do not fit, or a packing is not the one that its weights were packed with.
    pub fn forward(&mut self, x: &Array) -> Result<(Array, Vec<Array>), Exception> {
        let out = {
            let _scope = scope("float", None);
            tap("out", self.float.forward(x)?)?
        };
        let mut copies = Vec::new();
        for packed in &mut self.packed {
            let packing = Packing { bits: packed.bits, group_size: packed.group_size };
            let _bits = scope(&format!("b{}", packing.bits), None);
            let _group = scope(&format!("g{}", packing.group_size), None);
            // Quantised again, to compare the result with the loaded weights.
            quantize(&self.float, packing)?;
            tap("dequantized", dequantize(packed)?)?;
            // The output of this layer, even if a golden is injected in its place.
            let out = tap("lost", packed.forward(x)?)?;
            copies.push(tap("out", out)?);
        }
        Ok((out, copies))
    }
}

/// A quantised copy of a layer, which keeps its bias.
///
/// # Errors
/// When the packing does not fit the number of inputs.
pub fn quantize(layer: &nn::Linear, packing: Packing) -> Result<nn::QuantizedLinear, Exception> {
    let mut packed = nn::QuantizedLinear::try_from_linear(layer.clone(), packing.group_size, packing.bits)?;
    packed.inner.weight.value = tap("weight", packed.inner.weight.value)?;
    packed.scales.value = tap("scales", packed.scales.value)?;
    packed.biases.value = tap("biases", packed.biases.value)?;
    Ok(packed)
}

/// The weights that a quantised layer computes with.
///
/// # Errors
/// When the layer's packing is not the one that its weights were packed with.
pub fn dequantize(packed: &nn::QuantizedLinear) -> Result<Array, Exception> {
    let (weight, biases) = (&*packed.inner.weight, &*packed.biases);
    ops::dequantize(weight, &*packed.scales, biases, packed.group_size, packed.bits)
}
