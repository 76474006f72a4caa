//! `cargo xtask lint`: whether specs, policies, the schema and fixtures are right, without running anything; which gates
//! the newest run shows to be far too loose; and what a change loosens.

mod base;
mod finding;
mod git;
mod goldens;
mod loosened;
mod slack;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use finding::Finding;

use super::suite_target::check_suite_target;
use super::{CliError, Project, say};
use crate::atomic::write_atomically;
use crate::compare::Gate;
use crate::golden::{ChecksumMemory, FixtureSet, Trust};
use crate::printable::{coloured, indented};
use crate::report::error_chain;
use crate::run::{Out, discovery, look_at_fixtures};
use crate::spec::{Requirement, SCHEMA, Spec, Specs, list::counted, schema_text};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lint                    check every spec, the policies, the schema and the fixtures\n  \
    cargo xtask lint --write-schema     bring schema.json up to date first\n  \
    cargo xtask parity; cargo xtask lint --strict\n                                      \
    also fail where a gate is over 50 times what the run used\n  \
    cargo xtask lint --base origin/main\n                                      \
    also what this branch loosens, floors that grew, and goldens that\n                                      \
    change with port code or without their reference\n\n\
    Exits with 1 when there is an error, with `--strict` also when there is a warning, 0 otherwise.")]
pub(crate) struct Arguments {
    /// Write schema.json anew before checking
    #[arg(long)]
    write_schema: bool,
    /// Hold specs, policies and goldens against this commit: a loosened gate is a warning, with port code an error
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Error)]
pub(crate) enum LintError {
    #[error("cannot write `{}`", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] git::GitError),
}

impl LintError {
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::Write { .. } => None,
            Self::Git(error) => error.next(),
        }
    }
}

/// Checks everything, shows all problems on stdout, and ends with how much was looked at.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let spec_root = project.spec_root();
    if arguments.write_schema {
        let path = spec_root.join(SCHEMA);
        write_atomically(&path, |out| out.write_all(schema_text().as_bytes()))
            .map_err(|source| LintError::Write { path, source })?;
    }
    let linted = Linted {
        specs: Specs::load(&spec_root),
        spec_root,
        root: project.root().to_owned(),
        fixture_root: project.fixture_root(),
        checksums: Out::of(project.root()).checksums(),
        run: Out::of(project.root()).run("latest"),
        colour: io::stdout().is_terminal(),
    };
    let (mut found, note) = lint(&linted);
    if let Err(error) = check_suite_target(project) {
        found.wrong.push(format!(
            "error: {}: {}",
            indented(&error_chain(&error), 7),
            indented(&error.next(), 7)
        ));
    }
    if let Some(reference) = &arguments.base {
        let roots = base::Roots {
            root: &linted.root,
            spec_root: &linted.spec_root,
            fixture_root: &linted.fixture_root,
            lock: project.references_folder().map(|folder| folder.join("uv.lock")),
        };
        for finding in base::since(reference, &roots, &linted.specs).map_err(LintError::from)? {
            found.add(&finding, linted.colour);
        }
    }
    say(&found.text(&linted.specs));
    eprintln!("{note}");
    let right = found.wrong.is_empty() && (found.warnings.is_empty() || !arguments.strict);
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the checks look at.
struct Linted {
    specs: Specs,
    spec_root: PathBuf,
    root: PathBuf,
    fixture_root: PathBuf,
    /// Where checksums are remembered.
    checksums: PathBuf,
    /// The newest run.
    run: PathBuf,
    colour: bool,
}

/// What was found, as people read it, an entry a thing.
#[derive(Debug, Default)]
struct Found {
    wrong: Vec<String>,
    warnings: Vec<String>,
}

impl Found {
    fn add(&mut self, finding: &Finding, colour: bool) {
        let list = if finding.is_error { &mut self.wrong } else { &mut self.warnings };
        list.push(coloured(&finding.render(colour)));
    }

    /// Everything, with how much was looked at in the last line.
    fn text(&self, specs: &Specs) -> String {
        let mut summary = format!(
            "{}, {} and {} can be read, {} {} wrong",
            counted(specs.specs.len(), "spec"),
            counted(specs.specs.iter().map(|spec| spec.checkpoints.len()).sum(), "checkpoint"),
            match specs.policies.named.len() {
                1 => "1 policy".to_owned(),
                count => format!("{count} policies"),
            },
            counted(self.wrong.len(), "thing"),
            if self.wrong.len() == 1 { "is" } else { "are" },
        );
        if !self.warnings.is_empty() {
            summary += &format!(", {}", counted(self.warnings.len(), "warning"));
        }
        let parts: Vec<&str> = self.wrong.iter().chain(&self.warnings).map(String::as_str).collect();
        [&parts[..], &[&summary]].concat().join("\n\n") + "\n"
    }
}

/// One subject: it adds what is wrong, as people read it, an entry a file.
type Check = fn(&Linted, &mut Vec<String>);

