//! Variants of the transformer of Qwen-Image.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, fast, nn, ops};
use parity_tests::qwen_image::transformer::{
    Block, Config, JointAttention, Mlp, Projections, TimeEmbedding, Transformer,
};
use serde::Deserialize;

use super::ops::{Computed, gelu, layer_norm_over, linear, linear_of, rms_norm, silu, turned};
use super::qwen_image_rope::{rotate, tables};
use super::{Variant, add};
use crate::change::plus;

const NAMES: &[&str] = &[
    "text_norm_left_out",
    "sines_first",
    "words_from_zero",
    "rows_from_zero",
    "frames_not_counted",
    "exponents_of_whole_head",
    "silu_left_out",
    "query_weight_twice",
    "mask_inverted",
    "mask_in_other_order",
    "gate_of_text",
    "down_of_text",
    "gate_of_attention",
    "text_in_image_table",
    "mask_one_word_short",
    // In bfloat16.
    "activated_twice",
    "modulations_exchanged",
    "shift_left_out",
    "text_values_are_queries",
    "scaled_by_width",
    "gate_added",
    "norm_of_input",
    "relu_for_gelu",
    "residual_of_modulated",
    "last_norm_over_patches",
    "last_bias_left_out",
    "residual_twice",
    "heads_merged_by_feature",
    // Rewrites.
    "mask_added",
    "rotated_by_parts",
    "norm_by_formula",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "qwen_image::transformer", NAMES, predict)
}

#[derive(Deserialize)]
struct Params {
    shapes: Vec<[i32; 3]>,
    #[serde(flatten)]
    config: Config,
}

/// What all blocks share.
struct Shared {
    /// The activated timestep.
    time: Array,
    tables: (Array, Array),
    mask: Array,
}

fn predict(run: &Run, v: &Variant) -> PortResult {
    let Params { shapes, config } = run.params()?;
    let mut model = Transformer::new(&config)?;
    run.weights()?.load_into(&mut model)?;
    let model = &model;
    let words = run.input("encoder_hidden_states")?;
    let mask = run.input("encoder_hidden_states_mask")?;

    let mut img = tap("img_in", linear(&model.img_in, &run.input("hidden_states")?)?)?;
    let normed = if v.is("text_norm_left_out") { words.clone() } else { rms_norm(&model.txt_norm, &words)? };
    let mut txt = tap("txt_in", linear(&model.txt_in, &tap("txt_norm", normed)?)?)?;
    let time = time(&model.time, &run.input("timestep")?.as_dtype(img.dtype())?, v)?;
    let (of_img, of_txt) = tables(&model.rope, &shapes, txt.dim(1), v)?;
    let tables = (tap("rope.img", of_img)?, tap("rope.txt", of_txt)?);
    let time = tap("time.silu", if v.is("silu_left_out") { time } else { silu(&time)? })?;
    let shared = Shared { time, tables, mask: joint_mask(&mask, img.dim(1), v)? };
    for (i, each) in model.blocks.iter().enumerate() {
        let _scope = scope("blocks", i);
        (img, txt) = block(each, &img, &txt, &shared, v)?;
    }
    let normed = {
        let _scope = scope("norm_out", None);
        let both = tap("linear", linear(&model.norm_out.linear, &shared.time)?)?.split_equal(2, -1)?;
        let (scale, shift) = (tap("scale", both[0].clone())?, tap("shift", both[1].clone())?);
        let is_over_patches = v.is("last_norm_over_patches");
        let normed = if is_over_patches { layer_norm_over(&img, 1, 0, 1e-6)? } else { norm(&img, v)? };
        tap("out", modulated(&tap("norm", normed)?, &scale, &shift, v)?)?
    };
    let bias = model.proj_out.bias.value.as_ref().filter(|_| !v.is("last_bias_left_out"));
    tap("proj_out", linear_of(&model.proj_out.weight, bias, &normed)?)?;
    Ok(())
}

fn time(layer: &TimeEmbedding, timestep: &Array, v: &Variant) -> Computed {
    let _scope = scope("time", None);
    let step = -10_000f32.ln();
    let frequencies: Vec<f32> = (0..128).map(|i| (step * i as f32 / 128.0).exp()).collect();
    let frequencies = Array::from_slice(&frequencies, &[128]);
    let angles = timestep.as_dtype(Dtype::Float32)?.expand_dims(1)?.multiply(&frequencies)?;
    let angles = angles.multiply(Array::from_f32(1000.0))?;
    let (cos, sin) = (angles.cos()?, angles.sin()?);
    let waves = concatenate(&if v.is("sines_first") { [sin, cos] } else { [cos, sin] }, -1)?;
    let waves = tap("proj", waves)?.as_dtype(timestep.dtype())?;
    let mut x = silu(&tap("linear_1", linear(&layer.linear_1, &waves)?)?)?;
    if v.is("activated_twice") {
        x = silu(&x)?;
    }
    tap("linear_2", linear(&layer.linear_2, &tap("act", x)?)?)
}

