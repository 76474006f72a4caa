//! Faults with quantised layers.

#[path = "../parity/quantized.rs"]
mod right;

use std::cell::RefCell;
use std::rc::Rc;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::error::Exception;
use mlx_rs::nn::QuantizedLinear;
use mlx_rs::{Array, Dtype, ops, random};
use parity_tests::quantized::linear::Config;
use right::linear;

use crate::at_tap::{TapFault, add_faults};

pub(crate) fn ports(suite: Suite) -> Suite {
    add_faults(right::ports(suite), "quantized::linear", |run| linear(run, |_| {}, |_| Ok(())), AT_TAPS)
        // The default, not the group size that the weights were packed with.
        .port("quantized::linear/group_size", |run| {
            let set = |group_size: &mut i32| *group_size = 64;
            linear(
                run,
                |config| config.packings.iter_mut().for_each(|packing| set(&mut packing.group_size)),
                |_| Ok(()),
            )
        })
        .port("quantized::linear/bits", |run| {
            with_each(run, |packed| {
                packed.bits = 12 - packed.bits;
                Ok(())
            })
        })
        // The weight has another name in Python, so it keeps its initial values beside the right scales.
        .port("quantized::linear/weight_not_loaded", |run| {
            with_each(run, |packed| {
                let fresh = random::normal::<f32>(&[48, 256], None, None, &random::key(7)?)?;
                packed.inner.weight.value = ops::quantize(&fresh, packed.group_size, packed.bits)?.0;
                Ok(())
            })
        })
        .port("quantized::linear/scales_and_biases_swapped", |run| {
            with_each(run, |packed| {
                std::mem::swap(&mut packed.scales, &mut packed.biases);
                Ok(())
            })
        })
        // The float layer in place of its quantised copy: nearer to the truth than four bits can be.
        .port("quantized::linear/layer_not_used", |run| {
            let float: Rc<RefCell<Option<Array>>> = Rc::default();
            let taken = Rc::clone(&float);
            run.plant_fault("float.out", move |out| {
                taken.borrow_mut().replace(out.clone());
                Ok(out)
            });
            let Config { packings, .. } = run.params()?;
            for (packing, tap) in packings.iter().flat_map(|packing| [(packing, "lost"), (packing, "out")]) {
                let float = Rc::clone(&float);
                run.plant_fault(&format!("b{}.g{}.{tap}", packing.bits, packing.group_size), move |_| {
                    float.borrow().clone().ok_or_else(|| Exception::custom("`float.out` comes later"))
                });
            }
            linear(run, |_| {}, |_| Ok(()))
        })
        .port("quantized::linear/no_bias", |run| {
            with_each(run, |packed| {
                packed.inner.bias.value = None;
                Ok(())
            })
        })
        // Weights went through bfloat16 before they were packed.
        .port("quantized::linear/rounded_first", |run| {
            linear(
                run,
                |_| {},
                |twins| {
                    let weight = &mut twins.float.weight.value;
                    *weight = weight.as_dtype(Dtype::Bfloat16)?.as_dtype(Dtype::Float32)?;
                    Ok(())
                },
            )
        })
}

const AT_TAPS: &[TapFault] = &[
    // Other formats store the number that is subtracted.
    ("zero_point_sign", "b4.g32.biases", &[], |x, _| x.negative()),
    ("groups_of_another_copy", "b4.g32.dequantized", &["weights/float.weight"], |_, from| {
        packed_and_back(&from[0], 128, 4)
    }),
    ("three_bits", "b4.g64.dequantized", &["weights/float.weight"], |_, from| {
        packed_and_back(&from[0], 64, 3)
    }),
    // From here on, for the spec in bfloat16.
    ("four_bits", "b8.g64.dequantized", &["weights/float.weight"], |_, from| {
        packed_and_back(&from[0], 64, 4)
    }),
    ("batch_left_out", "float.out", &[], |x, _| x.squeeze_axes(&[0])),
];

/// Quantises weights and dequantises them again.
fn packed_and_back(weight: &Array, group_size: i32, bits: i32) -> Result<Array, Exception> {
    let (packed, scales, biases) = ops::quantize(weight, group_size, bits)?;
    ops::dequantize(&packed, &scales, &biases, group_size, bits)
}

/// Runs the port with this change to each loaded copy.
fn with_each(run: &Run, fault: impl Fn(&mut QuantizedLinear) -> Result<(), Exception>) -> PortResult {
    linear(run, |_| {}, |twins| twins.packed.iter_mut().try_for_each(&fault))
}