/// The subjects, in the order shown.
const CHECKS: [Check; 3] = [check_specs, check_schema, check_fixtures];

/// What there is to say without a commit to hold it against, and a line on what gates were held against.
fn lint(linted: &Linted) -> (Found, String) {
    let mut found = Found::default();
    for check in CHECKS {
        check(linted, &mut found.wrong);
    }
    linted.specs.specs.iter().flat_map(undrawable).for_each(|finding| found.add(&finding, linted.colour));
    let note = check_slack(linted, &mut found);
    (found, note)
}

/// The lines of a spec that say `stage: image` of what cannot be drawn.
fn undrawable(spec: &Spec) -> Vec<Finding> {
    let mut lines: BTreeMap<usize, (String, &str)> = BTreeMap::new();
    for checkpoint in &spec.checkpoints {
        if let Some(why) = checkpoint.undrawable() {
            lines.entry(checkpoint.line).or_insert((why, &checkpoint.name));
        }
    }
    let finding = |(line, (why, name)): (usize, (String, &str))| Finding {
        is_error: false,
        message: format!("`{name}` has the stage `image` and cannot be drawn: {why}"),
        path: spec.path.clone(),
        line: Some(line),
        notes: Vec::new(),
        help: Some("give it another stage, or tap what can be drawn".to_owned()),
    };
    lines.into_iter().map(finding).collect()
}

/// Holds every gate against what the newest run used of it, and says how many.
fn check_slack(linted: &Linted, found: &mut Found) -> String {
    let how = "`cargo xtask parity` makes one";
    let Ok(run) = linted.run.canonicalize() else {
        return format!("note: no run to hold gates against, so loose ones are not seen; {how}");
    };
    let mut lines = 0;
    for spec in &linted.specs.specs {
        let (slack, told) = slack::slack(spec, &linted.specs.policies, &run);
        slack.iter().for_each(|finding| found.add(finding, linted.colour));
        lines += told;
    }
    let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match lines {
        0 => format!(
            "note: run `{name}` met no checkpoint as the specs have it now, so loose gates are not seen; {how}"
        ),
        _ => format!("note: the gates of {} were held against run `{name}`", counted(lines, "line")),
    }
}

fn check_specs(linted: &Linted, wrong: &mut Vec<String>) {
    let specs = &linted.specs;
    wrong.extend(
        specs.unreadable.iter().chain(&specs.broken).map(|error| coloured(&error.render(linted.colour))),
    );
    if specs.unreadable.is_none() && specs.broken.is_empty() {
        // Lint reads specs on whichever machine: that they are ignored there says nothing of them.
        let all: Vec<_> = specs.specs.iter().map(|spec| (spec, None)).collect();
        let found = discovery(&all, &linted.spec_root, Some(&linted.fixture_root));
        wrong.extend(found.iter().map(|text| format!("error: {}", indented(text, 7))));
    }
}

