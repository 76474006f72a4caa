//! What each kind of gate means to the commands, in one place: how it is written, compared and tightened.
//!
//! A new kind of gate adds its arm to every `match` here; callers ask the methods and name no kind.

use super::Gate;

/// The `noise` that right ports stay within: looser needs a reason, tighter is never suggested.
pub const USUAL_NOISE: f64 = 8.0;

impl Gate {
    /// Whether the gate is meaningless without the golden's floor.
    pub fn needs_floor(&self) -> bool {
        match self {
            Self::Tolerance { .. } => false,
            Self::Noise { .. } => true,
        }
    }

    /// Whether only equal values pass.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Tolerance { rtol, atol, .. } => *rtol == 0.0 && *atol == 0.0,
            Self::Noise { .. } => false,
        }
    }

    /// Whether the gate is as loose as right ports need, so that it cannot be too loose.
    pub fn is_usual(&self) -> bool {
        match self {
            Self::Tolerance { .. } => self.is_exact(),
            Self::Noise { k } => *k <= USUAL_NOISE,
        }
    }

    /// The policy that its numbers come from, if any.
    pub fn policy(&self) -> Option<&str> {
        match self {
            Self::Tolerance { policy, .. } => policy.as_deref(),
            Self::Noise { .. } => None,
        }
    }

    /// The gate as a message shows it: ``policy `fp32` (atol 1e-5, rtol 1e-5)``, `noise 8`.
    pub fn text(&self) -> String {
        match self {
            Self::Tolerance { rtol, atol, policy: Some(policy) } => {
                format!("policy `{policy}` (atol {atol:e}, rtol {rtol:e})")
            }
            Self::Tolerance { rtol, atol, policy: None } => format!("atol {atol:e}, rtol {rtol:e}"),
            Self::Noise { k } => format!("noise {k}"),
        }
    }

    /// The gate as a spec writes it: `policy: fp32`, `rtol: 1e-5, atol: 0`, `noise: 8`.
    pub fn yaml(&self) -> String {
        let short = |number: f64| if number == 0.0 { "0".to_owned() } else { format!("{number:e}") };
        match self {
            Self::Tolerance { policy: Some(policy), .. } => format!("policy: {policy}"),
            Self::Tolerance { rtol, atol, policy: None } => {
                format!("rtol: {}, atol: {}", short(*rtol), short(*atol))
            }
            Self::Noise { k } => format!("noise: {k}"),
        }
    }

    /// The gate of the same kind with every number multiplied by `factor` and then changed by `round`. A noise gate never
    /// gets below [`USUAL_NOISE`].
    pub fn scaled(&self, factor: f64, round: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Tolerance { rtol, atol, .. } => {
                Self::Tolerance { rtol: round(rtol * factor), atol: round(atol * factor), policy: None }
            }
            Self::Noise { k } => Self::Noise { k: round(k * factor).max(USUAL_NOISE) },
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
            (Self::Noise { k }, Self::Noise { k: other }) => Some(other / k),
            (Self::Tolerance { .. }, Self::Noise { .. }) | (Self::Noise { .. }, Self::Tolerance { .. }) => {
                None
            }
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
        }
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
