//! What each kind of gate means to the commands, in one place: how it is written, compared and tightened.
//!
//! A new kind of gate adds its arm to every `match` here; callers ask the methods and name no kind.

use super::{DistributionLimits, Gate};
use crate::number::percent;

/// The `noise` that right ports stay within: looser needs a reason, tighter is never suggested.
pub const USUAL_NOISE: f64 = 8.0;

impl Gate {
    /// Whether the gate is meaningless without the golden's floor.
    pub fn needs_floor(&self) -> bool {
        matches!(self, Self::Noise { .. })
    }

    /// Whether only equal values pass.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Tolerance { rtol, atol, .. } => *rtol == 0.0 && *atol == 0.0,
            Self::Text => true,
            Self::Noise { .. } | Self::Distribution(_) | Self::Tokens { .. } | Self::Set { .. } => false,
        }
    }

    /// Whether the gate is as loose as right ports need, so that it cannot be too loose.
    pub fn is_usual(&self) -> bool {
        match self {
            Self::Tolerance { .. } => self.is_exact(),
            Self::Noise { k } => *k <= USUAL_NOISE,
            Self::Tokens { ties } | Self::Set { ties: Some(ties) } => *ties <= USUAL_NOISE,
            // Without a limit on the divergence, there is no number that a run could make tighter.
            Self::Distribution(limits) => limits.divergences().iter().all(|(_, limit)| limit.is_none()),
            Self::Set { ties: None } | Self::Text => true,
        }
    }

    /// Whether the elements are ids, whose distances mean nothing.
    pub fn is_of_ids(&self) -> bool {
        matches!(self, Self::Tokens { .. } | Self::Set { .. } | Self::Text)
    }

    /// Whether choices are judged, and not the distances of single elements.
    pub fn is_of_choices(&self) -> bool {
        self.is_of_ids() || matches!(self, Self::Distribution(_))
    }

    /// How many ids the golden of a distribution has per row; `None` for a golden with the shape of the actual.
    pub fn top(&self) -> Option<u32> {
        match self {
            Self::Distribution(limits) => limits.top,
            _ => None,
        }
    }

    /// The gate for comparing two runs of a port, whose tensors have all ids.
    pub fn between_runs(self) -> Self {
        match self {
            Self::Distribution(limits) => Self::Distribution(DistributionLimits { top: None, ..limits }),
            other => other,
        }
    }

    /// How many units two tied scores may be apart; `None` for a gate that knows no ties.
    pub fn ties(&self) -> Option<f64> {
        match self {
            Self::Tokens { ties } => Some(*ties),
            Self::Set { ties } => *ties,
            Self::Tolerance { .. } | Self::Noise { .. } | Self::Distribution(_) | Self::Text => None,
        }
    }

    /// The policy that its numbers come from, if any.
    pub fn policy(&self) -> Option<&str> {
        match self {
            Self::Tolerance { policy, .. } => policy.as_deref(),
            _ => None,
        }
    }

    /// The gate as a message shows it: ``policy `fp32` (atol 1e-5, rtol 1e-5)``, `noise 8`, `tokens, ties 8`.
    pub fn text(&self) -> String {
        match self {
            Self::Tolerance { rtol, atol, policy: Some(policy) } => {
                format!("policy `{policy}` (atol {atol:e}, rtol {rtol:e})")
            }
            Self::Tolerance { rtol, atol, policy: None } => format!("atol {atol:e}, rtol {rtol:e}"),
            Self::Noise { k } => format!("noise {k}"),
            Self::Distribution(limits) => limits.text(),
            Self::Tokens { ties } => format!("tokens, ties {ties}"),
            Self::Set { ties: Some(ties) } => format!("set, ties {ties}"),
            Self::Set { ties: None } => "set".to_owned(),
            Self::Text => "text".to_owned(),
        }
    }

    /// The gate as a spec writes it: `policy: fp32`, `rtol: 1e-5, atol: 0`, `noise: 8`, `compare: tokens, ties: 8`.
    pub fn yaml(&self) -> String {
        let short = |number: f64| if number == 0.0 { "0".to_owned() } else { format!("{number:e}") };
        match self {
            Self::Tolerance { policy: Some(policy), .. } => format!("policy: {policy}"),
            Self::Tolerance { rtol, atol, policy: None } => {
                format!("rtol: {}, atol: {}", short(*rtol), short(*atol))
            }
            Self::Noise { k } => format!("noise: {k}"),
            Self::Distribution(limits) => limits.yaml(),
            Self::Tokens { ties } => format!("compare: tokens, ties: {ties}"),
            Self::Set { ties: Some(ties) } => format!("compare: set, ties: {ties}"),
            Self::Set { ties: None } => "compare: set".to_owned(),
            Self::Text => "compare: text".to_owned(),
        }
    }

    /// The gate of the same kind with every number multiplied by `factor` and then changed by `round`. A noise gate never
    /// gets below [`USUAL_NOISE`], and neither do ties. Shares of agreement stay as they are.
    pub fn scaled(&self, factor: f64, round: impl Fn(f64) -> f64) -> Self {
        let floors = |k: f64| round(k * factor).max(USUAL_NOISE);
        match self {
            Self::Tolerance { rtol, atol, .. } => {
                Self::Tolerance { rtol: round(rtol * factor), atol: round(atol * factor), policy: None }
            }
            Self::Noise { k } => Self::Noise { k: floors(*k) },
            Self::Distribution(limits) => {
                let scaled = |limit: Option<f64>| limit.map(|limit| round(limit * factor));
                Self::Distribution(DistributionLimits {
                    kl_mean: scaled(limits.kl_mean),
                    kl_p99: scaled(limits.kl_p99),
                    kl_max: scaled(limits.kl_max),
                    ..limits.clone()
                })
            }
            Self::Tokens { ties } => Self::Tokens { ties: floors(*ties) },
            Self::Set { ties } => Self::Set { ties: ties.map(floors) },
            Self::Text => Self::Text,
        }
    }

    /// How much of this gate another of the same kind allows, by the number that shrank least. `None` for another kind,
    /// and for a gate that cannot be too loose.
    pub fn part_allowed_by(&self, other: &Self) -> Option<f64> {
        let part = |now: f64, then: f64| if then > 0.0 { now / then } else { 0.0 };
        match (self, other) {
            _ if self.is_usual() => None,
            (Self::Tolerance { rtol, atol, .. }, Self::Tolerance { rtol: r, atol: a, .. }) => {
                Some(part(*r, *rtol).max(part(*a, *atol)))
            }
            (Self::Noise { k }, Self::Noise { k: other })
            | (Self::Tokens { ties: k }, Self::Tokens { ties: other })
            | (Self::Set { ties: Some(k) }, Self::Set { ties: Some(other) }) => Some(other / k),
            (Self::Distribution(limits), Self::Distribution(other)) => {
                let pairs = limits.divergences().into_iter().zip(other.divergences());
                let parts = pairs.filter_map(|((_, then), (_, now))| Some(part(now?, then?)));
                parts.reduce(f64::max)
            }
            _ => None,
        }
    }

    /// Whether `new` lets more through than this gate. Two gates of the same policy are equal here: a policy that became
    /// looser is a change of its own.
    pub fn is_loosened_by(&self, new: &Self) -> bool {
        match (self, new) {
            (old, new) if old.policy().is_some() && old.policy() == new.policy() => false,
            (Self::Tolerance { rtol, atol, .. }, Self::Tolerance { rtol: r, atol: a, .. }) => {
                r > rtol || a > atol
            }
            (Self::Noise { k }, Self::Noise { k: new }) => new > k,
            (Self::Noise { .. }, Self::Tolerance { .. }) => !new.is_exact(),
            (Self::Tolerance { .. }, Self::Noise { .. }) => self.is_exact() || !new.is_usual(),
            (Self::Distribution(limits), Self::Distribution(new)) => limits.is_loosened_by(new),
            (Self::Tokens { ties }, Self::Tokens { ties: new }) => new > ties,
            (Self::Set { ties }, Self::Set { ties: new }) => new.unwrap_or(0.0) > ties.unwrap_or(0.0),
            // A judgement of another kind. Only one that lets nothing through is never looser.
            (_, new) => self != new && !new.is_exact(),
        }
    }
}

