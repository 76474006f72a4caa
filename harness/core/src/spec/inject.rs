//! Which checkpoints are injected.

use serde::{Deserialize, Serialize};

use super::Spec;

/// The checkpoints at which a port continues with the golden instead of its own actual.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inject {
    /// Those that the spec lists.
    #[default]
    Declared,
    /// Those that the spec lists, and these from `PARITY_INJECT`.
    Also(Vec<String>),
    /// All of them, so that each stage works on golden inputs (`PARITY_LOCALISE`).
    All,
}

impl Inject {
    /// Whether the port continues with the golden of this checkpoint.
    pub fn takes(&self, spec: &Spec, checkpoint: &str) -> bool {
        if spec.checkpoint(checkpoint).is_some_and(|found| !found.can_inject()) {
            return false;
        }
        let declared = || spec.inject.iter().any(|name| name == checkpoint);
        match self {
            Self::Declared => declared(),
            Self::Also(names) => declared() || names.iter().any(|name| name == checkpoint),
            Self::All => true,
        }
    }

    /// Whether any golden of this spec is injected.
    pub fn any(&self, spec: &Spec) -> bool {
        spec.checkpoints.iter().any(|checkpoint| self.takes(spec, &checkpoint.name))
    }
}
