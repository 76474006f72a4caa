//! Variants of the pipeline of Flux.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::{broadcast_to, clip, round, zeros};
use mlx_rs::{Array, Dtype};
use parity_tests::flux::load;
use parity_tests::flux::pipeline::{Config, Pipeline};
use parity_tests::flux::transformer::Inputs;
use serde::Deserialize;

use super::ops::Computed;
use super::{Variant, add};
use crate::change::{plus, times};

const NAMES: &[&str] = &[
    "timestep_of_next_step",
    "guidance_in_thousands",
    "words_counted",
    "columns_before_rows",
    "latents_not_updated",
    "length_of_next_step",
    "channels_last_in_patch",
    "pixels_rounded_down",
    // Rewrites.
    "clipped_after_rounding",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "flux::pipeline", NAMES, generate)
}

#[derive(Deserialize)]
struct Image {
    steps: usize,
    guidance: f32,
    height: i32,
}

fn generate(run: &Run, v: &Variant) -> PortResult {
    let config: Config = run.params()?;
    let image: Image = run.params()?;
    let weights = run.weights()?;
    let mut pipeline = Pipeline::new(config)?;
    load(&mut pipeline, |name| weights.get(name))?;

    let latents = denoise(run, &mut pipeline, &image, v)?;
    let latents = unpacked(&latents, image.height / 2, v)?;
    let latents = latents.divide(Array::from_f32(pipeline.scaling_factor))?;
    let latents = plus(&latents, pipeline.shift_factor)?;
    let latents = tap("unpacked", latents)?;
    let image = {
        let _scope = scope("vae", None);
        pipeline.vae.forward(&latents)?
    };
    tap("pixels", pixels(&tap("image", image)?, v)?)?;
    Ok(())
}

fn denoise(
    run: &Run,
    pipeline: &mut Pipeline,
    image: &Image,
    v: &Variant,
) -> Result<Array, Box<dyn std::error::Error + Send + Sync>> {
    let (latents, text) = (run.input("latents")?, run.input("prompt_embeds")?);
    let (batch, patches, words) = (latents.dim(0), latents.dim(1), text.dim(1));
    let schedule = pipeline.scheduler.schedule_for_image(image.steps, patches as u32)?;
    let for_batch = |number: Array| broadcast_to(&number, &[batch]);
    let guidance = if v.is("guidance_in_thousands") { 1000.0 * image.guidance } else { image.guidance };
    let txt_ids = if v.is("words_counted") {
        Array::from_iter((0..words).flat_map(|word| [0.0, 0.0, word as f32]), &[words, 3])
    } else {
        zeros::<f32>(&[words, 3])?
    };
    let rows = image.height / 2;
    let mut sample = latents.clone();
    let mut inputs = Inputs {
        hidden_states: latents,
        encoder_hidden_states: text,
        pooled_projections: run.input("pooled_prompt_embeds")?,
        timestep: Array::from_f32(0.0),
        guidance: Some(for_batch(Array::from_f32(guidance))?),
        img_ids: image_ids(rows, patches / rows, v),
        txt_ids,
    };
    for step in 0..schedule.steps() {
        let _scope = scope("step", step);
        let next = (step + 1).min(schedule.steps() - 1);
        let at = if v.is("timestep_of_next_step") { next } else { step };
        inputs.timestep = for_batch(schedule.timestep(at)?.divide(Array::from_f32(1000.0))?)?;
        let velocity = tap("velocity", pipeline.transformer.forward(&inputs)?)?;
        let at = if v.is("length_of_next_step") { next } else { step };
        sample = schedule.step(at, &velocity, &sample)?;
        if !v.is("latents_not_updated") {
            inputs.hidden_states = sample.clone();
        }
    }
    Ok(sample)
}

fn image_ids(rows: i32, columns: i32, v: &Variant) -> Array {
    let is_exchanged = v.is("columns_before_rows");
    let place = |row: i32, column: i32| if is_exchanged { [0, column, row] } else { [0, row, column] };
    let places = (0..rows).flat_map(|row| (0..columns).flat_map(move |column| place(row, column)));
    Array::from_iter(places.map(|place| place as f32), &[rows * columns, 3])
}

fn unpacked(latents: &Array, rows: i32, v: &Variant) -> Computed {
    let (batch, columns, channels) = (latents.dim(0), latents.dim(1) / rows, latents.dim(2) / 4);
    let patches = if v.is("channels_last_in_patch") {
        latents.reshape(&[batch, rows, columns, 2, 2, channels])?.transpose_axes(&[0, 1, 3, 2, 4, 5])?
    } else {
        latents.reshape(&[batch, rows, columns, channels, 2, 2])?.transpose_axes(&[0, 1, 4, 2, 5, 3])?
    };
    patches.reshape(&[batch, 2 * rows, 2 * columns, channels])
}

fn pixels(image: &Array, v: &Variant) -> Result<Array, Exception> {
    let unit = plus(&times(image, 0.5)?, 0.5)?;
    let levels = if v.is("clipped_after_rounding") {
        clip(round(times(&unit, 255.0)?, None)?, (0.0f32, 255.0f32))?
    } else if v.is("pixels_rounded_down") {
        times(&clip(&unit, (0.0f32, 1.0f32))?, 255.0)?
    } else {
        round(times(&clip(&unit, (0.0f32, 1.0f32))?, 255.0)?, None)?
    };
    levels.as_dtype(Dtype::Uint8)
}
