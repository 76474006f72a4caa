//! Which tensors can be drawn as images, at checkpoints of the stage `image`.

use super::checkpoints::{Checkpoint, Dim};
use super::keywords::Stage;
use crate::tensor::Dtype;

/// Why a tensor cannot be drawn; `None` when it can, as far as its lengths are known.
///
/// A drawable tensor has uint8 or float elements, axes `h w`, `h w c` or `n h w c`, and one to four channels.
pub fn undrawable(dtype: Option<Dtype>, shape: Option<&[Option<usize>]>) -> Option<String> {
    if let Some(dtype) = dtype.filter(|dtype| !(*dtype == Dtype::Uint8 || dtype.is_float())) {
        return Some(format!("it is {dtype}, but only uint8 and floats can be drawn"));
    }
    let shape = shape?;
    let wanted = "but only `h w`, `h w c` and `n h w c` can be drawn";
    if !(2..=4).contains(&shape.len()) {
        return Some(format!("it has {} axes, {wanted}", shape.len()));
    }
    let channels = if shape.len() == 2 { Some(1) } else { shape[shape.len() - 1] };
    if let Some(channels) = channels.filter(|channels| !(1..=4).contains(channels)) {
        return Some(format!("its last axis has {channels} channels, but only 1 to 4 can be drawn"));
    }
    shape.contains(&Some(0)).then(|| "it is empty".to_owned())
}

impl Checkpoint {
    /// Why a checkpoint of the stage `image` cannot be drawn, as far as the spec shows; `None` for other stages.
    pub fn undrawable(&self) -> Option<String> {
        if self.stage != Some(Stage::Image) {
            return None;
        }
        if self.gate.is_none() {
            return Some("it has no golden to draw beside it".to_owned());
        }
        let lengths: Option<Vec<Option<usize>>> = self.shape.as_ref().map(|shape| {
            let length = |dim: &Dim| match dim {
                Dim::Fixed(length) => Some(*length),
                Dim::Named(_) => None,
            };
            shape.iter().map(length).collect()
        });
        undrawable(self.dtype, lengths.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_drawn_says_why() {
        let check = |dtype, shape: &[usize], why: Option<&str>| {
            let shape: Vec<Option<usize>> = shape.iter().copied().map(Some).collect();
            let found = undrawable(Some(dtype), Some(&shape));
            assert_eq!(found.is_some(), why.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(why.unwrap_or_default()));
        };
        check(Dtype::Uint8, &[2, 3], None);
        check(Dtype::Bfloat16, &[2, 3, 4], None);
        check(Dtype::Float32, &[7, 2, 3, 1], None);
        check(Dtype::Int32, &[2, 3], Some("it is int32"));
        check(Dtype::Complex64, &[2, 3], Some("it is complex64"));
        check(Dtype::Float32, &[3], Some("it has 1 axes"));
        check(Dtype::Float32, &[1, 2, 3, 4, 3], Some("it has 5 axes"));
        check(Dtype::Float32, &[1, 3, 16, 24], Some("24 channels"));
        check(Dtype::Float32, &[0, 3], Some("empty"));
        assert_eq!(undrawable(None, None), None);
        assert_eq!(undrawable(None, Some(&[None, None, None])), None);
    }
}
