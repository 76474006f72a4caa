//! The pipeline of Flux, from embedded text and noise to pixels.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::ops::{broadcast_to, clip, round, zeros};
use mlx_rs::{Array, Dtype, array};
use serde::Deserialize;

use super::transformer::{self, Inputs, Transformer};
use super::vae;
use crate::flow_match::{self, Scheduler};

/// The configs of the parts, with the names of diffusers.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Config of the transformer, which predicts the velocity.
    pub transformer: transformer::Config,
    /// Config of the scheduler, which spaces the steps.
    pub scheduler: flow_match::Config,
    /// Config of the VAE, which decodes the last latents.
    pub vae: VaeConfig,
}

/// The config of the VAE, with the scale and shift between its latents and those of the transformer.
#[derive(Debug, Clone, Deserialize)]
pub struct VaeConfig {
    /// Config of the decoder.
    #[serde(flatten)]
    pub decoder: vae::Config,
    /// Factor from the latents of the VAE to those of the transformer.
    pub scaling_factor: f32,
    /// Offset that is subtracted before the factor is applied.
    pub shift_factor: f32,
}

/// A request for images.
#[derive(Debug, Clone)]
pub struct Request {
    /// Noise in patches of two by two, `[batch, patches, 4 * channels]`.
    pub latents: Array,
    /// Rows of patches.
    pub rows: i32,
    /// Text tokens from T5, `[batch, tokens, features]`.
    pub prompt_embeds: Array,
    /// Pooled text from CLIP, `[batch, features]`.
    pub pooled_prompt_embeds: Array,
    /// Number of steps.
    pub steps: usize,
    /// Guidance: how closely to follow the text.
    pub guidance: f32,
}

/// Transformer, scheduler and VAE.
#[derive(Debug, ModuleParameters)]
pub struct Pipeline {
    /// Transformer, which predicts the velocity.
    #[param]
    pub transformer: Transformer,
    /// Decoder of the last latents.
    #[param]
    pub vae: vae::Decoder,
    /// Scheduler, which spaces the steps.
    pub scheduler: Scheduler,
    /// Factor from the latents of the VAE to those of the transformer.
    pub scaling_factor: f32,
    /// Offset that is subtracted before the factor is applied.
    pub shift_factor: f32,
    takes_guidance: bool,
}

impl Pipeline {
    /// Creates a pipeline. Its parameters still have to be loaded.
    pub fn new(config: Config) -> Result<Self, Exception> {
        Ok(Self {
            transformer: Transformer::new(&config.transformer)?,
            vae: vae::Decoder::new(&config.vae.decoder)?,
            scheduler: Scheduler::new(config.scheduler)?,
            scaling_factor: config.vae.scaling_factor,
            shift_factor: config.vae.shift_factor,
            takes_guidance: config.transformer.guidance_embeds,
        })
    }

    /// Generates images, `[batch, height, width, 3]`, uint8.
    pub fn generate(&mut self, request: &Request) -> Result<Array, Exception> {
        let latents = self.denoise(request)?;
        let latents = unpack(&latents, request.rows)?;
        let latents = latents.divide(array!(self.scaling_factor))?.add(array!(self.shift_factor))?;
        let latents = tap("unpacked", latents)?;
        let image = {
            let _scope = scope("vae", None);
            self.vae.forward(&latents)?
        };
        tap("pixels", pixels(&tap("image", image)?)?)
    }

    /// The latents after the last step, in patches.
    fn denoise(&mut self, request: &Request) -> Result<Array, Exception> {
        let &[batch, patches, _] = request.latents.shape() else {
            let found = request.latents.shape();
            return Err(Exception::custom(format!("expected patches of latents, found {found:?}")));
        };
        let schedule = self.scheduler.schedule_for_image(request.steps, patches as u32)?;
        let for_batch = |number: Array| broadcast_to(&number, &[batch]);
        let guidance = if self.takes_guidance { Some(for_batch(array!(request.guidance))?) } else { None };
        let mut inputs = Inputs {
            hidden_states: request.latents.clone(),
            encoder_hidden_states: request.prompt_embeds.clone(),
            pooled_projections: request.pooled_prompt_embeds.clone(),
            timestep: array!(0f32),
            guidance,
            img_ids: image_ids(request.rows, patches / request.rows),
            // Text tokens have no position in the image.
            txt_ids: zeros::<f32>(&[request.prompt_embeds.dim(1), 3])?,
        };
        for step in 0..schedule.steps() {
            let _scope = scope("step", step);
            inputs.timestep = for_batch(schedule.timestep(step)?.divide(array!(1000f32))?)?;
            let velocity = tap("velocity", self.transformer.forward(&inputs)?)?;
            inputs.hidden_states = schedule.step(step, &velocity, &inputs.hidden_states)?;
        }
        Ok(inputs.hidden_states)
    }
}

/// The position of each patch: image, row and column.
fn image_ids(rows: i32, columns: i32) -> Array {
    let places = (0..rows).flat_map(|row| (0..columns).flat_map(move |column| [0, row, column]));
    Array::from_iter(places.map(|place| place as f32), &[rows * columns, 3])
}

/// Converts patches of two by two, `[batch, patches, channels * 4]`, to `[batch, height, width, channels]`.
fn unpack(latents: &Array, rows: i32) -> Result<Array, Exception> {
    let (batch, columns, channels) = (latents.dim(0), latents.dim(1) / rows, latents.dim(2) / 4);
    let patches = latents.reshape(&[batch, rows, columns, channels, 2, 2])?;
    patches.transpose_axes(&[0, 1, 4, 2, 5, 3])?.reshape(&[batch, 2 * rows, 2 * columns, channels])
}

/// Clamps values to -1 to 1, and maps them to 0 to 255.
fn pixels(image: &Array) -> Result<Array, Exception> {
    let unit = image.multiply(array!(0.5f32))?.add(array!(0.5f32))?;
    let unit = clip(&unit, (0.0, 1.0))?;
    round(unit.multiply(array!(255f32))?, None)?.as_dtype(Dtype::Uint8)
}
