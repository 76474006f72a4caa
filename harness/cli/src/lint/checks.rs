//! What lint checks without a run and without a commit: specs, the schema, fixtures, and images that cannot be drawn.

use std::collections::BTreeMap;

use super::LintInput;
use super::finding::Finding;
use mlx_parity_core::files::regular;
use mlx_parity_core::golden::{ChecksumMemory, Trust};
use mlx_parity_core::preflight::{discovery, look_at_fixtures, missing, wrong_positions};
use mlx_parity_core::spec::{Requirement, SCHEMA, Spec, schema_text};
use mlx_parity_core::text::printable::{coloured, indented};
use mlx_parity_core::text::program::program;

pub(super) fn check_specs(input: &LintInput, wrong: &mut Vec<String>) {
    let specs = &input.specs;
    wrong.extend(
        specs.unreadable.iter().chain(&specs.broken).map(|error| coloured(&error.render(input.colour))),
    );
    if specs.unreadable.is_none() && specs.broken.is_empty() {
        // Lint reads specs on any machine; whether this machine would ignore a spec does not matter.
        let all: Vec<_> = specs.specs.iter().map(|spec| (spec, None)).collect();
        let found = discovery(&all, &input.spec_root, Some(&input.fixture_root));
        wrong.extend(found.iter().map(|text| format!("error: {}", indented(text, 7))));
    }
}

pub(super) fn check_schema(input: &LintInput, wrong: &mut Vec<String>) {
    let path = input.spec_root.join(SCHEMA);
    let fault = match regular::read_text(&path, regular::TEXT) {
        Ok(text) if text == schema_text() => return,
        Ok(_) => "does not match this version of mlx-parity".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "does not exist, so editors cannot complete specs".to_owned()
        }
        Err(error) => format!("cannot be read: {error}"),
    };
    wrong.push(format!("error: `{}` {fault}: run `{} lint --write-schema`", path.display(), program()));
}

/// Every set must be intact, and contain what its specs declare.
pub(super) fn check_fixtures(input: &LintInput, wrong: &mut Vec<String>) {
    let mut memory = ChecksumMemory::load(&input.checksums, Trust::here());
    for spec in &input.specs.specs {
        // A spec with `requires: [fixtures]` allows its set to be absent.
        let absent = !input.fixture_root.join(&spec.fixtures).is_dir();
        if absent && spec.requires.contains(&Requirement::Fixtures) {
            continue;
        }
        let (set, obstacles) = look_at_fixtures(spec, &input.root, &input.fixture_root, &mut memory);
        let mut found: Vec<String> = obstacles.into_iter().map(|obstacle| obstacle.text).collect();
        if let Some(set) = set.filter(|_| found.is_empty()) {
            found = missing(spec, &set);
            found.extend(wrong_positions(spec, &set));
        }
        wrong.extend(found.iter().map(|text| format!("error: spec `{}`: {}", spec.id, indented(text, 7))));
    }
    // If the checksums cannot be saved, the next lint is slower but still right.
    let _ = memory.save();
}

/// The lines of a spec with `stage: image` whose tensor cannot be drawn.
pub(super) fn undrawable(spec: &Spec) -> Vec<Finding> {
    let mut lines: BTreeMap<usize, (String, &str)> = BTreeMap::new();
    for checkpoint in &spec.checkpoints {
        if let Some(why) = checkpoint.undrawable() {
            lines.entry(checkpoint.line).or_insert((why, &checkpoint.name));
        }
    }
    let finding = |(line, (why, name)): (usize, (String, &str))| Finding {
        is_error: false,
        message: format!("`{name}` has the stage `image`, but cannot be drawn: {why}"),
        path: spec.path.clone(),
        line: Some(line),
        notes: Vec::new(),
        help: Some("choose another stage, or tap a tensor that can be drawn".to_owned()),
    };
    lines.into_iter().map(finding).collect()
}
