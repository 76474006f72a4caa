//! Flux from embedded text and noise to pixels.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::ops::{broadcast_to, clip, round, zeros};
use mlx_rs::{Array, Dtype, array};
use serde::Deserialize;

use super::transformer::{self, Inputs, Transformer};
use super::vae;
use crate::flow_match::{self, Scheduler};

/// The configs of its parts, each under diffusers' names.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// What predicts the velocity.
    pub transformer: transformer::Config,
    /// What spaces the steps.
    pub scheduler: flow_match::Config,
    /// What makes an image of the last latents.
    pub vae: VaeConfig,
}

/// The VAE's config with what stands between its latents and the transformer's.
#[derive(Debug, Clone, Deserialize)]
pub struct VaeConfig {
    /// The decoder's own.
    #[serde(flatten)]
    pub decoder: vae::Config,
    /// The transformer's latents are this many times the VAE's.
    pub scaling_factor: f32,
    /// What is taken away before.
    pub shift_factor: f32,
}

/// What to make.
#[derive(Debug, Clone)]
pub struct Request {
    /// Noise in patches of two by two, `[batch, patches, 4 * channels]`.
    pub latents: Array,
    /// Rows of patches.
    pub rows: i32,
    /// Tokens of text from T5, `[batch, tokens, features]`.
    pub prompt_embeds: Array,
    /// The text as a whole from CLIP, `[batch, features]`.
    pub pooled_prompt_embeds: Array,
    /// How many steps to take.
    pub steps: usize,
    /// How closely to follow the text.
    pub guidance: f32,
}

/// Transformer, scheduler and VAE.
#[derive(Debug, ModuleParameters)]
pub struct Pipeline {
    /// Predicts the velocity.
    #[param]
    pub transformer: Transformer,
    /// Makes an image of the last latents.
    #[param]
    pub vae: vae::Decoder,
    /// Spaces the steps.
    pub scheduler: Scheduler,
    /// The transformer's latents are this many times the VAE's.
    pub scaling_factor: f32,
    /// What is taken away before.
    pub shift_factor: f32,
    takes_guidance: bool,
}

impl Pipeline {
    /// A pipeline whose parameters are still to be loaded.
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

    /// Images, `[batch, height, width, 3]`, uint8.
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

    /// The latents after the last step, in patches as they came.
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
            // Text has no place in the image.
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

/// The place of each patch: which image it is of, its row and its column.
fn image_ids(rows: i32, columns: i32) -> Array {
    let places = (0..rows).flat_map(|row| (0..columns).flat_map(move |column| [0, row, column]));
    Array::from_iter(places.map(|place| place as f32), &[rows * columns, 3])
}

/// Patches of two by two, `[batch, patches, channels * 4]`, to `[batch, height, width, channels]`.
fn unpack(latents: &Array, rows: i32) -> Result<Array, Exception> {
    let (batch, columns, channels) = (latents.dim(0), latents.dim(1) / rows, latents.dim(2) / 4);
    let patches = latents.reshape(&[batch, rows, columns, channels, 2, 2])?;
    patches.transpose_axes(&[0, 1, 4, 2, 5, 3])?.reshape(&[batch, 2 * rows, 2 * columns, channels])
}

/// From -1 to 1, and cut off there, to 0 to 255.
fn pixels(image: &Array) -> Result<Array, Exception> {
    let unit = image.multiply(array!(0.5f32))?.add(array!(0.5f32))?;
    let unit = clip(&unit, (0.0, 1.0))?;
    round(unit.multiply(array!(255f32))?, None)?.as_dtype(Dtype::Uint8)
}
