//! Checks that a spec root made looser than before.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::finding::some_of;
use mlx_parity_core::files::regular;
use mlx_parity_core::gate::Gate;
use mlx_parity_core::spec::{Checkpoint, Policies, PoliciesState, Spec, Specs, Weights};

/// Something that is looser than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loosened {
    /// Whether it is a value gate, and not another check.
    pub(super) is_tolerance: bool,
    /// The checkpoints, and how each became looser.
    pub(super) what: String,
    /// The file as it is now, or where a removed file was.
    pub(super) path: PathBuf,
    pub(super) line: Option<usize>,
}

/// Returns everything that is looser in `now` than in `before`; new specs and specs that cannot be read now are left out.
pub(super) fn loosened(before: &Specs, now: &Specs) -> Vec<Loosened> {
    let mut found = policies(&before.policies, &now.policies);
    let is_broken = |id: &str| now.broken.iter().any(|error| error.id == id);
    for old in before.specs.iter().filter(|old| !is_broken(&old.id)) {
        match now.specs.iter().find(|new| new.id == old.id) {
            Some(new) => {
                found.extend(spec(old, new));
                found.extend(old.twin_specs().flat_map(|twin| of_twin(&twin, new)));
            }
            None => found.push(Loosened {
                is_tolerance: false,
                what: format!(
                    "spec `{}` was removed, with {}",
                    old.id,
                    mlx_parity_core::spec::list::counted(old.checkpoints.len(), "checkpoint")
                ),
                path: now.policies.path.with_file_name(format!("{}.yaml", old.id)),
                line: None,
            }),
        }
    }
    found
}

/// What became looser in a twin of the spec that is now `new`.
fn of_twin(old: &Spec, new: &Spec) -> Vec<Loosened> {
    if let Some(twin) = new.twin_specs().find(|twin| twin.id == old.id) {
        return spec(old, &twin);
    }
    let name = old.twin.as_ref().map_or("", |twin| &twin.name);
    let checkpoints = mlx_parity_core::spec::list::counted(old.checkpoints.len(), "checkpoint");
    let what = format!("twin `{name}` was removed, with {checkpoints}");
    vec![Loosened { is_tolerance: false, what, path: new.path.clone(), line: None }]
}

fn spec(old: &Spec, new: &Spec) -> Vec<Loosened> {
    // Checkpoints of one loop are loosened together, and reported once.
    let mut by_line: BTreeMap<(Option<usize>, String, bool), Vec<&str>> = BTreeMap::new();
    for before in &old.checkpoints {
        let now = new.checkpoint(&before.name);
        let line = now.map(|now| now.line);
        let gone = || vec![(false, "no longer declared".to_owned())];
        for (is_tolerance, what) in now.map_or_else(gone, |now| checkpoint(old, before, new, now)) {
            by_line.entry((line, what, is_tolerance)).or_default().push(&before.name);
        }
    }
    let of_checkpoints = by_line.into_iter().map(|((line, what, is_tolerance), names)| Loosened {
        is_tolerance,
        what: format!("{}: {what}", some_of(&names)),
        path: new.path.clone(),
        line,
    });
    let of_spec = whole(old, new).into_iter().map(|what| Loosened {
        is_tolerance: false,
        what,
        path: new.path.clone(),
        line: None,
    });
    of_spec.chain(of_checkpoints).collect()
}

