//! How far two references of a set agree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::files::hash::is_sha256;

/// The second script of a set, as it was when the set was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondScript {
    /// The script, as the spec named it.
    pub script: String,
    /// Hex SHA-256 of the script's bytes.
    pub sha256: String,
}

/// How far the goldens of a second, independent reference are from those of the set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondReference {
    /// The script, as the spec named it.
    pub script: String,
    /// The versions of the packages that it used.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// The goldens that both references make.
    pub goldens: BTreeMap<String, Agreement>,
    /// The goldens that only the first reference makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only_first: Vec<String>,
}

/// How far two references are apart at one golden. One of the two numbers is present; both are 0 for equal tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Multiples of the golden's floor, as a `noise` gate counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floors: Option<f64>,
    /// For a golden without a floor: the share of the checkpoint's gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<f64>,
}

impl SecondReference {
    /// The golden at which the references are furthest apart, in floors.
    pub fn furthest(&self) -> Option<(&str, f64)> {
        let goldens = self.goldens.iter().filter_map(|(name, one)| Some((name.as_str(), one.floors?)));
        goldens.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// What is wrong with the numbers, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        let is_number = |number: Option<f64>| number.is_none_or(|number| number >= 0.0 && number.is_finite());
        let bad = self.goldens.iter().find(|(_, one)| {
            !is_number(one.floors) || !is_number(one.gate) || one.floors.is_some() == one.gate.is_some()
        });
        bad.map(|(name, _)| format!("`{}` needs `floors` or `gate`, a number from 0", name.escape_debug()))
    }
}

impl SecondScript {
    /// What is wrong with the checksum, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        (!is_sha256(&self.sha256)).then(|| {
            format!(
                "its sha256 is `{}`, expected 64 lower-case hexadecimal digits",
                self.sha256.escape_debug()
            )
        })
    }
}
