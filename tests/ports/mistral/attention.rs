//! Grouped-query attention with rotary positions, over whatever slots a cache holds.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::{Array, nn, ops};

use crate::cache::{Cache, State};
use crate::qwen3::rotate;

/// The sizes of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Features per token.
    pub dim: i32,
    /// Number of query heads.
    pub heads: i32,
    /// Number of key heads; several query heads share one.
    pub key_heads: i32,
    /// Features per head.
    pub head_dim: i32,
    /// Number of tokens that a query sees, its own included, if not all.
    pub window: Option<i32>,
    /// Whether queries, keys and values have biases.
    pub bias: bool,
}

/// Causal self-attention.
#[derive(Debug, ModuleParameters)]
pub struct Attention {
    /// Query projection for all heads.
    #[param]
    pub q_proj: nn::Linear,
    /// Key projection for all key heads.
    #[param]
    pub k_proj: nn::Linear,
    /// Value projection for all key heads.
    #[param]
    pub v_proj: nn::Linear,
    /// Output projection.
    #[param]
    pub o_proj: nn::Linear,
    /// The sizes.
    pub sizes: Sizes,
}

impl Attention {
    /// Creates the layer. Its parameters still have to be loaded.
    ///
    /// # Errors
    /// When MLX cannot make it.
    pub fn new(sizes: Sizes) -> Result<Self, Exception> {
        let linear = |from, to, bias| nn::LinearBuilder::new(from, to).bias(bias).build();
        let (all, shared) = (sizes.heads * sizes.head_dim, sizes.key_heads * sizes.head_dim);
        Ok(Self {
            q_proj: linear(sizes.dim, all, sizes.bias)?,
            k_proj: linear(sizes.dim, shared, sizes.bias)?,
            v_proj: linear(sizes.dim, shared, sizes.bias)?,
            o_proj: linear(all, sizes.dim, false)?,
            sizes,
        })
    }

    /// Maps `[batch, tokens, hidden]` to the same shape; attends to these tokens and to those in the cache.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn forward(
        &mut self,
        x: &Array,
        (cos, sin): &(Array, Array),
        cache: &mut dyn Cache,
    ) -> Result<Array, Exception> {
        let (batch, tokens, head_dim) = (x.dim(0), x.dim(1), self.sizes.head_dim);
        let heads = |x: Array| x.reshape(&[batch, tokens, -1, head_dim])?.transpose_axes(&[0, 2, 1, 3]);
        let (q, k, v) = {
            let _scope = scope("attn", None);
            let q = heads(tap("q_proj", self.q_proj.forward(x)?)?)?;
            let k = heads(tap("k_proj", self.k_proj.forward(x)?)?)?;
            let v = heads(tap("v_proj", self.v_proj.forward(x)?)?)?;
            let q = tap("q_rope", rotate(&q, (cos, sin))?)?;
            (q, tap("k_rope", rotate(&k, (cos, sin))?)?, v)
        };
        let start = cache.seen();
        let seen = attended(State::new(k, v, start), cache)?;

        let _scope = scope("attn", None);
        let groups = q.dim(1) / seen.keys.dim(1);
        let (keys, values) =
            (for_each_query_head(&seen.keys, groups)?, for_each_query_head(&seen.values, groups)?);
        let scale = Array::from_f32(1.0 / (head_dim as f32).sqrt()).as_dtype(x.dtype())?;
        let scores = tap("scores", q.matmul(keys.transpose_axes(&[0, 1, 3, 2])?)?.multiply(scale)?)?;
        let visible = visible(start..start + tokens, &seen.positions, self.sizes.window)?;
        let hidden = Array::from_f32(f32::NEG_INFINITY).as_dtype(scores.dtype())?;
        let probs = tap("probs", ops::softmax_axis(&ops::select(&visible, &scores, &hidden)?, -1, true)?)?;
        let context = tap("context", probs.matmul(&values)?)?;
        let context = context.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, tokens, -1])?;
        tap("o_proj", self.o_proj.forward(&context)?)
    }
}

/// Adds tokens to the cache, and returns all that they may attend to.
fn attended(new: State, cache: &mut dyn Cache) -> Result<State, Exception> {
    if new.keys.dim(2) > 1 {
        // The first of several tokens sees what the last one pushes out.
        let all = match cache.state() {
            Some(old) => old.followed_by(&new)?,
            None => new.clone(),
        };
        cache.update(new)?;
        return Ok(all);
    }
    cache.update(new)?;
    cache.state().cloned().ok_or_else(|| Exception::custom("the cache is empty after an update"))
}

/// Which of the queries at these positions sees which slot, `[queries, slots]`: none that is later, none that is as far back
/// as the window is long, and none that is empty.
///
/// # Errors
/// When MLX cannot make it.
pub fn visible(
    queries: std::ops::Range<i32>,
    slots: &Array,
    window: Option<i32>,
) -> Result<Array, Exception> {
    let queries: Vec<i32> = queries.collect();
    let queries = Array::from_slice(&queries, &[queries.len() as i32, 1]);
    let seen = slots.le(&queries)?.logical_and(slots.ge(Array::from_int(0))?)?;
    match window {
        Some(window) => seen.logical_and(slots.gt(queries.subtract(Array::from_int(window))?)?),
        None => Ok(seen),
    }
}

/// Repeats each head `groups` times, once per query head that shares it.
pub fn for_each_query_head(x: &Array, groups: i32) -> Result<Array, Exception> {
    let &[batch, heads, tokens, dim] = x.shape() else {
        return Err(Exception::custom(format!("expected heads of 4 axes, found {:?}", x.shape())));
    };
    let repeated = ops::broadcast_to(x.expand_dims(2)?, &[batch, heads, groups, tokens, dim])?;
    repeated.reshape(&[batch, heads * groups, tokens, dim])
}
