//! Grouped-query attention with normed queries and keys, rotary positions and a cache.

use std::ops::Range;

use mlx_parity_tap::{scope, tap};
use mlx_rs::builder::Builder;
use mlx_rs::error::Exception;
use mlx_rs::macros::ModuleParameters;
use mlx_rs::module::Module;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, nn, ops};

use super::{Config, norm, rotate};

/// The cached keys and values of one layer, `[batch, heads, tokens, features]`.
#[derive(Debug, Clone, Default)]
pub struct KvCache {
    held: Option<(Array, Array)>,
    /// Tokens of padding before each sequence of the batch; empty if there are none.
    padding: Vec<i32>,
}

impl KvCache {
    /// An empty cache for a batch whose sequences are filled up on the left, each by so many tokens.
    pub fn padded(padding: &[i32]) -> Self {
        Self { held: None, padding: padding.to_vec() }
    }

    /// Tokens of padding before each sequence of the batch; empty if there are none.
    pub fn padding(&self) -> &[i32] {
        &self.padding
    }

    /// Number of cached tokens.
    pub fn len(&self) -> i32 {
        self.held.as_ref().map_or(0, |(keys, _)| keys.dim(2))
    }

    /// Whether no token is cached.
    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// Drops all but the first `length` tokens, as after a rejected draft.
    pub fn truncate(&mut self, length: i32) -> Result<(), Exception> {
        if let Some((keys, values)) = &mut self.held {
            *keys = keys.try_index((.., .., ..length, ..))?;
            *values = values.try_index((.., .., ..length, ..))?;
        }
        Ok(())
    }

    /// Appends tokens, and returns all.
    pub fn append(&mut self, keys: Array, values: Array) -> Result<(Array, Array), Exception> {
        let all = match self.held.take() {
            Some((old_keys, old_values)) => {
                (ops::concatenate(&[old_keys, keys], 2)?, ops::concatenate(&[old_values, values], 2)?)
            }
            None => (keys, values),
        };
        Ok(self.held.insert(all).clone())
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
    /// Norm of each query head.
    #[param]
    pub q_norm: nn::RmsNorm,
    /// Norm of each key head.
    #[param]
    pub k_norm: nn::RmsNorm,
    head_dim: i32,
}

impl Attention {
    pub(super) fn new(config: &Config) -> Result<Self, Exception> {
        let linear = |from, to| nn::LinearBuilder::new(from, to).bias(false).build();
        let (dim, head_dim) = (config.hidden_size, config.head_dim);
        let (all, shared) = (config.num_attention_heads * head_dim, config.num_key_value_heads * head_dim);
        Ok(Self {
            q_proj: linear(dim, all)?,
            k_proj: linear(dim, shared)?,
            v_proj: linear(dim, shared)?,
            o_proj: linear(all, dim)?,
            q_norm: norm(head_dim, config.rms_norm_eps)?,
            k_norm: norm(head_dim, config.rms_norm_eps)?,
            head_dim,
        })
    }

    /// Maps `[batch, tokens, hidden]` to the same shape; attends to these tokens and to those in the cache.
    pub fn forward(
        &mut self,
        x: &Array,
        (cos, sin): &(Array, Array),
        cache: &mut KvCache,
    ) -> Result<Array, Exception> {
        let _scope = scope("attn", None);
        let (batch, tokens) = (x.dim(0), x.dim(1));
        let heads = |x: Array| x.reshape(&[batch, tokens, -1, self.head_dim]);
        let first = |x: Array| x.transpose_axes(&[0, 2, 1, 3]);

        let q = heads(tap("q_proj", self.q_proj.forward(x)?)?)?;
        let q = first(tap("q_norm", self.q_norm.forward(&q)?)?)?;
        let k = heads(tap("k_proj", self.k_proj.forward(x)?)?)?;
        let k = first(tap("k_norm", self.k_norm.forward(&k)?)?)?;
        let v = first(heads(tap("v_proj", self.v_proj.forward(x)?)?)?)?;
        let q = tap("q_rope", rotate(&q, (cos, sin))?)?;
        let k = tap("k_rope", rotate(&k, (cos, sin))?)?;

        let seen = cache.len();
        let (keys, values) = cache.append(k, v)?;
        let (keys, values) = (tap("keys", keys)?, tap("values", values)?);
        let groups = q.dim(1) / keys.dim(1);
        let (keys, values) = (for_each_query_head(&keys, groups)?, for_each_query_head(&values, groups)?);

        let scale = Array::from_f32(1.0 / (self.head_dim as f32).sqrt()).as_dtype(x.dtype())?;
        let scores = q.matmul(keys.transpose_axes(&[0, 1, 3, 2])?)?.multiply(scale)?;
        let scores = masked(tap("scores", scores)?, seen, cache.padding())?;
        let probs = tap("probs", ops::softmax_axis(&scores, -1, true)?)?;
        let context = tap("context", probs.matmul(&values)?)?;
        let context = context.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, tokens, -1])?;
        tap("o_proj", self.o_proj.forward(&context)?)
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

/// The causal mask, where `seen` tokens came before the first. It also hides the padding from the tokens behind it.
fn masked(scores: Array, seen: i32, padding: &[i32]) -> Result<Array, Exception> {
    let (tokens, all) = (scores.dim(-2), scores.dim(-1));
    let mut visible = ops::tri::<bool>(tokens, Some(all), Some(seen))?;
    if !padding.is_empty() {
        let slots = |range: Range<i32>, shape: &[i32]| Array::from_slice(&range.collect::<Vec<_>>(), shape);
        let (keys, queries) =
            (slots(0..all, &[1, 1, 1, all]), slots(seen..seen + tokens, &[1, 1, tokens, 1]));
        let first = Array::from_slice(padding, &[padding.len() as i32, 1, 1, 1]);
        // Padding sees the padding before it: a row without any key would be NaN, and so would all that touches it.
        let is_seen = keys.ge(&first)?.logical_or(queries.lt(&first)?)?;
        visible = visible.logical_and(is_seen)?;
    }
    let hidden = Array::from_f32(f32::NEG_INFINITY).as_dtype(scores.dtype())?;
    ops::select(&visible, &scores, &hidden)
}
