//! One block: joint attention of both streams, then an MLP per stream, all modulated by the timestep.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn};

use super::attention::JointAttention;
use super::layers::{gelu, layer_norm, modulate};

/// A block.
#[derive(Debug, ModuleParameters)]
pub struct Block {
    /// Image stream.
    #[param]
    pub img: Stream,
    /// Text stream.
    #[param]
    pub txt: Stream,
    /// Joint attention of both streams.
    #[param]
    pub attn: JointAttention,
}

impl Block {
    pub(super) fn new(dim: i32, head_dim: i32) -> Result<Self, Exception> {
        Ok(Self { img: Stream::new(dim)?, txt: Stream::new(dim)?, attn: JointAttention::new(dim, head_dim)? })
    }

    /// Maps image and text tokens `[batch, tokens, features]` to the same shapes, with the activated timestep `[batch, features]`.
    pub fn forward(
        &mut self,
        img: &Array,
        txt: &Array,
        time: &Array,
        tables: &(Array, Array),
        mask: &Array,
    ) -> Result<(Array, Array), Exception> {
        let [img_mod1, img_mod2] = self.img.modulations("img", time)?;
        let [txt_mod1, txt_mod2] = self.txt.modulations("txt", time)?;
        let (img_in, img_gate) = before(("img", 1), img, &img_mod1)?;
        let (txt_in, txt_gate) = before(("txt", 1), txt, &txt_mod1)?;
        let (img_out, txt_out) = self.attn.forward(&img_in, &txt_in, tables, mask)?;
        let img = tap("img.attn_residual", after(img, &img_out, &img_gate)?)?;
        let txt = tap("txt.attn_residual", after(txt, &txt_out, &txt_gate)?)?;

        let (img_in, img_gate) = before(("img", 2), &img, &img_mod2)?;
        let img = after(&img, &self.img.mlp.forward("img", &img_in)?, &img_gate)?;
        let (txt_in, txt_gate) = before(("txt", 2), &txt, &txt_mod2)?;
        let txt = after(&txt, &self.txt.mlp.forward("txt", &txt_in)?, &txt_gate)?;
        let txt = tap("txt.out", txt)?;
        Ok((tap("img.out", img)?, txt))
    }
}

/// The layers of one stream in a block.
#[derive(Debug, ModuleParameters)]
pub struct Stream {
    /// Projection of the activated timestep to shift, scale and gate of attention, then of the MLP.
    #[param]
    pub modulation: nn::Linear,
    /// MLP.
    #[param]
    pub mlp: Mlp,
}

impl Stream {
    fn new(dim: i32) -> Result<Self, Exception> {
        let mlp = Mlp { up: nn::Linear::new(dim, 4 * dim)?, down: nn::Linear::new(4 * dim, dim)? };
        Ok(Self { modulation: nn::Linear::new(dim, 6 * dim)?, mlp })
    }

    fn modulations(&mut self, stream: &str, time: &Array) -> Result<[Array; 2], Exception> {
        let _scope = scope(stream, None);
        let all = tap("mod", self.modulation.forward(time)?)?;
        all.split_equal(2, -1)?.try_into().map_err(|_| Exception::custom("expected two halves"))
    }
}

/// `down(gelu(up(x)))`.
#[derive(Debug, ModuleParameters)]
pub struct Mlp {
    /// Projection to four times the features.
    #[param]
    pub up: nn::Linear,
    /// Output projection.
    #[param]
    pub down: nn::Linear,
}

impl Mlp {
    fn forward(&mut self, stream: &str, x: &Array) -> Result<Array, Exception> {
        let _scopes = (scope(stream, None), scope("mlp", None));
        let x = tap("act", gelu(&tap("up", self.up.forward(x)?)?)?)?;
        tap("down", self.down.forward(&x)?)
    }
}

/// The modulated input of attention (1) or of the MLP (2) of a stream, and the gate on the output.
fn before((stream, n): (&str, usize), x: &Array, modulation: &Array) -> Result<(Array, Array), Exception> {
    let _scope = scope(stream, None);
    let normed = tap(&format!("norm{n}"), layer_norm(x)?)?;
    let parts = modulation.split_equal(3, -1)?;
    let part = |name, index: usize| tap(&format!("mod{n}.{name}"), parts[index].clone());
    let (shift, scale, gate) = (part("shift", 0)?, part("scale", 1)?, part("gate", 2)?);
    Ok((tap(&format!("modulated{n}"), modulate(&normed, &scale, &shift)?)?, gate))
}

/// `x + gate * out`.
fn after(x: &Array, out: &Array, gate: &Array) -> Result<Array, Exception> {
    x.add(gate.expand_dims(1)?.multiply(out)?)
}
