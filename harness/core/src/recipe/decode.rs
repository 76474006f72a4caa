//! Converts a name and attributes to an operation.

use super::attributes::Attributes;
use super::form::{Form, PadMode, Resampling, Slice, Upsampling};
use super::function::{Binary, Reduction, Unary};
use super::op::{Complex, Leaf, Lookup, Op, Pooling, Ranked};
use super::product::{Mask, Normalizer, Product};

/// Returns the operation with this name and these attributes. An unknown name becomes [`Op::Unknown`].
///
/// # Errors
///
/// When an attribute is missing or unknown, or has a value that the operation does not accept.
pub(super) fn decode(name: &str, mut attributes: Attributes) -> Result<Op, String> {
    let a = &mut attributes;
    let op = match name {
        "unknown" => Some(Op::Unknown { why: a.text("why")? }),
        "cast" => Some(Op::Cast { dtype: a.dtype("dtype")? }),
        "where" => Some(Op::Where),
        "dequantize" => {
            Some(Op::Dequantize { bits: a.positive("bits")?, group_size: a.positive("group_size")? })
        }
        _ => None,
    };
    let op = match op {
        Some(op) => op,
        None => match other(name, a)? {
            Some(op) => op,
            // The operation belongs to a later version, so its attributes are not checked.
            None => {
                let name: String = name.chars().take(80).collect();
                return Ok(Op::Unknown {
                    why: format!("uses `{name}`, which this mlx-parity does not know"),
                });
            }
        },
    };
    attributes.finish()?;
    Ok(op)
}

fn other(name: &str, a: &mut Attributes) -> Result<Option<Op>, String> {
    if let Some(leaf) = leaf(name, a)? {
        return Ok(Some(Op::Leaf(leaf)));
    }
    if let Some(function) = unary(name, a)? {
        return Ok(Some(Op::Unary(function)));
    }
    if let Some(&function) = Binary::ALL.iter().find(|function| function.name() == name) {
        return Ok(Some(Op::Binary(function)));
    }
    if let Some(function) = reduction(name, a)? {
        return Ok(Some(Op::Reduce { function, axes: a.axes("axes")?, keep: a.flag("keep")? }));
    }
    if let Some(op) = ranked(name, a)? {
        return Ok(Some(op));
    }
    if let Some(function) = normalizer(name, a)? {
        return Ok(Some(Op::Normalize(function)));
    }
    if let Some(product) = product(name, a)? {
        return Ok(Some(Op::Product(product)));
    }
    if let Some(lookup) = lookup(name, a)? {
        return Ok(Some(Op::Lookup(lookup)));
    }
    if let Some(form) = form(name, a)? {
        return Ok(Some(Op::Form(form)));
    }
    Ok(complex(name).map(Op::Complex))
}

fn leaf(name: &str, a: &mut Attributes) -> Result<Option<Leaf>, String> {
    Ok(Some(match name {
        "input" => Leaf::Input { name: a.text("name")? },
        "weight" => Leaf::Weight { name: a.text("name")? },
        "constant" => Leaf::Constant { name: a.text("name")? },
        "full" => Leaf::Full { shape: a.shape("shape")?, value: a.number("value")? },
        "arange" => {
            Leaf::Arange { start: a.number("start")?, end: a.number("end")?, step: a.number("step")? }
        }
        _ => return Ok(None),
    }))
}

fn unary(name: &str, a: &mut Attributes) -> Result<Option<Unary>, String> {
    Ok(Some(match name {
        "gelu" => Unary::Gelu { tanh: a.flag("tanh")? },
        "leaky_relu" => Unary::LeakyRelu { slope: a.number("slope")? },
        "elu" => Unary::Elu { alpha: a.number("alpha")? },
        "clamp" => Unary::Clamp { min: a.bound("min")?, max: a.bound("max")? },
        plain => return Ok(Unary::PLAIN.into_iter().find(|function| function.name() == plain)),
    }))
}