/// What became looser in one checkpoint, and whether that is its value gate.
fn checkpoint(old_spec: &Spec, old: &Checkpoint, new_spec: &Spec, new: &Checkpoint) -> Vec<(bool, String)> {
    let mut found: Vec<(bool, String)> =
        gate(old.gate.as_ref(), new.gate.as_ref()).into_iter().map(|what| (true, what)).collect();
    let mut check = |is: bool, what: String| {
        if is {
            found.push((false, what));
        }
    };
    check(old.gated && !new.gated, "`gate: false` was added".to_owned());
    let (was_on, is_on) = (old.level <= old_spec.level, new.level <= new_spec.level);
    check(
        was_on && !is_on,
        format!(
            "its level {} is above the spec's level {}, so it is not checked by default",
            new.level, new_spec.level
        ),
    );
    check(old.counterpart != new.counterpart, "other rows are compared, or those of another run".to_owned());
    check(old.hits != new.hits, format!("`hits` changed from {} to {}", old.hits, new.hits));
    check(!old.nan_equal && new.nan_equal, "`nan: equal` was added".to_owned());
    check(old.shape.is_some() && new.shape.is_none(), "its `shape` is no longer declared".to_owned());
    check(
        old.against.is_none() && new.against.is_some() && old.gate.is_some(),
        "it is compared with another tap instead of its golden".to_owned(),
    );
    check(
        old.scores.is_some() && new.scores.is_some() && old.scores != new.scores,
        "its ties are judged by other scores".to_owned(),
    );
    check(old.ids.is_none() && new.ids.is_some(), "it is compared by id, not by position".to_owned());
    match (old.at_least, new.at_least) {
        (Some(before), None) => check(true, format!("its `at_least` {before:e} was removed")),
        (Some(before), Some(now)) => {
            check(now < before, format!("`at_least` fell from {before:e} to {now:e}"));
        }
        (None, _) => {}
    }
    if let (Some(before), Some(now)) = (old.dtype, new.dtype) {
        let coarser = now.epsilon().unwrap_or(0.0) > before.epsilon().unwrap_or(0.0);
        check(coarser, format!("its dtype became {now}, which is coarser than {before}"));
    }
    match (old.range, new.range) {
        (Some((low, high)), None) => check(true, format!("its `range` [{low}, {high}] was removed")),
        (Some((low, high)), Some((lower, higher))) => check(
            lower < low || higher > high,
            format!("`range` widened from [{low}, {high}] to [{lower}, {higher}]"),
        ),
        (None, _) => {}
    }
    found
}

/// How a value gate became looser.
fn gate(old: Option<&Gate>, new: Option<&Gate>) -> Option<String> {
    let (old, new) = match (old?, new) {
        (_, None) => return Some("its value gate was removed".to_owned()),
        (old, Some(new)) => (old, new),
    };
    let became = format!("{} became {}", old.text(), new.text());
    old.is_loosened_by(new).then(|| match old.needs_floor() && !new.needs_floor() {
        true => format!("{became}, which no longer follows the golden's floor"),
        false => became,
    })
}

/// What became looser in a spec besides its checkpoints.
fn whole(old: &Spec, new: &Spec) -> Vec<String> {
    let mut found = Vec::new();
    let mut more = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            found.push(format!("{what} {}", some_of(&names)));
        }
    };
    let none = Weights::default();
    let (before, now) = (old.weights.as_ref().unwrap_or(&none), new.weights.as_ref().unwrap_or(&none));
    more("`weights.allow_missing` now has", beyond(&before.allow_missing, &now.allow_missing));
    more("`weights.expect` no longer has", beyond(&now.expect, &before.expect));
    more("`weights.frozen` no longer has", beyond(&now.frozen, &before.frozen));
    let requirements = |spec: &Spec| spec.requires.iter().map(ToString::to_string).collect::<Vec<_>>();
    more("`requires` now has", beyond(&requirements(old), &requirements(new)));
    more("`inject` now has", beyond(&old.inject, &new.inject));
    more("`adapters` no longer has", beyond(&new.adapters, &old.adapters));
    let also = |spec: &Spec| spec.reference.as_ref().and_then(|reference| reference.also.clone());
    if let (Some(before), None) = (also(old), also(new)) {
        found.push(format!("`also: {before}` was removed, so no second reference confirms the goldens"));
    }
    let hashes = |spec: &Spec| spec.external().and_then(|external| external.sha256.clone());
    if old.external().is_some() && hashes(old).is_some() && hashes(new).is_none() {
        found.push("`weights.sha256` was removed".to_owned());
    }
    if old.weights.is_some() && new.weights.is_none() {
        found.push("`weights` was removed, so weights are no longer audited".to_owned());
    }
    found
}

/// The entries of `now` that `before` does not have.
fn beyond(before: &[String], now: &[String]) -> Vec<String> {
    now.iter().filter(|name| !before.contains(name)).cloned().collect()
}

