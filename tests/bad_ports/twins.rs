//! Variants of the port `right`: some run it in another way and agree with it, the others make a mistake on that way. The
//! end-to-end tests declare them as twins.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::tap;
use mlx_rs::error::Exception;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::transforms::compile::compile;
use mlx_rs::{Array, nn, ops};
use parity_tests::gated_mlp::Block;

/// Registers all variants of this file.
pub(crate) fn twins(suite: Suite) -> Suite {
    TWINS.iter().fold(suite, |suite, (name, variant)| suite.twin("right", name, variant))
}

/// The name of a twin and how it runs.
type Named = (&'static str, fn(&Run) -> PortResult);
type Variant = fn(&mut Block, &Array) -> Result<(), Exception>;

const TWINS: &[Named] = &[
    ("again", |run| loaded(run, |block, x| block.forward(x).map(drop))),
    // Depends on the process, as what is read from memory that nobody has written does.
    ("wobbles", |run| {
        loaded(run, |block, x| {
            let wobble = 1.0 + std::process::id() as f32 * 1e-7;
            block.norm.weight.value = block.norm.weight.multiply(Array::from_f32(wobble))?;
            block.forward(x).map(drop)
        })
    }),
    ("padded", |run| loaded(run, |block, x| block.forward(&ops::concatenate(&[x, &pads()?], 1)?).map(drop))),
    ("padded_left", |run| {
        loaded(run, |block, x| block.forward(&ops::concatenate(&[&pads()?, x], 1)?).map(drop))
    }),
    ("batched", |run| {
        loaded(run, |block, x| block.forward(&ops::concatenate(&[x, &twice(x)?], 0)?).map(drop))
    }),
    ("batched_last", |run| {
        loaded(run, |block, x| block.forward(&ops::concatenate(&[&twice(x)?, x], 0)?).map(drop))
    }),
    ("chunked", |run| loaded(run, |block, x| chunks(block, x, [0..3, 3..6]))),
    ("chunked_unevenly", |run| loaded(run, |block, x| chunks(block, x, [0..1, 1..6]))),
    ("chunk_again", |run| loaded(run, |block, x| chunks(block, x, [0..3, 0..3]))),
    ("chunk_short", |run| loaded(run, |block, x| chunks(block, x, [0..3, 3..5]))),
    ("compiled", |run| loaded(run, |block, x| compiled(block, x, x))),
    // The residual is that of a call before, which was traced and stayed in the graph.
    ("captured", |run| loaded(run, |block, x| compiled(block, x, &twice(x)?))),
    ("quantized", |run| {
        loaded(run, |block, x| {
            let packed = nn::QuantizedLinear::try_from_linear(block.gate.clone(), 32, 8)?;
            let weight = ops::dequantize(
                &*packed.inner.weight,
                &*packed.scales,
                &*packed.biases,
                packed.group_size,
                packed.bits,
            )?;
            block.gate.weight.value = weight;
            block.forward(x).map(drop)
        })
    }),
    ("skips_gated", |run| {
        loaded(run, |block, x| {
            let normed = tap("norm", block.norm.forward(x)?)?;
            let gated = nn::silu(block.gate.forward(&normed)?)?.multiply(block.up.forward(&normed)?)?;
            tap("out", x.add(block.down.forward(&gated)?)?).map(drop)
        })
    }),
    ("fails", |_| Err("error on purpose".into())),
];

fn loaded(run: &Run, variant: Variant) -> PortResult {
    let mut block = Block::new(run.params()?)?;
    run.weights()?.load_into(&mut block)?;
    Ok(variant(&mut block, &run.input("x")?)?)
}

fn pads() -> Result<Array, Exception> {
    ops::ones::<f32>(&[1, 2, 32])
}

fn twice(x: &Array) -> Result<Array, Exception> {
    x.multiply(Array::from_f32(2.0))
}

fn chunks(block: &mut Block, x: &Array, chunks: [std::ops::Range<i32>; 2]) -> Result<(), Exception> {
    chunks.into_iter().try_for_each(|rows| block.forward(&x.try_index((.., rows, ..))?).map(drop))
}

/// All but the norm is compiled, so the tap `gated` is inside compiled code.
fn compiled(block: &mut Block, x: &Array, residual: &Array) -> Result<(), Exception> {
    let normed = tap("norm", block.norm.forward(x)?)?;
    let (rest, residual) = (std::cell::RefCell::new(block.clone()), residual.clone());
    let rest = move |normed: &Array| {
        let mut block = rest.borrow_mut();
        let gate = nn::silu(block.gate.forward(normed)?)?;
        let gated = tap("gated", gate.multiply(block.up.forward(normed)?)?)?;
        residual.add(block.down.forward(&gated)?)
    };
    tap("out", compile(rest, None)(&normed)?).map(drop)
}