fn joint_mask(words: &Array, patches: i32, v: &Variant) -> Computed {
    let mut words = words.as_dtype(Dtype::Bool)?;
    if v.is("mask_inverted") {
        words = words.logical_not()?;
    }
    if v.is("mask_one_word_short") {
        let ends = ops::zeros::<bool>(&[words.dim(0), 1])?;
        words = concatenate(&[&words.try_index((.., 1..))?, &ends], 1)?;
    }
    let patches = ops::ones::<bool>(&[words.dim(0), patches])?;
    let parts = if v.is("mask_in_other_order") { [&patches, &words] } else { [&words, &patches] };
    concatenate(&parts, 1)?.expand_dims_axes(&[1, 2])
}

fn norm(x: &Array, v: &Variant) -> Computed {
    if v.is("norm_by_formula") {
        layer_norm_over(x, -1, 0, 1e-6)
    } else {
        fast::layer_norm(x, None, None, 1e-6)
    }
}

fn modulated(x: &Array, scale: &Array, shift: &Array, v: &Variant) -> Computed {
    let scaled = x.multiply(plus(scale, 1.0)?.expand_dims(1)?)?;
    if v.is("shift_left_out") { Ok(scaled) } else { scaled.add(shift.expand_dims(1)?) }
}

/// The modulated input of attention (1) or of the MLP (2) of a stream, and the gate on the output.
fn before(
    (stream, n): (&str, usize),
    x: &Array,
    parts: &[Array],
    v: &Variant,
) -> Result<(Array, Array), Exception> {
    let _scope = scope(stream, None);
    let normed = tap(&format!("norm{n}"), norm(x, v)?)?;
    let part = |name, index: usize| tap(&format!("mod{n}.{name}"), parts[3 * n - 3 + index].clone());
    let (shift, scale, gate) = (part("shift", 0)?, part("scale", 1)?, part("gate", 2)?);
    Ok((tap(&format!("modulated{n}"), modulated(&normed, &scale, &shift, v)?)?, gate))
}

fn after(x: &Array, out: &Array, gate: &Array) -> Computed {
    x.add(gate.expand_dims(1)?.multiply(out)?)
}

fn block(
    block: &Block,
    img: &Array,
    txt: &Array,
    shared: &Shared,
    v: &Variant,
) -> Result<(Array, Array), Exception> {
    let (mut img_mod, mut txt_mod) = (&block.img.modulation, &block.txt.modulation);
    if v.is("modulations_exchanged") {
        std::mem::swap(&mut img_mod, &mut txt_mod);
    }
    let img_mod = tap("img.mod", linear(img_mod, &shared.time)?)?.split_equal(6, -1)?;
    let txt_mod = tap("txt.mod", linear(txt_mod, &shared.time)?)?.split_equal(6, -1)?;
    let (img_in, img_gate) = before(("img", 1), img, &img_mod, v)?;
    let (txt_in, txt_gate) = before(("txt", 1), txt, &txt_mod, v)?;
    let (img_out, txt_out) = attention(&block.attn, &img_in, &txt_in, shared, v)?;
    let attended = if v.is("gate_added") {
        img.add(img_gate.expand_dims(1)?.add(&img_out)?)?
    } else {
        after(img, &img_out, if v.is("gate_of_text") { &txt_gate } else { &img_gate })?
    };
    // Attention that adds its input itself, in a block that adds it, too.
    let is_twice = v.is("residual_twice");
    let once_more = |sum: Array, x: &Array| if is_twice { sum.add(x) } else { Ok(sum) };
    let attended = tap("img.attn_residual", once_more(attended, img)?)?;
    let txt = tap("txt.attn_residual", once_more(after(txt, &txt_out, &txt_gate)?, txt)?)?;

    let normed = if v.is("norm_of_input") { img } else { &attended };
    let (img_in, second_gate) = before(("img", 2), normed, &img_mod, v)?;
    let down = if v.is("down_of_text") { &block.txt.mlp.down } else { &block.img.mlp.down };
    let out = mlp("img", &block.img.mlp, down, &img_in, v)?;
    let residual = if v.is("residual_of_modulated") { &img_in } else { &attended };
    let gate = if v.is("gate_of_attention") { &img_gate } else { &second_gate };
    let img = after(residual, &out, gate)?;
    let (txt_in, txt_gate) = before(("txt", 2), &txt, &txt_mod, v)?;
    let txt = after(&txt, &mlp("txt", &block.txt.mlp, &block.txt.mlp.down, &txt_in, v)?, &txt_gate)?;
    let txt = tap("txt.out", txt)?;
    Ok((tap("img.out", img)?, txt))
}