fn reduction(name: &str, a: &mut Attributes) -> Result<Option<Reduction>, String> {
    Ok(Some(match name {
        "var" => Reduction::Var { ddof: a.number("ddof")? },
        "std" => Reduction::Std { ddof: a.number("ddof")? },
        "norm" => Reduction::Norm { p: a.number("p")? },
        plain => return Ok(Reduction::PLAIN.into_iter().find(|function| function.name() == plain)),
    }))
}

fn ranked(name: &str, a: &mut Attributes) -> Result<Option<Op>, String> {
    const OUTPUTS: &[(&str, Ranked)] = &[("values", Ranked::Values), ("indices", Ranked::Indices)];
    Ok(Some(match name {
        "cumsum" => Op::Cumsum { axis: a.axis("axis")? },
        "topk" => Op::Topk {
            k: a.count("k")?,
            axis: a.axis("axis")?,
            largest: a.flag("largest")?,
            output: a.choice("output", OUTPUTS)?,
        },
        "sort" => Op::Sort {
            axis: a.axis("axis")?,
            descending: a.flag("descending")?,
            output: a.choice("output", OUTPUTS)?,
        },
        "avg_pool" | "max_pool" => Op::Pool {
            function: if name == "avg_pool" { Pooling::Average } else { Pooling::Maximum },
            kernel: a.positives("kernel")?,
            stride: a.positives("stride")?,
            padding: a.pairs("padding")?,
        },
        _ => return Ok(None),
    }))
}

fn normalizer(name: &str, a: &mut Attributes) -> Result<Option<Normalizer>, String> {
    Ok(Some(match name {
        "softmax" => Normalizer::Softmax { axis: a.axis("axis")? },
        "log_softmax" => Normalizer::LogSoftmax { axis: a.axis("axis")? },
        "layer_norm" => Normalizer::LayerNorm { rank: a.count("rank")?, eps: a.number("eps")? },
        "rms_norm" => Normalizer::RmsNorm { rank: a.count("rank")?, eps: a.number("eps")? },
        "group_norm" => Normalizer::GroupNorm { groups: a.positive("groups")?, eps: a.number("eps")? },
        "batch_norm" => Normalizer::BatchNorm { eps: a.number("eps")? },
        "l2_normalize" => Normalizer::L2Normalize { axis: a.axis("axis")?, eps: a.number("eps")? },
        _ => return Ok(None),
    }))
}

fn product(name: &str, a: &mut Attributes) -> Result<Option<Product>, String> {
    const MASKS: &[(&str, Mask)] = &[("bool", Mask::Bool), ("add", Mask::Add)];
    Ok(Some(match name {
        "linear" => Product::Linear,
        "matmul" => Product::Matmul,
        "einsum" => Product::Einsum { equation: a.text("equation")? },
        "conv" => Product::Conv {
            stride: a.positives("stride")?,
            padding: a.pairs("padding")?,
            dilation: a.positives("dilation")?,
            groups: a.positive("groups")?,
        },
        "conv_transpose" => Product::ConvTranspose {
            stride: a.positives("stride")?,
            padding: a.counts("padding")?,
            output_padding: a.counts("output_padding")?,
            dilation: a.positives("dilation")?,
            groups: a.positive("groups")?,
        },
        "attention" => Product::Attention {
            scale: a.number("scale")?,
            causal: a.flag("causal")?,
            groups: a.positive("groups")?,
            mask: a.optional_choice("mask", MASKS)?,
        },
        _ => return Ok(None),
    }))
}

fn lookup(name: &str, a: &mut Attributes) -> Result<Option<Lookup>, String> {
    Ok(Some(match name {
        "embedding" => Lookup::Embedding,
        "take" => Lookup::Take { axis: a.axis("axis")? },
        "gather" => Lookup::Gather { axis: a.axis("axis")? },
        "one_hot" => Lookup::OneHot { classes: a.positive("classes")? },
        _ => return Ok(None),
    }))
}

