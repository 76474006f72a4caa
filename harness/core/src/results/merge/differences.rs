//! What the parts of a merged run do not have in common: settings, versions, commits, specs, and missing numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::part::RunPart;
use crate::run_folder::{Checkout, MergeFinding, Plan};
use crate::settings::{Require, Settings};
use crate::spec::{Devices, Inject};

/// The largest number of parts that names can promise. A larger number is no count of parts.
const MOST_PARTS: usize = 1000;

/// Returns what differs between the parts.
pub(super) fn between(parts: &[RunPart]) -> Vec<MergeFinding> {
    let mut findings = Vec::new();
    findings.extend(differs(parts, "the version of mlx-parity", |plan| plan.mlx_parity.clone()));
    findings.extend(differs(parts, "the commit", |plan| match &plan.checkout {
        Some(checkout) => checkout.revision.clone(),
        None => "no known commit".to_owned(),
    }));
    let is_dirty = |checkout: &Checkout| checkout.dirty;
    let dirty: Vec<String> = parts
        .iter()
        .filter(|part| part.plans().filter_map(|plan| plan.checkout.as_ref()).any(is_dirty))
        .map(|part| part.name.clone())
        .collect();
    if !dirty.is_empty() {
        findings.push(MergeFinding::Dirty { runs: dirty });
    }
    for (variable, value) in SETTINGS {
        findings.extend(differs(parts, variable, |plan| value(&plan.settings)));
    }
    findings.extend(digests(parts));
    findings
}

/// A setting that changes what a run proves, and its value in words.
type Compared = (&'static str, fn(&Settings) -> String);

/// The settings that must be the same in all parts.
const SETTINGS: [Compared; 4] = [
    ("PARITY_LEVEL", |settings| match settings.level {
        Some(level) => level.to_string(),
        None => NOT_SET.to_owned(),
    }),
    ("the injection of goldens", |settings| match &settings.inject {
        Inject::Declared => NOT_SET.to_owned(),
        Inject::Also(names) => format!("PARITY_INJECT={}", names.join(",")),
        Inject::All => "PARITY_LOCALISE=1".to_owned(),
    }),
    ("PARITY_DEVICE", |settings| match settings.devices {
        Devices::Declared => NOT_SET.to_owned(),
        Devices::One(device) => device.to_string(),
        Devices::Two(first, second) => format!("{first},{second}"),
    }),
    ("PARITY_REQUIRE", |settings| match settings.require {
        Require::Declared => "declared".to_owned(),
        Require::All => "all".to_owned(),
    }),
];

const NOT_SET: &str = "not set";

/// Returns a finding if the plans of the parts differ in `value`. Refused plans have no settings.
fn differs(parts: &[RunPart], what: &str, value: impl Fn(&Plan) -> String) -> Option<MergeFinding> {
    let mut values: Vec<(String, Vec<String>)> = Vec::new();
    for part in parts {
        for plan in part.plans().filter(|plan| plan.refused.is_none()) {
            let value = value(plan);
            match values.iter_mut().find(|(known, _)| *known == value) {
                Some((_, runs)) if runs.contains(&part.name) => {}
                Some((_, runs)) => runs.push(part.name.clone()),
                None => values.push((value, vec![part.name.clone()])),
            }
        }
    }
    (values.len() > 1).then(|| MergeFinding::Differs { what: what.to_owned(), values })
}

/// Returns one finding per way in which specs differ between the parts.
fn digests(parts: &[RunPart]) -> Vec<MergeFinding> {
    let mut by_spec: BTreeMap<&str, Vec<(&str, Vec<String>)>> = BTreeMap::new();
    for part in parts {
        for spec in part.plans().flat_map(|plan| &plan.specs) {
            let known = by_spec.entry(&spec.id).or_default();
            match known.iter_mut().find(|(digest, _)| *digest == spec.digest) {
                Some((_, runs)) if runs.contains(&part.name) => {}
                Some((_, runs)) => runs.push(part.name.clone()),
                None => known.push((&spec.digest, vec![part.name.clone()])),
            }
        }
    }
    let mut grouped: BTreeMap<Vec<Vec<String>>, Vec<String>> = BTreeMap::new();
    for (id, digests) in by_spec.into_iter().filter(|(_, digests)| digests.len() > 1) {
        let runs = digests.into_iter().map(|(_, runs)| runs).collect();
        grouped.entry(runs).or_default().push(id.to_owned());
    }
    grouped.into_iter().map(|(runs, specs)| MergeFinding::Digest { specs, runs }).collect()
}

/// Returns the names that are missing if the names of the runs are numbered, as in `part-1-of-3`.
pub(super) fn missing_numbers(given: &[String]) -> Option<MergeFinding> {
    let mut series: BTreeMap<(&str, usize, &str), BTreeSet<usize>> = BTreeMap::new();
    for name in given {
        // Some parts may be zipped, and others not.
        let name = name.strip_suffix(".zip").unwrap_or(name);
        if let Some((before, number, count, after)) = numbered(name) {
            series.entry((before, count, after)).or_default().insert(number);
        }
    }
    let mut runs = Vec::new();
    for ((before, count, after), numbers) in series {
        let missing = (1..=count).filter(|number| !numbers.contains(number));
        runs.extend(missing.map(|number| format!("{before}{number}-of-{count}{after}")));
    }
    (!runs.is_empty()).then_some(MergeFinding::Missing { runs })
}

/// Splits `part-2-of-3-linux` into `part-`, 2, 3 and `-linux`.
fn numbered(name: &str) -> Option<(&str, usize, usize, &str)> {
    let (before, after) = name.rsplit_once("-of-")?;
    let start = before
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let (number, count) = (before[start..].parse().ok()?, after[..end].parse().ok()?);
    (1..=MOST_PARTS).contains(&count).then_some((&before[..start], number, count, &after[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(names: &[&str]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        missing_numbers(&names).map(|finding| finding.to_string())
    }

    #[test]
    fn numbered_names_show_which_runs_are_missing() {
        assert_eq!(missing(&["a", "b"]), None);
        assert_eq!(missing(&["part-1-of-2", "part-2-of-2"]), None);
        let text = missing(&["part-1-of-3.zip", "part-3-of-3"]).unwrap();
        assert!(text.contains("`part-2-of-3` is missing"), "{text}");
        assert_eq!(missing(&["1-of-1"]), None);
        assert_eq!(missing(&["part-x-of-3", "é-of-2", "2-of-99999"]), None);
        assert!(missing(&["é1-of-2"]).unwrap().contains("`é2-of-2`"));
    }
}
