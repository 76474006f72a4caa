//! The loss of a language model.

use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::{Array, Dtype, ops};

/// Labels with this value do not count.
const IGNORED: i32 = -100;

/// The mean cross-entropy of each token but the first, given those before it, over the labels that count.
///
/// `logits` are `[batch, tokens, vocab]`, `labels` `[batch, tokens]`.
pub fn next_token_loss(logits: &Array, labels: &Array) -> Result<Array, Exception> {
    let logits = logits.try_index((.., ..-1, ..))?;
    let labels = labels.try_index((.., 1..))?;
    let counted = labels.ne(Array::from_int(IGNORED).as_dtype(labels.dtype())?)?;
    let index = ops::maximum(&labels, Array::from_int(0).as_dtype(labels.dtype())?)?.expand_dims(-1)?;
    let chosen = logits.take_along_axis(&index, -1)?.squeeze_axes(&[-1])?;
    let losses = logits.logsumexp_axis(-1, false)?.subtract(chosen)?;
    let counted = counted.as_dtype(Dtype::Float32)?;
    losses.multiply(&counted)?.sum(None)?.divide(counted.sum(None)?)
}
