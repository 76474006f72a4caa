//! Variants of the vision tower.

use mlx_parity::{PortResult, Run, Suite};
use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::ops::concatenate;
use mlx_rs::{Array, Axes, Dtype, nn, ops};
use parity_tests::qwen_image::vision::{Attention, Block, Config, Grid, Merger, VisionTower};
use parity_tests::qwen3::{Mlp, Rope, rotate};
use serde::Deserialize;

use super::ops::{Computed, exact_gelu, flat, linear, linear_of, rms_norm, softmax};
use super::{Variant, add};
use crate::change::{parts, times};

const NAMES: &[&str] = &[
    "raster_order",
    "frames_reversed",
    "columns_first",
    "exponents_of_whole_head",
    "bias_twice",
    "qkv_split_by_head",
    "powers_of_two",
    "gelu_for_silu",
    "down_bias_left_out",
    "residual_of_normed",
    "squares_turned",
    "keys_before_queries",
    // Rewrites.
    "qkv_apart",
    "put_back_by_scatter",
];

pub(super) fn ports(suite: Suite) -> Suite {
    add(suite, "qwen_image::vision_tower", NAMES, embed)
}

#[derive(Deserialize)]
struct Params {
    grid: Vec<Grid>,
    #[serde(flatten)]
    config: Config,
}

fn embed(run: &Run, v: &Variant) -> PortResult {
    let Params { grid, config } = run.params()?;
    let weights = run.weights()?;
    let mut tower = VisionTower::new(&config)?;
    tower.load(|name| weights.get(name))?;
    forward(&tower, &config, &run.input("pixel_values")?, &grid, v)?;
    Ok(())
}

fn forward(tower: &VisionTower, config: &Config, pixels: &Array, grids: &[Grid], v: &Variant) -> Computed {
    let merge = config.spatial_merge_size;
    let window = config.window_size / merge / config.patch_size;
    let positions = tap("position_ids", positions(grids, merge, v))?;
    let (order, lengths) = windows(grids, merge, window);
    let order = tap("window_index", Array::from_slice(&order, &[order.len() as i32]))?;

    let shape = [-1, config.in_channels, config.temporal_patch_size, config.patch_size, config.patch_size];
    let mut pixels = pixels.reshape(&shape)?.transpose_axes(&[0, 2, 3, 4, 1])?;
    if v.is("frames_reversed") {
        pixels = pixels.flip(Axes::Axes(vec![1]))?;
    }
    let proj = &tower.patch_embed.proj;
    let patches = ops::conv3d(&pixels, &*proj.weight, proj.stride, proj.padding, proj.dilation, proj.groups)?;
    let patches = tap("patch_embed.proj", patches)?.reshape(&[-1, config.hidden_size])?;
    let (cos, sin) = tables(config, &positions, v)?;
    let mut x = tap("windowed.patches", reordered(&patches, &order)?)?;
    let cos = tap("windowed.cos", reordered(&cos, &order)?)?;
    let sin = tap("windowed.sin", reordered(&sin, &order)?)?;

    let frames: Vec<i32> =
        grids.iter().flat_map(|grid| (0..grid.frames).map(|_| grid.height * grid.width)).collect();
    for (i, each) in tower.blocks.iter().enumerate() {
        let _scope = scope("blocks", i);
        let lengths = if config.fullatt_block_indexes.contains(&i) { &frames } else { &lengths };
        x = block(each, config.num_heads, &x, (&cos, &sin), lengths, v)?;
    }
    let merged = merged(&tower.merger, &x, merge * merge, v)?;
    let merged = if v.is("put_back_by_scatter") {
        let places = broadcast_rows(&order, merged.dim(1))?;
        ops::indexing::put_along_axis(ops::zeros_like(&merged)?, places, &merged, 0)?
    } else {
        merged.take_axis(ops::argsort(&order)?, 0)?
    };
    tap("merged", merged)
}