fn check_schema(linted: &Linted, wrong: &mut Vec<String>) {
    let path = linted.spec_root.join(SCHEMA);
    let fault = match crate::regular::read_text(&path, crate::regular::TEXT) {
        Ok(text) if text == schema_text() => return,
        Ok(_) => "is not what this version's specs may say".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    wrong.push(format!("error: `{}` {fault}: run `cargo xtask lint --write-schema`", path.display()));
}

/// Every set must be sound, and hold what its specs declare.
fn check_fixtures(linted: &Linted, wrong: &mut Vec<String>) {
    let mut memory = ChecksumMemory::load(&linted.checksums, Trust::here());
    for spec in &linted.specs.specs {
        // A set that the spec itself says may be elsewhere is not looked for.
        let absent = !linted.fixture_root.join(&spec.fixtures).is_dir();
        if absent && spec.requires.contains(&Requirement::Fixtures) {
            continue;
        }
        let (set, obstacles) = look_at_fixtures(spec, &linted.root, &linted.fixture_root, &mut memory);
        let mut found: Vec<String> = obstacles.into_iter().map(|obstacle| obstacle.text).collect();
        if let Some(set) = set.filter(|_| found.is_empty()) {
            found = missing(spec, &set);
        }
        wrong.extend(found.iter().map(|text| format!("error: spec `{}`: {}", spec.id, indented(text, 7))));
    }
    // A lint that cannot remember what it hashed is slower the next time, not wrong.
    let _ = memory.save();
}

/// What a spec declares and its set does not hold, or holds as something else.
pub(super) fn missing(spec: &Spec, set: &FixtureSet) -> Vec<String> {
    let mut found = Vec::new();
    for name in &spec.inputs {
        found.extend(set.input(name).err().map(|error| error_chain(&error)));
    }
    for (checkpoint, name) in spec.goldens() {
        match set.golden(&name) {
            Err(error) => found.push(error_chain(&error)),
            Ok(golden) => {
                let stored = golden.tensor.dtype();
                if let Some(wanted) =
                    checkpoint.dtype.filter(|&wanted| checkpoint.cast.is_none() && wanted != stored)
                {
                    found.push(format!(
                        "line {}: checkpoint `{name}` is {wanted}, but its golden is {stored}; export it so, or say \
                         `cast: {wanted}`",
                        checkpoint.line
                    ));
                }
                if matches!(checkpoint.gate, Some(Gate::Noise { .. })) && golden.floor.is_none() {
                    found.push(format!(
                        "line {}: checkpoint `{name}` has a `noise` gate, but its golden has no floor",
                        checkpoint.line
                    ));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "version: 1\nport: p\ncheckpoints: [{name: x, shape: [2]}]\n";

    fn lint_files(files: &[(&str, &str)]) -> (String, bool) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let linted = Linted {
            specs: Specs::load(root.path()),
            spec_root: root.path().to_owned(),
            root: root.path().to_owned(),
            fixture_root: root.path().join("fixtures"),
            checksums: root.path().join("checksums.json"),
            run: root.path().join("runs/latest"),
            colour: false,
        };
        let (found, note) = lint(&linted);
        assert!(note.starts_with("note: no run to hold gates against"), "{note}");
        let (text, right) = (found.text(&linted.specs), found.wrong.is_empty());
        (text.replace(&root.path().display().to_string(), "ROOT"), right)
    }

    #[test]
    fn what_is_right_is_counted() {
        let policies = "version: 1\npolicies: {a: {rtol: 0, atol: 0, dtypes: []}}";
        let schema = schema_text();
        let (text, right) =
            lint_files(&[("a/b.yaml", SPEC), ("policies.yaml", policies), ("schema.json", &schema)]);
        assert_eq!(text, "1 spec, 1 checkpoint and 1 policy can be read, 0 things are wrong\n");
        assert!(right);
    }

    #[test]
    fn every_wrong_file_is_shown() {
        let files = [("a/b.yaml", SPEC), ("a/c.yaml", "version: 1\nport: p"), ("schema.json", "{}")];
        let (text, right) = lint_files(&files);
        let expected = "\
error: key `checkpoints` is missing in a spec
 --> ROOT/a/c.yaml:1:1
  |
1 | version: 1
  | ^

error: `ROOT/schema.json` is not what this version's specs may say: run `cargo xtask lint --write-schema`

1 spec, 1 checkpoint and 0 policies can be read, 2 things are wrong
";
        assert_eq!(text, expected);
        assert!(!right);
    }

    #[test]
    fn a_spec_without_its_fixtures_is_wrong() {
        let spec = "version: 1\nport: p\nreference: {script: s.py}\n\
            checkpoints: [{name: x, dtype: int32, policy: exact}]\n";
        let policies = "version: 1\npolicies: {exact: {rtol: 0, atol: 0, dtypes: [int32]}}";
        let schema = schema_text();
        let (text, right) =
            lint_files(&[("a/b.yaml", spec), ("policies.yaml", policies), ("schema.json", &schema)]);
        assert!(text.starts_with("error: spec `a/b`: there are no fixtures at `ROOT/fixtures`"), "{text}");
        assert!(!right);
    }

    #[test]
    fn an_image_that_cannot_be_drawn_is_named() {
        let spec = "version: 1\nport: p\ncheckpoints:\n  - {name: first, shape: [2], dtype: float32}\n  \
            - {name: x, shape: [1, 3, 16, 24], dtype: float32, stage: image, policy: exact, against: first}\n  \
            - {name: y, shape: [n, h, w, 3], dtype: bfloat16, stage: image, policy: exact, against: first}\n  \
            - {name: z, shape: [4, 4], dtype: uint8, stage: image}\n";
        let policies = "version: 1\npolicies: {exact: {rtol: 0, atol: 0, dtypes: [float32, bfloat16]}}";
        let schema = schema_text();
        let (text, right) =
            lint_files(&[("a/b.yaml", spec), ("policies.yaml", policies), ("schema.json", &schema)]);
        let said = |name: &str| format!("warning: `{name}` has the stage `image` and cannot be drawn: ");
        assert!(
            text.contains(&(said("x") + "its last axis has 24 channels, where 1 to 4 can be drawn")),
            "{text}"
        );
        assert!(text.contains(" --> ROOT/a/b.yaml:5:3"), "{text}");
        assert!(text.contains(&(said("z") + "it has no golden to be drawn beside")), "{text}");
        assert!(text.ends_with(", 0 things are wrong, 2 warnings\n") && right, "{text}");
    }

    #[test]
    fn a_root_without_specs_is_wrong() {
        let schema = schema_text();
        let (text, right) = lint_files(&[("schema.json", &schema)]);
        assert!(text.starts_with("error: no spec was found in `ROOT`"));
        assert!(!right);
    }
}