impl DistributionLimits {
    /// The limits on the divergence, each under the name that specs use below `kl`.
    pub fn divergences(&self) -> [(&'static str, Option<f64>); 3] {
        [("mean", self.kl_mean), ("p99", self.kl_p99), ("max", self.kl_max)]
    }

    fn text(&self) -> String {
        let mut words = vec!["distribution".to_owned()];
        let divergences = self.divergences().into_iter();
        words.extend(divergences.filter_map(|(name, limit)| Some(format!("KL {name} {:e}", limit?))));
        words.extend(self.top1.map(|share| format!("top-1 {}", percent(share))));
        words.extend(self.topk.map(|topk| format!("top-{} {}", topk.k, percent(topk.overlap))));
        words.join(", ")
    }

    fn yaml(&self) -> String {
        let mut keys = vec!["compare: distribution".to_owned()];
        let divergences = self.divergences().into_iter();
        let divergences: Vec<String> =
            divergences.filter_map(|(name, limit)| Some(format!("{name}: {:e}", limit?))).collect();
        if !divergences.is_empty() {
            keys.push(format!("kl: {{{}}}", divergences.join(", ")));
        }
        keys.extend(self.top1.map(|share| format!("top1: {share}")));
        keys.extend(self.topk.map(|topk| format!("topk: {{k: {}, overlap: {}}}", topk.k, topk.overlap)));
        keys.extend(self.top.map(|top| format!("top: {top}")));
        keys.join(", ")
    }

    /// Whether a limit is larger in `new`, or missing there.
    fn is_loosened_by(&self, new: &Self) -> bool {
        let above =
            |old: Option<f64>, new: Option<f64>| old.is_some_and(|old| new.is_none_or(|new| new > old));
        let below = |old: Option<f64>, new: Option<f64>| above(old.map(|old| -old), new.map(|new| -new));
        let overlap = |limits: &Self| limits.topk.map(|topk| topk.overlap);
        let other_k = self.topk.zip(new.topk).is_some_and(|(old, new)| new.k != old.k);
        let mut divergences = self.divergences().into_iter().zip(new.divergences());
        divergences.any(|((_, old), (_, new))| above(old, new))
            || below(self.top1, new.top1)
            || below(overlap(self), overlap(new))
            || other_k
            || new.top.is_some() && self.top.is_none_or(|old| new.top.is_some_and(|new| new < old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance(rtol: f64, atol: f64, policy: Option<&str>) -> Gate {
        Gate::Tolerance { rtol, atol, policy: policy.map(str::to_owned) }
    }

    #[test]
    fn a_gate_is_written_as_specs_and_messages_have_it() {
        let gate = tolerance(1e-5, 0.0, None);
        assert_eq!(
            (gate.yaml().as_str(), gate.text().as_str()),
            ("rtol: 1e-5, atol: 0", "atol 0e0, rtol 1e-5")
        );
        let gate = tolerance(1e-5, 1e-6, Some("fp32"));
        assert_eq!(gate.yaml(), "policy: fp32");
        assert_eq!(gate.text(), "policy `fp32` (atol 1e-6, rtol 1e-5)");
        let gate = Gate::Noise { k: 8.0 };
        assert_eq!((gate.yaml().as_str(), gate.text().as_str()), ("noise: 8", "noise 8"));
    }

    #[test]
    fn gates_for_choices_are_written_compared_and_tightened() {
        let limits = |kl_max, top1| DistributionLimits { kl_max, top1, ..DistributionLimits::default() };
        let gate = |kl_max, top1| Gate::Distribution(limits(kl_max, top1));
        let all = Gate::Distribution(DistributionLimits {
            kl_mean: Some(1e-6),
            topk: Some(crate::gate::TopK { k: 5, overlap: 0.95 }),
            top: Some(64),
            ..limits(Some(1e-4), Some(0.99))
        });
        assert_eq!(
            all.yaml(),
            "compare: distribution, kl: {mean: 1e-6, max: 1e-4}, top1: 0.99, topk: {k: 5, overlap: 0.95}, top: 64"
        );
        assert_eq!(all.text(), "distribution, KL mean 1e-6, KL max 1e-4, top-1 99 %, top-5 95 %");
        assert_eq!((all.top(), all.clone().between_runs().top()), (Some(64), None));
        let (tokens, set) = (Gate::Tokens { ties: 8.0 }, Gate::Set { ties: None });
        assert_eq!(
            (tokens.yaml().as_str(), set.yaml().as_str()),
            ("compare: tokens, ties: 8", "compare: set")
        );
        for (old, new, looser) in [
            (gate(Some(1e-6), None), gate(Some(1e-5), None), true),
            (gate(Some(1e-6), None), gate(Some(1e-7), Some(0.5)), false),
            (gate(Some(1e-6), Some(0.5)), gate(Some(1e-6), None), true),
            (gate(None, Some(0.99)), gate(None, Some(0.98)), true),
            (gate(None, Some(0.98)), gate(None, Some(0.99)), false),
            (tokens.clone(), Gate::Tokens { ties: 9.0 }, true),
            (Gate::Set { ties: Some(8.0) }, set.clone(), false),
            (set.clone(), Gate::Set { ties: Some(8.0) }, true),
            (tokens.clone(), tolerance(0.0, 0.0, None), false),
            (tolerance(0.0, 0.0, None), tokens.clone(), true),
            (Gate::Text, tokens.clone(), true),
            (all.clone(), all.clone().between_runs(), false),
            (all.clone().between_runs(), all.clone(), true),
        ] {
            assert_eq!(old.is_loosened_by(&new), looser, "{} to {}", old.text(), new.text());
        }
        assert_eq!(gate(Some(2e-6), Some(0.9)).scaled(0.5, |x| x), gate(Some(1e-6), Some(0.9)));
        assert_eq!(gate(Some(2e-6), None).part_allowed_by(&gate(Some(1e-6), None)), Some(0.5));
        assert_eq!(gate(None, Some(0.9)).part_allowed_by(&gate(None, Some(1.0))), None);
        assert_eq!(Gate::Tokens { ties: 80.0 }.scaled(0.001, |x| x), tokens);
    }

    #[test]
    fn looser_is_what_lets_more_through() {
        let (exact, tight, loose) =
            (tolerance(0.0, 0.0, None), tolerance(1e-5, 1e-5, None), tolerance(1e-5, 1e-4, None));
        let (usual, wide) = (Gate::Noise { k: 8.0 }, Gate::Noise { k: 9.0 });
        for (old, new, looser) in [
            (&tight, &loose, true),
            (&loose, &tight, false),
            (&tight, &tight, false),
            (&usual, &wide, true),
            (&wide, &usual, false),
            (&usual, &tight, true),
            (&usual, &exact, false),
            (&exact, &usual, true),
            (&tight, &usual, false),
            (&tight, &wide, true),
        ] {
            assert_eq!(old.is_loosened_by(new), looser, "{} to {}", old.text(), new.text());
        }
        let same = |number| tolerance(number, number, Some("fp32"));
        assert!(!same(1e-5).is_loosened_by(&same(1e-3)));
        assert!(same(1e-5).is_loosened_by(&tolerance(1e-3, 1e-3, Some("other"))));
    }

    #[test]
    fn a_gate_that_cannot_be_too_loose_has_no_tighter_one() {
        assert_eq!(tolerance(1e-3, 1e-2, None).part_allowed_by(&tolerance(1e-4, 5e-3, None)), Some(0.5));
        assert_eq!(Gate::Noise { k: 80.0 }.part_allowed_by(&Gate::Noise { k: 8.0 }), Some(0.1));
        assert_eq!(Gate::Noise { k: 8.0 }.part_allowed_by(&Gate::Noise { k: 4.0 }), None);
        assert_eq!(tolerance(0.0, 0.0, None).part_allowed_by(&tolerance(0.0, 0.0, None)), None);
        assert_eq!(Gate::Noise { k: 1000.0 }.scaled(0.016, |x| x), Gate::Noise { k: 16.0 });
        assert_eq!(Gate::Noise { k: 1000.0 }.scaled(1e-6, |x| x), Gate::Noise { k: 8.0 });
    }
}
