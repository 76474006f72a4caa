//! Variants of the attention of Flux's transformer, and of its rotary positions.

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::fast::{ScaledDotProductAttentionMask, scaled_dot_product_attention};
use mlx_rs::ops::{concatenate, stack};
use mlx_rs::{Array, Dtype, nn};
use parity_tests::flux::transformer::{Attention, JointAttention, Rope};

use super::Variant;
use super::ops::{Computed, attention, fused, linear, rms_norm, rms_norm_over, turned};
use crate::change::{backwards, plus, through, wide};

/// Cosine and sine per token and feature.
pub(super) struct Tables {
    cos: Array,
    sin: Array,
}

impl Tables {
    pub(super) fn new(rope: &Rope, ids: &Array, v: &Variant) -> Result<Self, Exception> {
        let mut ids = wide(ids)?;
        if v.is("ids_backwards") {
            ids = backwards(&ids, 1)?;
        }
        if v.is("positions_from_one") {
            ids = plus(&ids, 1.0)?;
        }
        let places: Vec<f32> =
            ids.contiguous()?.to_vec_exact().map_err(|error| Exception::custom(error.to_string()))?;
        let mut angles = Vec::new();
        for token in places.chunks_exact(rope.axes.len()) {
            for (&place, &features) in token.iter().zip(&rope.axes) {
                angles.extend((0..features).map(|feature| {
                    let exponent = f64::from(feature - feature % 2) / f64::from(features);
                    f64::from(place) / rope.theta.powf(exponent)
                }));
            }
        }
        let shape = [ids.dim(0), rope.axes.iter().sum()];
        let table =
            |of: fn(f64) -> f64| Array::from_iter(angles.iter().map(|&angle| of(angle) as f32), &shape);
        let _scope = scope("pos_embed", None);
        Ok(Self { cos: tap("cos", table(f64::cos))?, sin: tap("sin", table(f64::sin))? })
    }

    fn turn(&self, x: &Array, v: &Variant) -> Computed {
        let is_narrow = v.is("tables_in_half_precision");
        let table = |table: &Array| {
            if is_narrow { through(table, Dtype::Float16)? } else { table.clone() }.expand_dims(1)
        };
        let x32 = wide(x)?;
        let pairs = x32.reshape(&[x.dim(0), x.dim(1), x.dim(2), -1, 2])?.split_equal(2, -1)?;
        let (real, imaginary) = (pairs[0].squeeze_axes(&[-1])?, pairs[1].squeeze_axes(&[-1])?);
        let other = stack(&[&imaginary.negative()?, &real], -1)?.reshape(x.shape())?;
        let sum = x32.multiply(table(&self.cos)?)?.add(other.multiply(table(&self.sin)?)?)?;
        sum.as_dtype(x.dtype())
    }
}

/// Three projections of one stream, tapped as `names` and split into heads.
fn projected(
    layers: [&nn::Linear; 3],
    names: [&str; 3],
    size: i32,
    x: &Array,
    v: &Variant,
) -> Result<[Array; 3], Exception> {
    let parts = if v.is("qkv_fused") {
        fused(&layers, x)?
    } else {
        layers.iter().map(|layer| linear(layer, x)).collect::<Result<_, _>>()?
    };
    let mut heads = Vec::new();
    for (name, part) in names.iter().zip(parts) {
        heads.push(tap(name, part)?.reshape(&[x.dim(0), x.dim(1), -1, size])?);
    }
    heads.try_into().map_err(|_| Exception::custom("expected three parts"))
}

fn head_norm(norm: &nn::RmsNorm, x: &Array, v: &Variant) -> Computed {
    if v.is("head_norm_over_tokens") {
        return rms_norm_over(x, 1, norm.eps)?.multiply(&*norm.weight);
    }
    rms_norm(norm, x)
}

