//! Grouped-query attention with capped scores, rotary positions, and a cache that may hold a window only.

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, nn, ops};

use super::{Config, capped, scaled};
use crate::qwen3::rotate;

/// The cached keys and values of one layer, `[batch, heads, tokens, features]`.
#[derive(Debug, Clone, Default)]
pub struct KvCache {
    window: Option<i32>,
    seen: i32,
    held: Option<(Array, Array)>,
}

impl KvCache {
    /// An empty cache. With a window, it holds no more than the next query can see beside itself.
    pub fn new(window: Option<i32>) -> Self {
        Self { window, seen: 0, held: None }
    }

    /// Number of tokens so far, including those that the cache no longer holds.
    pub fn seen(&self) -> i32 {
        self.seen
    }

    /// Appends tokens, and returns them after all that were held.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn append(&mut self, keys: Array, values: Array) -> Result<(Array, Array), Exception> {
        self.seen += keys.dim(2);
        let (keys, values) = match self.held.take() {
            Some((old_keys, old_values)) => {
                (ops::concatenate(&[old_keys, keys], 2)?, ops::concatenate(&[old_values, values], 2)?)
            }
            None => (keys, values),
        };
        let first = self.window.map_or(0, |window| (keys.dim(2) - (window - 1)).max(0));
        let kept = |x: &Array| x.try_index((.., .., first.., ..));
        self.held = Some((kept(&keys)?, kept(&values)?));
        Ok((keys, values))
    }
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
    /// Features per head.
    pub head_dim: i32,
    /// Factor of scores.
    pub scale: f32,
    /// Bound of scores.
    pub cap: f32,
    /// Number of tokens that a query sees, if not all.
    pub window: Option<i32>,
}

impl Attention {
    pub(super) fn new(config: &Config, window: Option<i32>) -> Result<Self, Exception> {
        let linear = |from, to| nn::LinearBuilder::new(from, to).bias(false).build();
        let (dim, head_dim) = (config.hidden_size, config.head_dim);
        let (all, shared) = (config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim);
        Ok(Self {
            q_proj: linear(dim, all)?,
            k_proj: linear(dim, shared)?,
            v_proj: linear(dim, shared)?,
            o_proj: linear(all, dim)?,
            head_dim,
            scale: config.query_pre_attn_scalar.sqrt().recip(),
            cap: config.attn_logit_softcapping,
            window,
        })
    }

    /// Maps `[batch, tokens, hidden]` to the same shape; attends to these tokens and to those in the cache.
    pub(super) fn forward(
        &mut self,
        x: &Array,
        (cos, sin): &(Array, Array),
        cache: &mut KvCache,
    ) -> Result<Array, Exception> {
        let _scope = scope("attn", None);
        let (batch, tokens) = (x.dim(0), x.dim(1));
        let heads = |x: Array| x.reshape(&[batch, tokens, -1, self.head_dim])?.transpose_axes(&[0, 2, 1, 3]);
        let q = heads(tap("q_proj", self.q_proj.forward(x)?)?)?;
        let k = heads(tap("k_proj", self.k_proj.forward(x)?)?)?;
        let v = heads(tap("v_proj", self.v_proj.forward(x)?)?)?;
        let q = tap("q_rope", rotate(&q, (cos, sin))?)?;
        let k = tap("k_rope", rotate(&k, (cos, sin))?)?;

        let (keys, values) = cache.append(k, v)?;
        let (keys, values) = (tap("keys", keys)?, tap("values", values)?);
        let groups = q.dim(1) / keys.dim(1);
        let (keys, values) = (for_each_query_head(&keys, groups)?, for_each_query_head(&values, groups)?);

        let scores = scaled(&q.matmul(keys.transpose_axes(&[0, 1, 3, 2])?)?, self.scale)?;
        let scores = tap("capped", capped(&tap("scores", scores)?, self.cap)?)?;
        let hidden = Array::from_f32(f32::NEG_INFINITY).as_dtype(scores.dtype())?;
        let scores = ops::select(visible(tokens, keys.dim(2), self.window)?, &scores, &hidden)?;
        let probs = tap("probs", ops::softmax_axis(&scores, -1, true)?)?;
        let context = tap("context", probs.matmul(&values)?)?;
        let context = context.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, tokens, -1])?;
        tap("o_proj", self.o_proj.forward(&context)?)
    }
}

/// Which of the last `tokens` queries sees which of `all` keys, `[tokens, all]`: none that is later, and with a window none
/// that is as far back as the window is long.
///
/// # Errors
/// When MLX cannot make it.
pub fn visible(tokens: i32, all: i32, window: Option<i32>) -> Result<Array, Exception> {
    let before = all - tokens;
    let causal = ops::tri::<bool>(tokens, Some(all), Some(before))?;
    match window {
        Some(window) => {
            let too_far = ops::tri::<bool>(tokens, Some(all), Some(before - window))?;
            causal.logical_and(too_far.logical_not()?)
        }
        None => Ok(causal),
    }
}

/// Repeats each head `groups` times, once per query head that shares it.
fn for_each_query_head(x: &Array, groups: i32) -> Result<Array, Exception> {
    let &[batch, heads, tokens, dim] = x.shape() else {
        return Err(Exception::custom(format!("expected heads of 4 axes, found {:?}", x.shape())));
    };
    let repeated = ops::broadcast_to(x.expand_dims(2)?, &[batch, heads, groups, tokens, dim])?;
    repeated.reshape(&[batch, heads * groups, tokens, dim])
}
