//! Faults in the transformer.

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::error::Exception;
use mlx_rs::module::ModuleParameters;
use mlx_rs::{Array, Dtype, ops};
use parity_tests::qwen_image::transformer::{Config, Inputs, Transformer};
use serde::Deserialize;

/// The arguments of the port.
pub(super) struct Call {
    shapes: Vec<[i32; 3]>,
    words: Array,
    mask: Array,
    timestep: Array,
}

impl Call {
    /// Puts other numbers where the prompts are filled up.
    fn pad_otherwise(&mut self) -> Result<(), Exception> {
        let far = Array::from_f32(9.0).as_dtype(self.words.dtype())?;
        self.words = ops::select(&self.mask.expand_dims(-1)?, &self.words, &far)?;
        Ok(())
    }
}

#[derive(Deserialize)]
struct Params {
    shapes: Vec<[i32; 3]>,
    #[serde(flatten)]
    config: Config,
}

pub(crate) fn ports(suite: Suite) -> Suite {
    suite
        .port("qwen_image::transformer/axes_swapped", |run| {
            with(run, |_, model| {
                model.rope.axes.reverse();
                Ok(())
            })
        })
        // The reference image before the image that is generated.
        .port("qwen_image::transformer/images_swapped", |run| {
            with(run, |call, _| {
                call.shapes.reverse();
                Ok(())
            })
        })
        .port("qwen_image::transformer/mask_ignored", |run| {
            with(run, |call, _| {
                call.mask = ops::ones_like(&call.mask)?;
                Ok(())
            })
        })
        .twin("qwen_image::transformer", "other_padding", |run| with(run, |call, _| call.pad_otherwise()))
        .twin("qwen_image::transformer/mask_ignored", "other_padding", |run| {
            with(run, |call, _| {
                call.pad_otherwise()?;
                call.mask = ops::ones_like(&call.mask)?;
                Ok(())
            })
        })
        // The unit of schedulers.
        .port("qwen_image::transformer/timestep_in_thousands", |run| {
            with(run, |call, _| {
                call.timestep = call.timestep.multiply(Array::from_f32(1000.0))?;
                Ok(())
            })
        })
        // The order of other models.
        .port("qwen_image::transformer/scale_before_shift", |run| {
            with(run, |_, model| {
                for block in &mut model.blocks {
                    let weight = &mut block.img.modulation.weight.value;
                    let parts = weight.split_equal(6, 0)?;
                    *weight = ops::concatenate(&[1, 0, 2, 4, 3, 5].map(|i: usize| parts[i].clone()), 0)?;
                }
                Ok(())
            })
        })
        .port("qwen_image::transformer/norms_of_streams_swapped", |run| {
            with(run, |_, model| {
                for block in &mut model.blocks {
                    std::mem::swap(&mut block.attn.img.norm_q, &mut block.attn.txt.norm_q);
                }
                Ok(())
            })
        })
        // For the spec in bfloat16.
        .port("qwen_image::transformer/weights_in_float32", |run| {
            with(run, |_, model| {
                for weight in model.parameters_mut().flatten().into_values() {
                    *weight = weight.as_dtype(Dtype::Float32)?;
                }
                Ok(())
            })
        })
}

/// Runs the port with this change to its arguments and to the loaded model.
pub(super) fn with(
    run: &Run,
    fault: impl FnOnce(&mut Call, &mut Transformer) -> Result<(), Exception>,
) -> PortResult {
    let Params { shapes, config } = run.params()?;
    let mut model = Transformer::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let mut call = Call {
        shapes,
        words: run.input("encoder_hidden_states")?,
        mask: run.input("encoder_hidden_states_mask")?,
        timestep: run.input("timestep")?,
    };
    fault(&mut call, &mut model)?;
    model.forward(&Inputs {
        hidden_states: &run.input("hidden_states")?,
        encoder_hidden_states: &call.words,
        encoder_hidden_states_mask: &call.mask,
        timestep: &call.timestep,
        shapes: &call.shapes,
    })?;
    Ok(())
}