fn form(name: &str, a: &mut Attributes) -> Result<Option<Form>, String> {
    const MODES: &[(&str, PadMode)] = &[
        ("constant", PadMode::Constant),
        ("reflect", PadMode::Reflect),
        ("replicate", PadMode::Replicate),
        ("circular", PadMode::Circular),
    ];
    const UPSAMPLINGS: &[(&str, Upsampling)] = &[
        ("nearest", Upsampling::Nearest),
        ("nearest-exact", Upsampling::NearestExact),
        ("linear", Upsampling::Linear),
        ("bilinear", Upsampling::Bilinear),
        ("bicubic", Upsampling::Bicubic),
        ("trilinear", Upsampling::Trilinear),
    ];
    Ok(Some(match name {
        "reshape" => Form::Reshape { shape: a.shape("shape")? },
        "permute" => Form::Permute { axes: a.axes("axes")? },
        "expand" => Form::Expand { shape: a.shape("shape")? },
        "slice" => Form::Slice(slice(a)?),
        "cat" => Form::Cat { axis: a.axis("axis")? },
        "stack" => Form::Stack { axis: a.axis("axis")? },
        "pad" => {
            Form::Pad { pads: a.pairs("pads")?, mode: a.choice("mode", MODES)?, value: a.number("value")? }
        }
        "roll" => {
            let (shifts, axes) = (a.signed_list("shifts")?, a.axes("axes")?);
            if shifts.len() != axes.len() {
                return Err(format!("it has {} shifts for {} axes", shifts.len(), axes.len()));
            }
            Form::Roll { shifts, axes }
        }
        "flip" => Form::Flip { axes: a.axes("axes")? },
        "tile" => Form::Tile { times: a.counts("times")? },
        "repeat_interleave" => Form::RepeatInterleave { repeats: a.count("repeats")?, axis: a.axis("axis")? },
        "tril" => Form::Tril { diagonal: a.signed("diagonal")? },
        "triu" => Form::Triu { diagonal: a.signed("diagonal")? },
        "put" => Form::PutSlices { slices: vec![slice(a)?] },
        "put_slices" => {
            let slices = a.fours("slices")?.into_iter();
            let slices: Vec<Slice> = slices
                .map(|[axis, start, end, step]| checked(axis, start, end, step))
                .collect::<Result<_, _>>()?;
            let mut axes: Vec<usize> = slices.iter().map(|slice| slice.axis).collect();
            axes.sort_unstable();
            if axes.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err("it has two slices of one axis".to_owned());
            }
            Form::PutSlices { slices }
        }
        "upsample" => {
            let antialias = a.has("antialias") && a.flag("antialias")?;
            let how = Resampling {
                mode: a.choice("mode", UPSAMPLINGS)?,
                align: a.flag("align")?,
                antialias,
                cubic: if a.has("cubic") { a.number("cubic")? } else { Resampling::usual_cubic(antialias) },
            };
            let is_smooth = matches!(how.mode, Upsampling::Bilinear | Upsampling::Bicubic);
            if antialias && !is_smooth {
                return Err("only modes `bilinear` and `bicubic` have antialiasing".to_owned());
            }
            Form::Upsample { size: a.shape("size")?, how }
        }
        "pixel_shuffle" => Form::PixelShuffle { factor: a.positive("factor")? },
        "pixel_unshuffle" => Form::PixelUnshuffle { factor: a.positive("factor")? },
        _ => return Ok(None),
    }))
}

fn slice(a: &mut Attributes) -> Result<Slice, String> {
    checked(a.axis("axis")?, a.count("start")?, a.count("end")?, a.positive("step")?)
}

fn checked(axis: usize, start: usize, end: usize, step: usize) -> Result<Slice, String> {
    if start > end || step == 0 {
        return Err(format!(
            "its slice has start {start}, end {end} and step {step}, expected start <= end, step >= 1"
        ));
    }
    Ok(Slice { axis, start, end, step })
}

fn complex(name: &str) -> Option<Complex> {
    Some(match name {
        "complex" => Complex::Complex,
        "polar" => Complex::Polar,
        "view_as_complex" => Complex::ViewAsComplex,
        "view_as_real" => Complex::ViewAsReal,
        "real" => Complex::Real,
        "imag" => Complex::Imag,
        "conj" => Complex::Conj,
        _ => return None,
    })
}