fn broadcast_rows(order: &Array, columns: i32) -> Computed {
    ops::broadcast_to(order.expand_dims(1)?, &[order.dim(0), columns])
}

/// Row and column of each patch.
fn positions(grids: &[Grid], merge: i32, v: &Variant) -> Array {
    let merge = if v.is("raster_order") { 1 } else { merge };
    let mut positions = Vec::new();
    for grid in grids {
        for _ in 0..grid.frames {
            for (row, column) in cells(grid.height / merge, grid.width / merge) {
                positions
                    .extend(cells(merge, merge).flat_map(|(y, x)| [row * merge + y, column * merge + x]));
            }
        }
    }
    Array::from_slice(&positions, &[positions.len() as i32 / 2, 2])
}

/// Tokens in the order of windows, and the number of patches in each window.
fn windows(grids: &[Grid], merge: i32, window: i32) -> (Vec<i32>, Vec<i32>) {
    let (mut order, mut lengths) = (Vec::new(), Vec::new());
    let mut before = 0;
    for grid in grids {
        let (height, width) = (grid.height / merge, grid.width / merge);
        for _ in 0..grid.frames {
            for (top, left) in cells((height + window - 1) / window, (width + window - 1) / window) {
                let rows = top * window..height.min((top + 1) * window);
                let columns = left * window..width.min((left + 1) * window);
                lengths.push(rows.len() as i32 * columns.len() as i32 * merge * merge);
                order.extend(
                    rows.flat_map(|row| columns.clone().map(move |column| before + row * width + column)),
                );
            }
            before += height * width;
        }
    }
    (order, lengths)
}

fn cells(height: i32, width: i32) -> impl Iterator<Item = (i32, i32)> {
    (0..height).flat_map(move |row| (0..width).map(move |column| (row, column)))
}

fn tables(config: &Config, positions: &Array, v: &Variant) -> Result<(Array, Array), Exception> {
    let size = config.hidden_size / config.num_heads;
    let frequencies = if v.is("exponents_of_whole_head") {
        // The first frequencies of a head that is not shared by two axes.
        Rope::new(size, 10_000.0).frequencies().split_equal(2, 0)?[0].clone()
    } else {
        Rope::new(size / 2, 10_000.0).frequencies()
    };
    let mut positions = positions.as_dtype(Dtype::Float32)?;
    if v.is("columns_first") {
        positions = parts(&positions, 1, &[1, 0])?;
    }
    let angles = positions.expand_dims(-1)?.multiply(frequencies)?.reshape(&[positions.dim(0), -1])?;
    let angles = concatenate(&[&angles, &angles], -1)?;
    Ok((tap("rope.cos", angles.cos()?)?, tap("rope.sin", angles.sin()?)?))
}

/// Reorders groups of neighbouring rows; there are as many groups as `order` has entries.
fn reordered(x: &Array, order: &Array) -> Computed {
    x.reshape(&[order.dim(0), -1, x.dim(-1)])?.take_axis(order, 0)?.reshape(x.shape())
}

fn block(
    block: &Block,
    heads: i32,
    x: &Array,
    tables: (&Array, &Array),
    lengths: &[i32],
    v: &Variant,
) -> Computed {
    let normed = tap("norm1", rms_norm(&block.norm1, x)?)?;
    let x = tap("attn_residual", x.add(attention(&block.attn, heads, &normed, tables, lengths, v)?)?)?;
    let normed = tap("norm2", rms_norm(&block.norm2, &x)?)?;
    let y = mlp(&block.mlp, &normed, v)?;
    tap("out", if v.is("residual_of_normed") { &normed } else { &x }.add(y)?)
}