fn policies(old: &Policies, new: &Policies) -> Vec<Loosened> {
    if new.state != PoliciesState::Read {
        return Vec::new();
    }
    let source = regular::read_text(&new.path, regular::TEXT).unwrap_or_default();
    let line = |name: &str| {
        let is = |line: &str| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        source.lines().position(is).map(|at| at + 1)
    };
    let loosened = |what: String, line| Loosened { is_tolerance: true, what, path: new.path.clone(), line };
    let mut found = Vec::new();
    for (name, before) in &old.named {
        let Some(now) = new.named.get(name) else { continue };
        if now.rtol > before.rtol || now.atol > before.atol {
            let what = format!(
                "policy `{name}` changed from atol {:e}, rtol {:e} to atol {:e}, rtol {:e}",
                before.atol, before.rtol, now.atol, now.rtol
            );
            found.push(loosened(what, line(name)));
        }
        let more: Vec<&str> = now
            .dtypes
            .iter()
            .filter(|dtype| !before.dtypes.contains(dtype))
            .map(|dtype| dtype.name())
            .collect();
        if !more.is_empty() {
            found.push(loosened(
                format!("policy `{name}` now also applies to {}", some_of(&more)),
                line(name),
            ));
        }
    }
    for dtype in old.bounds.keys() {
        let (Some((was, before)), now) = (old.bound(*dtype), new.bound(*dtype)) else { continue };
        let what = match now {
            None => format!("{dtype} no longer has a bound; it was policy `{was}`"),
            // A policy of the same name that became looser is reported already.
            Some((is, now)) if is != was && (now.rtol > before.rtol || now.atol > before.atol) => {
                format!("{dtype} is now bounded by policy `{is}`, which is looser than `{was}`")
            }
            Some(_) => continue,
        };
        found.push(loosened(what, line(dtype.name())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: &str = "version: 1\nbounds: {float32: fp32}\npolicies:\n  exact: {rtol: 0, atol: 0, dtypes: [float32]}\n  \
        fp32: {rtol: 1e-5, atol: 1e-5, dtypes: [float32]}\n  wide: {rtol: 1, atol: 1, dtypes: [float32]}\n";

    fn root(policies: &str, spec: &str) -> Specs {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("a")).unwrap();
        std::fs::write(root.path().join("policies.yaml"), policies).unwrap();
        let head = "version: 1\nport: p\nreference: {script: s.py}\n";
        std::fs::write(root.path().join("a/b.yaml"), format!("{head}{spec}")).unwrap();
        let specs = Specs::load(root.path());
        assert_eq!(specs.broken, [], "{}", specs.broken[0]);
        specs
    }

    fn found(old: &str, new: &str) -> Vec<String> {
        let found = loosened(&root(POLICIES, old), &root(POLICIES, new));
        found.into_iter().map(|one| one.what).collect()
    }

    /// One checkpoint with these keys before and after.
    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let one = |keys: &str| format!("checkpoints:\n  - {{name: x, dtype: float32, why: w, {keys}}}\n");
        assert_eq!(found(&one(old), &one(new)), expected, "{old} to {new}");
        if !expected.is_empty() && !old.contains("noise") {
            assert_eq!(found(&one(new), &one(new)), [""; 0]);
        }
    }

    #[test]
    fn every_looser_check_is_found() {
        let tight = "rtol: 1e-5, atol: 1e-6";
        check(tight, tight, &[]);
        check(tight, "rtol: 1e-4, atol: 1e-6", &["`x`: atol 1e-6, rtol 1e-5 became atol 1e-6, rtol 1e-4"]);
        check(tight, "rtol: 1e-6, atol: 1e-5", &["`x`: atol 1e-6, rtol 1e-5 became atol 1e-5, rtol 1e-6"]);
        check(tight, "rtol: 1e-6, atol: 1e-7", &[]);
        check(
            "policy: fp32",
            "policy: wide",
            &["`x`: policy `fp32` (atol 1e-5, rtol 1e-5) became policy `wide` (atol 1e0, rtol 1e0)"],
        );
        check("policy: wide", "policy: fp32", &[]);
        check("noise: 8", "noise: 9", &["`x`: noise 8 became noise 9"]);
        check("noise: 8", "noise: 4", &[]);
        check(
            "noise: 8",
            tight,
            &["`x`: noise 8 became atol 1e-6, rtol 1e-5, which no longer follows the golden's floor"],
        );
        check("noise: 8", "policy: exact", &[]);
        check(tight, "noise: 8", &[]);
        check("policy: exact", "noise: 8", &["`x`: policy `exact` (atol 0e0, rtol 0e0) became noise 8"]);
        check(tight, "range: [0, 1]", &["`x`: its value gate was removed"]);
        check(tight, "rtol: 1e-5, atol: 1e-6, gate: false", &["`x`: `gate: false` was added"]);
        check(
            tight,
            "rtol: 1e-5, atol: 1e-6, level: 1",
            &["`x`: its level 1 is above the spec's level 0, so it is not checked by default"],
        );
        check(tight, "rtol: 1e-5, atol: 1e-6, hits: 2", &["`x`: `hits` changed from 1 to 2"]);
        check(tight, "rtol: 1e-5, atol: 1e-6, nan: equal", &["`x`: `nan: equal` was added"]);
        check(
            "noise: 8, range: [0, 1]",
            "noise: 8, range: [0, 2]",
            &["`x`: `range` widened from [0, 1] to [0, 2]"],
        );
        check("noise: 8, range: [0, 1]", "noise: 8", &["`x`: its `range` [0, 1] was removed"]);
        check("noise: 8, range: [0, 2]", "noise: 8, range: [0, 1]", &[]);
        check("noise: 8, shape: [2]", "noise: 8", &["`x`: its `shape` is no longer declared"]);
    }

    #[test]
    fn a_lower_bound_that_is_lowered_or_gone_is_found() {
        let one = |keys: &str| {
            format!(
                "checkpoints:\n  - {{name: y, dtype: float32, noise: 8}}\n  \
                 - {{name: x, dtype: float32, why: w, rtol: 0.1, atol: 0, against: y{keys}}}\n"
            )
        };
        let (half, less) = (one(", at_least: 0.05"), one(", at_least: 0.01"));
        assert_eq!(found(&half, &less), ["`x`: `at_least` fell from 5e-2 to 1e-2"]);
        assert_eq!(found(&half, &one("")), ["`x`: its `at_least` 5e-2 was removed"]);
        assert_eq!(found(&less, &half), [""; 0]);
        assert_eq!(found(&one(""), &half), [""; 0]);
    }

    #[test]
    fn a_loop_is_reported_once() {
        let one = |k: u32, end: u32| {
            format!(
                "checkpoints:\n  - {{name: \"b.{{i}}\", for: {{i: 0..{end}}}, dtype: float32, noise: {k}, why: w}}\n"
            )
        };
        assert_eq!(
            found(&one(8, 5), &one(20, 5)),
            ["`b.0`, `b.1`, `b.2` and 2 others: noise 8 became noise 20"]
        );
        assert_eq!(found(&one(8, 5), &one(8, 3)), ["`b.3`, `b.4`: no longer declared"]);
        assert_eq!(found(&one(8, 3), &one(8, 5)), [""; 0]);
    }

    #[test]
    fn the_spec_besides_its_checkpoints_is_compared_too() {
        let with = |weights: &str| format!("{weights}checkpoints: [{{name: x, dtype: float32, noise: 8}}]\n");
        let old = with("weights: {file: w.safetensors, expect: [a]}\n");
        assert_eq!(
            found(&old, &with("weights: {file: w.safetensors, allow_missing: [\"b.*\"]}\n")),
            ["`weights.allow_missing` now has `b.*`", "`weights.expect` no longer has `a`"]
        );
        assert!(
            found(&old, &with(""))
                .contains(&"`weights` was removed, so weights are no longer audited".to_owned())
        );
        assert_eq!(found(&with(""), &with("inject: [x]\n")), ["`inject` now has `x`"]);
        let adapted = with("weights: {file: w.safetensors, expect: [a]}\nadapters: [l.safetensors]\n");
        assert_eq!(found(&adapted, &old), ["`adapters` no longer has `l.safetensors`"]);
    }

    #[test]
    fn a_second_reference_that_is_gone_is_found() {
        let now = root(POLICIES, "checkpoints: [{name: x, dtype: float32, noise: 8}]\n");
        let mut before = root(POLICIES, "checkpoints: [{name: x, dtype: float32, noise: 8}]\n");
        if let Some(reference) = &mut before.specs[0].reference {
            reference.also = Some("t.py".to_owned());
        }
        let found = loosened(&before, &now);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "`also: t.py` was removed, so no second reference confirms the goldens");
    }

    #[test]
    fn a_policy_is_reported_where_it_is_written_and_not_at_each_use() {
        let spec = "checkpoints: [{name: x, dtype: float32, policy: fp32}]\n";
        let grown = POLICIES.replace("fp32: {rtol: 1e-5", "fp32: {rtol: 1e-3");
        let found = loosened(&root(POLICIES, spec), &root(&grown, spec));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "policy `fp32` changed from atol 1e-5, rtol 1e-5 to atol 1e-5, rtol 1e-3");
        let wider = POLICIES.replace("bounds: {float32: fp32}", "bounds: {float32: wide}");
        let found = loosened(&root(POLICIES, spec), &root(&wider, spec));
        assert_eq!(found[0].what, "float32 is now bounded by policy `wide`, which is looser than `fp32`");
    }
}
