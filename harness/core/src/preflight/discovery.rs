//! Checks over all specs: at least one spec exists and runs, and every fixture belongs to a spec.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use walkdir::WalkDir;

use crate::golden::{FixtureSet, MANIFEST, Role};
use crate::spec::Spec;
use crate::text::program::program;

/// The name of the trial that reports these checks.
pub const DISCOVERY: &str = "parity::discovery";

/// Returns the problems of specs and fixtures as a whole, one line each.
///
/// `specs` holds every readable spec, with the reason if it is ignored here. The problems are:
///
/// - No spec exists, or every spec is ignored: the suite would prove nothing.
/// - No spec uses a fixture set or declares a golden: a removed spec or checkpoint leaves these behind, and its tests would
///   vanish without a failure.
pub fn discovery<S: Borrow<Spec>>(
    specs: &[(S, Option<String>)],
    spec_root: &Path,
    fixture_root: Option<&Path>,
) -> Vec<String> {
    if specs.is_empty() {
        let root = spec_root.display();
        return vec![format!(
            "no spec was found in `{root}`, and a suite without specs proves nothing: expected at least one \
             `<model>/<component>.yaml`; write one with `{0} new-spec <model>/<component> --from <reference.py>`, or from \
             a template with `{0} new-spec <model>/<component> --template llm`",
            program()
        )];
    }
    let mut wrong: Vec<String> = nothing_runs(specs).into_iter().collect();
    let Some(fixture_root) = fixture_root else { return wrong };
    let mut declared: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for spec in specs.iter().map(|(spec, _)| spec.borrow()).filter(|spec: &&Spec| spec.needs_fixtures()) {
        declared.entry(&spec.fixtures).or_default().extend(spec.goldens().map(|(_, name)| name));
    }
    for folder in fixture_sets(fixture_root) {
        match declared.get(folder.as_str()) {
            Some(declared) => wrong.extend(undeclared(fixture_root, &folder, declared)),
            None => wrong.push(format!(
                "no spec uses the fixtures `{folder}`: if its spec was removed on purpose, remove the folder too"
            )),
        }
    }
    wrong
}

/// The reasons why the specs are ignored, if all of them are.
fn nothing_runs<S: Borrow<Spec>>(specs: &[(S, Option<String>)]) -> Option<String> {
    let reason = |(spec, ignored): &(S, Option<String>)| {
        ignored.as_ref().map(|reason| format!("`{}` {reason}", spec.borrow().id))
    };
    let reasons: Vec<String> = specs.iter().map(reason).collect::<Option<_>>()?;
    let (shown, rest) = reasons.split_at(reasons.len().min(10));
    let more = if rest.is_empty() { String::new() } else { format!("; and {} more", rest.len()) };
    Some(format!("every spec is ignored here, so nothing is proven: {}{more}", shown.join("; ")))
}

/// The problem that no spec declares some goldens of the set. Another trial reports a set that cannot be read.
fn undeclared(fixture_root: &Path, folder: &str, declared: &BTreeSet<String>) -> Option<String> {
    let set = FixtureSet::open(fixture_root, folder).ok()?;
    let names = set.entries(Role::Golden).map(|entry| entry.name.as_str());
    let extra: Vec<&str> = names.filter(|name| !declared.contains(*name)).collect();
    let (shown, rest) = extra.split_at(extra.len().min(10));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (!extra.is_empty()).then(|| {
        format!(
            "fixtures `{folder}` have goldens that no spec declares: `{}`{more}; declare them as checkpoints, or remove them \
             with `{} fixtures rm {folder} NAME…`",
            shown.join("`, `"),
            program()
        )
    })
}

/// Returns the folders below the fixture root that hold a manifest, as specs name them. Hidden folders are skipped.
pub fn fixture_sets(root: &Path) -> Vec<String> {
    let walk = WalkDir::new(root).min_depth(1).sort_by_file_name().into_iter().filter_entry(|entry| {
        entry.file_type().is_dir() && !entry.file_name().to_string_lossy().starts_with('.')
    });
    let found = walk.filter_map(Result::ok).filter(|entry| entry.path().join(MANIFEST).is_file());
    let relative = found.filter_map(|entry| entry.path().strip_prefix(root).ok().map(Path::to_owned));
    relative
        .map(|path| path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"))
        .collect()
}