fn mlp(mlp: &Mlp, x: &Array, v: &Variant) -> Computed {
    let _scope = scope("mlp", None);
    let gate = tap("gate_proj", linear(&mlp.gate_proj, x)?)?;
    let active = tap("act_fn", if v.is("gelu_for_silu") { exact_gelu(&gate)? } else { nn::silu(gate)? })?;
    let gated = tap("gated", active.multiply(tap("up_proj", linear(&mlp.up_proj, x)?)?)?)?;
    let bias = mlp.down_proj.bias.value.as_ref().filter(|_| !v.is("down_bias_left_out"));
    tap("down_proj", linear_of(&mlp.down_proj.weight, bias, &gated)?)
}

fn attention(
    layer: &Attention,
    heads: i32,
    x: &Array,
    (cos, sin): (&Array, &Array),
    lengths: &[i32],
    v: &Variant,
) -> Computed {
    let _scope = scope("attn", None);
    let (patches, size) = (x.dim(0), x.dim(1) / heads);
    let qkv = if v.is("qkv_apart") {
        let weights = layer.qkv.weight.split_equal(3, 0)?;
        let biases = layer.qkv.bias.value.as_ref().map(|bias| bias.split_equal(3, 0)).transpose()?;
        let part = |i: usize| linear_of(&weights[i], biases.as_ref().map(|biases| &biases[i]), x);
        concatenate(&[part(0)?, part(1)?, part(2)?], -1)?
    } else {
        linear(&layer.qkv, x)?
    };
    let qkv = match layer.qkv.bias.value.as_ref().filter(|_| v.is("bias_twice")) {
        Some(bias) => qkv.add(bias)?,
        None => qkv,
    };
    let qkv = tap("qkv", qkv)?;
    let qkv = if v.is("qkv_split_by_head") {
        qkv.reshape(&[patches, heads, 3, size])?.unstack(2)?
    } else {
        qkv.reshape(&[patches, 3, heads, size])?.unstack(1)?
    };
    let tables = (&cos.expand_dims(1)?, &sin.expand_dims(1)?);
    let (q, k) = if v.is("keys_before_queries") { (&qkv[1], &qkv[0]) } else { (&qkv[0], &qkv[1]) };
    let q = tap("q_rope", rotate(q, tables)?.as_dtype(x.dtype())?)?;
    let k = tap("k_rope", rotate(k, tables)?.as_dtype(x.dtype())?)?;

    let mut ends = Vec::new();
    for length in &lengths[..lengths.len() - 1] {
        ends.push(ends.last().unwrap_or(&0) + length);
    }
    let windows = |x: &Array| x.transpose_axes(&[1, 0, 2])?.expand_dims(0)?.split_at_indices(&ends, 2);
    let scale = (size as f32).sqrt().recip();
    let mut contexts = Vec::new();
    for (w, ((q, k), values)) in windows(&q)?.iter().zip(windows(&k)?).zip(windows(&qkv[2])?).enumerate() {
        let _scope = scope("windows", w);
        let scores = tap("scores", times(&q.matmul(flat(&k)?)?, scale)?)?;
        let probs =
            if v.is("powers_of_two") { softmax(&times(&scores, 2f32.ln())?)? } else { softmax(&scores)? };
        contexts.push(tap("probs", probs)?.matmul(values)?.transpose_axes(&[0, 2, 1, 3])?);
    }
    let context = tap("context", concatenate(&contexts, 1)?)?;
    tap("proj", linear(&layer.proj, &context.reshape(&[patches, -1])?)?)
}

fn merged(merger: &Merger, x: &Array, patches: i32, v: &Variant) -> Computed {
    let _scope = scope("merger", None);
    let normed = tap("ln_q", rms_norm(&merger.ln_q, x)?)?;
    let squares = if v.is("squares_turned") {
        let apart = normed.reshape(&[-1, patches, x.dim(-1)])?.transpose_axes(&[0, 2, 1])?;
        apart.reshape(&[-1, patches * x.dim(-1)])?
    } else {
        normed.reshape(&[-1, patches * x.dim(-1)])?
    };
    let active = tap("act_fn", nn::gelu(tap("up", linear(&merger.up, &squares)?)?)?)?;
    tap("down", linear(&merger.down, &active)?)
}
