//! How many operands an operation takes.

use super::form::Form;
use super::op::{Complex, Lookup, Op};
use super::product::{Mask, Normalizer, Product};

/// The most operands of a node; only `cat`, `stack` and `einsum` take more than five.
pub(super) const MAX_OPERANDS: usize = 4096;

/// The numbers of operands that an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// Operands that must be present.
    pub required: usize,
    /// Optional operands, which follow the required ones.
    pub optional: usize,
}

impl Op {
    /// The operands that this operation takes; `None` for any number.
    pub fn operands(&self) -> Option<Operands> {
        let (required, optional) = match self {
            Self::Unknown { .. } => return None,
            Self::Product(Product::Einsum { .. }) | Self::Form(Form::Cat { .. } | Form::Stack { .. }) => {
                return None;
            }
            Self::Leaf(_) => (0, 0),
            Self::Unary(_)
            | Self::Cast { .. }
            | Self::Reduce { .. }
            | Self::Cumsum { .. }
            | Self::Topk { .. }
            | Self::Sort { .. }
            | Self::Pool { .. }
            | Self::Lookup(Lookup::OneHot { .. }) => (1, 0),
            Self::Binary(_) | Self::Lookup(_) => (2, 0),
            Self::Where | Self::Dequantize { .. } => (3, 0),
            Self::Normalize(function) => match function {
                Normalizer::Softmax { .. }
                | Normalizer::LogSoftmax { .. }
                | Normalizer::L2Normalize { .. } => (1, 0),
                Normalizer::RmsNorm { .. } => (1, 1),
                Normalizer::LayerNorm { .. } | Normalizer::GroupNorm { .. } => (1, 2),
                Normalizer::BatchNorm { .. } => (3, 2),
            },
            Self::Product(product) => match product {
                Product::Matmul | Product::Einsum { .. } => (2, 0),
                Product::Linear | Product::Conv { .. } | Product::ConvTranspose { .. } => (2, 1),
                // Without a mask, the fourth operand can only be null.
                Product::Attention { mask: None, .. } => (3, 1),
                Product::Attention { mask: Some(Mask::Bool | Mask::Add), .. } => (4, 0),
            },
            Self::Form(Form::PutSlices { .. }) => (2, 0),
            Self::Form(_) => (1, 0),
            Self::Complex(Complex::Complex | Complex::Polar) => (2, 0),
            Self::Complex(_) => (1, 0),
        };
        Some(Operands { required, optional })
    }

    /// Checks the number of operands. `present` holds, per operand, whether the operand is present or null.
    ///
    /// # Errors
    ///
    /// When an operand is missing or there are too many. The error is a message.
    pub fn check_operands(&self, present: &[bool]) -> Result<(), String> {
        let found = present.len();
        let Some(Operands { required, optional }) = self.operands() else {
            return match self {
                Self::Unknown { .. } => Ok(()),
                _ if found == 0 || present.contains(&false) => {
                    Err(format!("`{}` takes one operand or more, all of them present", self.name()))
                }
                _ => Ok(()),
            };
        };
        if found > required + optional {
            return Err(format!(
                "`{}` has {found} operands, at most {} are allowed",
                self.name(),
                required + optional
            ));
        }
        match (0..required).find(|&at| present.get(at) != Some(&true)) {
            Some(at) => Err(format!("operand {at} of `{}` is missing", self.name())),
            None if matches!(self, Self::Product(Product::Attention { mask: None, .. }))
                && present.get(3) == Some(&true) =>
            {
                Err("`attention` has a mask, but its attribute `mask` is null".to_owned())
            }
            None => Ok(()),
        }
    }
}