fn mlp(stream: &str, mlp: &Mlp, down: &nn::Linear, x: &Array, v: &Variant) -> Computed {
    let _scopes = (scope(stream, None), scope("mlp", None));
    let up = tap("up", linear(&mlp.up, x)?)?;
    let active = tap("act", if v.is("relu_for_gelu") { nn::relu(&up)? } else { gelu(&up)? })?;
    tap("down", linear(down, &active)?)
}

/// Queries, keys and values of one stream, `[batch, tokens, heads, features]`.
fn projected(stream: &str, layer: &Projections, x: &Array, v: &Variant) -> Result<[Array; 3], Exception> {
    let _scope = scope(stream, None);
    let size = layer.norm_q.weight.dim(0);
    let heads = |x: Array| x.reshape(&[x.dim(0), x.dim(1), -1, size]);
    let is_query = stream == "txt" && v.is("text_values_are_queries");
    Ok([
        heads(tap("to_q", linear(&layer.to_q, x)?)?)?,
        heads(tap("to_k", linear(&layer.to_k, x)?)?)?,
        heads(tap("to_v", linear(if is_query { &layer.to_q } else { &layer.to_v }, x)?)?)?,
    ])
}

fn normed(
    stream: &str,
    layer: &Projections,
    [q, k, values]: [Array; 3],
    v: &Variant,
) -> Result<[Array; 3], Exception> {
    let _scope = scope(stream, None);
    let mut q = rms_norm(&layer.norm_q, &q)?;
    if v.is("query_weight_twice") {
        q = q.multiply(&*layer.norm_q.weight)?;
    }
    Ok([tap("norm_q", q)?, tap("norm_k", rms_norm(&layer.norm_k, &k)?)?, values])
}

fn rotated(
    stream: &str,
    table: &Array,
    [q, k, values]: [Array; 3],
    v: &Variant,
) -> Result<[Array; 3], Exception> {
    let _scope = scope(stream, None);
    Ok([tap("q_rope", rotate(&q, table, v)?)?, tap("k_rope", rotate(&k, table, v)?)?, values])
}

fn attention(
    layer: &JointAttention,
    img: &Array,
    txt: &Array,
    shared: &Shared,
    v: &Variant,
) -> Result<(Array, Array), Exception> {
    let _scope = scope("attn", None);
    let (patches, words) = (projected("img", &layer.img, img, v)?, projected("txt", &layer.txt, txt, v)?);
    let patches = normed("img", &layer.img, patches, v)?;
    let words = normed("txt", &layer.txt, words, v)?;
    let patches = rotated("img", &shared.tables.0, patches, v)?;
    let of_words = if v.is("text_in_image_table") {
        shared.tables.0.try_index((..txt.dim(1), ..))?
    } else {
        shared.tables.1.clone()
    };
    let words = rotated("txt", &of_words, words, v)?;
    let join = |i: usize| turned(&concatenate(&[&words[i], &patches[i]], 1)?);
    let (q, k, values) = (join(0)?, join(1)?, join(2)?);
    let size = if v.is("scaled_by_width") { img.dim(-1) } else { q.dim(-1) };
    let scale = 1.0 / (size as f32).sqrt();
    let context = if v.is("mask_added") {
        let added = ops::select(&shared.mask, Array::from_f32(0.0), Array::from_f32(-1e9))?;
        fast::scaled_dot_product_attention(&q, &k, &values, scale, &added.as_dtype(q.dtype())?, None)?
    } else {
        fast::scaled_dot_product_attention(&q, &k, &values, scale, &shared.mask, None)?
    };
    let context = tap("context", context)?;
    let context = if v.is("heads_merged_by_feature") {
        context.transpose_axes(&[0, 2, 3, 1])?.flatten(2, 3)?
    } else {
        turned(&context)?.flatten(2, 3)?
    };
    let count = words[0].dim(1);
    let img = linear(&layer.img.to_out, &context.try_index((.., count.., ..))?)?;
    let img = tap("img.to_out", img)?;
    let txt = linear(&layer.txt.to_out, &context.try_index((.., ..count, ..))?)?;
    Ok((img, tap("txt.to_out", txt)?))
}