pub(super) fn joint_attention(
    layer: &JointAttention,
    text: &Array,
    image: &Array,
    rope: &Tables,
    v: &Variant,
) -> Result<(Array, Array), Exception> {
    let _scope = scope("attn", None);
    let size = layer.norm_q.weight.dim(0);
    let of_image = [&layer.to_q, &layer.to_k, &layer.to_v];
    let of_text = [&layer.add_q_proj, &layer.add_k_proj, &layer.add_v_proj];
    let [image_q, image_k, image_v] = projected(of_image, ["to_q", "to_k", "to_v"], size, image, v)?;
    let names = ["add_q_proj", "add_k_proj", "add_v_proj"];
    let [text_q, text_k, text_v] = projected(of_text, names, size, text, v)?;

    let norm_q = if v.is("query_norm_of_text") { &layer.norm_added_q } else { &layer.norm_q };
    let image_q = tap("norm_q", head_norm(norm_q, &image_q, v)?)?;
    let image_k = tap("norm_k", head_norm(&layer.norm_k, &image_k, v)?)?;
    let text_q = tap("norm_added_q", head_norm(&layer.norm_added_q, &text_q, v)?)?;
    let text_k = tap("norm_added_k", head_norm(&layer.norm_added_k, &text_k, v)?)?;

    let is_image_first = v.is("image_before_text");
    let join = |text: &Array, image: &Array| {
        concatenate(&if is_image_first { [image, text] } else { [text, image] }, 1)
    };
    let (q, k) = (join(&text_q, &image_q)?, join(&text_k, &image_k)?);
    let mixed = attend(&q, &k, &join(&text_v, &image_v)?, rope, v)?;
    let (text, image) = if is_image_first || v.is("streams_split_otherwise") {
        let parts = mixed.split_at_indices(&[image.dim(1)], 1)?;
        (parts[1].clone(), parts[0].clone())
    } else {
        let parts = mixed.split_at_indices(&[text.dim(1)], 1)?;
        (parts[0].clone(), parts[1].clone())
    };
    let image = tap("to_out", linear(&layer.to_out, &image)?)?;
    Ok((tap("to_add_out", linear(&layer.to_add_out, &text)?)?, image))
}

pub(super) fn single_attention(layer: &Attention, x: &Array, rope: &Tables, v: &Variant) -> Computed {
    let _scope = scope("attn", None);
    let size = layer.norm_q.weight.dim(0);
    let layers = [&layer.to_q, &layer.to_k, &layer.to_v];
    let [q, k, values] = projected(layers, ["to_q", "to_k", "to_v"], size, x, v)?;
    let q = tap("norm_q", head_norm(&layer.norm_q, &q, v)?)?;
    let k = tap("norm_k", head_norm(&layer.norm_k, &k, v)?)?;
    attend(&q, &k, &values, rope, v)
}

fn attend(q: &Array, k: &Array, values: &Array, rope: &Tables, v: &Variant) -> Computed {
    let q = turned(&tap("q_rope", rope.turn(q, v)?)?)?;
    let k = turned(&tap("k_rope", rope.turn(k, v)?)?)?;
    let values = if v.is("values_rotated") { rope.turn(values, v)? } else { values.clone() };
    let values = turned(&values)?;
    let scale = (q.dim(-1) as f32).sqrt().recip();
    let sdpa = |q: &Array, k: &Array, values: &Array| {
        scaled_dot_product_attention(q, k, values, scale, None::<ScaledDotProductAttentionMask>, None)
    };
    let mixed = if v.is("softmax_over_queries") {
        attention(&q, &k, &values, scale, -2)?
    } else if v.is("attention_by_formula") {
        attention(&q, &k, &values, scale, -1)?
    } else if v.is("attention_in_bfloat16") {
        let narrow = |x: &Array| through(x, Dtype::Bfloat16);
        sdpa(&narrow(&q)?, &narrow(&k)?, &narrow(&values)?)?
    } else {
        sdpa(&q, &k, &values)?
    };
    let mixed = tap("sdpa", mixed)?;
    let joined = if v.is("heads_not_turned") { mixed } else { turned(&mixed)? };
    joined.reshape(&[values.dim(0), values.dim(2), -1])
}
