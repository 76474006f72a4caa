//! The families of explanations, and the order in which they are tried.

use super::{
    Explanation, Search, activation, attention, axis_order, factor_offset, gradient, layout, linear,
    modulation, norm, optimizer_step, per_index, precision, rope, wrong_tensor,
};
use crate::spec::Stage;

/// A family of explanations: one module, which returns those that hold for a failing pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Axes or memory in another order.
    Layout,
    /// Parts of an axis exchanged, or the golden moved along an axis.
    AxisOrder,
    /// One factor, offset or sign for the whole tensor.
    FactorOffset,
    /// Another tensor, or a sum with a term too many or too few.
    WrongTensor,
    /// Another activation of the same input.
    Activation,
    /// Another normalisation of the same input.
    Norm,
    /// Another modulation of the same input.
    Modulation,
    /// Another softmax or mask.
    Attention,
    /// Another rotary embedding of the same input.
    Rope,
    /// A linear layer with another weight, or in a narrower format.
    Linear,
    /// Values cut off or rounded.
    Precision,
    /// Another gradient of the same parameter.
    Gradient,
    /// Another step of an optimiser.
    OptimizerStep,
    /// A factor or an offset per index of an axis.
    PerIndex,
}

/// The families in rounds. A round is tried only when no earlier round has an explanation, since it is less specific.
const ROUNDS: &[&[Family]] = &[
    &[
        Family::Layout,
        Family::AxisOrder,
        Family::FactorOffset,
        Family::WrongTensor,
        Family::Activation,
        Family::Norm,
        Family::Modulation,
        Family::Attention,
        Family::Rope,
        Family::Linear,
        Family::Precision,
        Family::Gradient,
        Family::OptimizerStep,
    ],
    &[Family::PerIndex],
];

impl Family {
    /// The explanations of this family that hold.
    pub(super) fn explain(self, search: &Search) -> Vec<Explanation> {
        match self {
            Self::Layout => layout::explain(search),
            Self::AxisOrder => axis_order::explain(search),
            Self::FactorOffset => factor_offset::explain(search),
            Self::WrongTensor => wrong_tensor::explain(search),
            Self::Activation => activation::explain(search),
            Self::Norm => norm::explain(search),
            Self::Modulation => modulation::explain(search),
            Self::Attention => attention::explain(search),
            Self::Rope => rope::explain(search),
            Self::Linear => linear::explain(search),
            Self::Precision => precision::explain(search),
            Self::Gradient => gradient::explain(search),
            Self::OptimizerStep => optimizer_step::explain(search),
            Self::PerIndex => per_index::explain(search),
        }
    }
}

/// The families that explain what typically goes wrong in a stage. They are tried first, and win a tie.
///
/// A block's result can be wrong in any way, so the stages that stand for whole blocks have no family of their own.
pub(super) const fn families(stage: Stage) -> &'static [Family] {
    match stage {
        Stage::Embedding => &[Family::AxisOrder],
        Stage::Norm => &[Family::Norm],
        Stage::Rope => &[Family::Rope],
        Stage::Attention => &[Family::Attention],
        Stage::Mlp => &[Family::Activation],
        Stage::Linear => &[Family::Linear],
        Stage::Conv => &[Family::Layout],
        Stage::Modulation => &[Family::Modulation, Family::AxisOrder],
        Stage::Residual => &[Family::WrongTensor],
        Stage::Scheduler => &[Family::AxisOrder, Family::FactorOffset],
        Stage::Image => &[Family::Precision, Family::FactorOffset],
        Stage::Gradient => &[Family::Gradient],
        Stage::Optimizer => &[Family::OptimizerStep],
        Stage::Transformer | Stage::TextEncoder | Stage::Vae => &[],
    }
}

/// The rounds of families for a checkpoint of this stage: in each round, the stage's own families come first.
pub(super) fn rounds(stage: Option<Stage>) -> impl Iterator<Item = Vec<Family>> {
    let own = stage.map_or(&[][..], families);
    ROUNDS.iter().map(move |round| {
        let first = own.iter().filter(|family| round.contains(family));
        first.chain(round.iter().filter(|family| !own.contains(family))).copied().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_in_one_round_whatever_the_stage() {
        for stage in Stage::ALL.iter().copied().map(Some).chain([None]) {
            let rounds: Vec<Vec<Family>> = rounds(stage).collect();
            let own = stage.map_or(&[][..], families);
            assert!(rounds[0].starts_with(own), "{stage:?}");
            for (round, general) in rounds.iter().zip(ROUNDS) {
                assert_eq!(round.len(), general.len(), "{stage:?}");
                assert!(general.iter().all(|family| round.contains(family)), "{stage:?}");
            }
        }
    }
}
