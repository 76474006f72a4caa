//! `cargo xtask lint`: checks specs, policies, the schema and fixtures without running anything. It also reports gates that
//! the newest run shows to be far too loose, and what a change loosens.

mod approvals;
mod base;
mod checks;
mod choices;
mod finding;
mod git;
mod goldens;
mod local_floors;
mod loosened;
mod names;
mod order;
mod ranges;
mod slack;
mod training;

pub(crate) use git::{Git, GitError};

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use thiserror::Error;

use approvals::useless_approvals;
use checks::{check_fixtures, check_schema, check_specs, undrawable};
use choices::unforced_tokens;
use finding::Finding;
use local_floors::free_local_floors;
use names::{line_numbers, many_expansions};
use order::out_of_order;
use ranges::unusual_ranges;
use training::unstaged_gradients;

use super::suite_target::check_suite_target;
use super::{CliError, Project, say};
use crate::error::CommandError;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::runs::Out;
use mlx_parity_core::spec::{SCHEMA, Spec, Specs, list::counted, schema_text};
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::printable::{coloured, indented};
use mlx_parity_core::text::program::suite_command;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lint                    check every spec, the policies, the schema and the fixtures\n  \
    cargo xtask lint --write-schema     update schema.json first\n  \
    cargo xtask parity; cargo xtask lint --strict\n                                      \
    also fail if a gate allows over 50 times what the run needed,\n                                      \
    or a green range is not 0.5 to 2 times that of the golden\n  \
    cargo xtask lint --base origin/main\n                                      \
    also report what this branch loosens, floors that grew,\n                                      \
    pictures that it approves, and goldens that change with\n                                      \
    port code or without their reference\n\n\
    Exits with 1 when there is an error (with --strict, also a warning), and with 0 otherwise.")]
pub(crate) struct Arguments {
    /// Update schema.json before checking
    #[arg(long)]
    write_schema: bool,
    /// Compare specs, policies and goldens with this commit; a loosened gate is a warning, or an error if port code changes too
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
    Git(#[from] GitError),
}

impl CommandError for LintError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Write { .. } => None,
            Self::Git(error) => error.next(),
        }
    }
}

/// Checks everything and prints all findings to stdout, with a count in the last line.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let spec_root = project.spec_root();
    if arguments.write_schema {
        let path = spec_root.join(SCHEMA);
        write_atomically(&path, |out| out.write_all(schema_text().as_bytes()))
            .map_err(|source| LintError::Write { path, source })?;
    }
    let input = LintInput {
        specs: Specs::load(&spec_root),
        spec_root,
        root: project.root().to_owned(),
        fixture_root: project.fixture_root(),
        checksums: Out::of(project.root()).checksums(),
        run: Out::of(project.root()).run("latest"),
        // Printing removes colours where they are not wanted.
        colour: true,
    };
    let (mut found, note) = lint(&input);
    if let Err(error) = check_suite_target(project) {
        found.wrong.push(format!(
            "error: {}: {}",
            indented(&error_chain(&error), 7),
            indented(&error.next(), 7)
        ));
    }
    if let Some(reference) = &arguments.base {
        let roots = base::Roots {
            root: &input.root,
            spec_root: &input.spec_root,
            fixture_root: &input.fixture_root,
            lock: project.references_folder().map(|folder| folder.join("uv.lock")),
        };
        for finding in base::since(reference, &roots, &input.specs).map_err(LintError::from)? {
            found.add(&finding, input.colour);
        }
    }
    say(&found.text(&input.specs));
    eprintln!("{note}");
    let right = found.wrong.is_empty() && (found.warnings.is_empty() || !arguments.strict);
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the checks look at.
struct LintInput {
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

/// Everything that lint found, as people read it: one entry per finding.
#[derive(Debug, Default)]
struct LintReport {
    wrong: Vec<String>,
    warnings: Vec<String>,
}

impl LintReport {
    fn add(&mut self, finding: &Finding, colour: bool) {
        let list = if finding.is_error { &mut self.wrong } else { &mut self.warnings };
        list.push(coloured(&finding.render(colour)));
    }

    /// All findings, with a summary in the last line.
    fn text(&self, specs: &Specs) -> String {
        let mut summary = format!(
            "{}, {} and {} read: {}",
            counted(specs.specs.len(), "spec"),
            counted(specs.specs.iter().map(|spec| spec.checkpoints.len()).sum(), "checkpoint"),
            match specs.policies.named.len() {
                1 => "1 policy".to_owned(),
                count => format!("{count} policies"),
            },
            counted(self.wrong.len(), "error"),
        );
        if !self.warnings.is_empty() {
            summary += &format!(", {}", counted(self.warnings.len(), "warning"));
        }
        let parts: Vec<&str> = self.wrong.iter().chain(&self.warnings).map(String::as_str).collect();
        [&parts[..], &[&summary]].concat().join("\n\n") + "\n"
    }
}

/// Checks one subject, and adds one entry per error, as people read it.
type LintCheck = fn(&LintInput, &mut Vec<String>);

/// The subjects, in the order shown.
const CHECKS: [LintCheck; 3] = [check_specs, check_schema, check_fixtures];

/// Everything that lint finds without a base commit, and a line that names the run with which gates were compared.
fn lint(input: &LintInput) -> (LintReport, String) {
    let mut found = LintReport::default();
    for check in CHECKS {
        check(input, &mut found.wrong);
    }
    for spec in &input.specs.specs {
        let findings = [
            undrawable(spec),
            line_numbers(spec),
            many_expansions(spec),
            unstaged_gradients(spec),
            unforced_tokens(spec),
            out_of_order(input, spec),
            free_local_floors(input, spec),
        ]
        .concat();
        findings.iter().for_each(|finding| found.add(finding, input.colour));
    }
    useless_approvals(input).iter().for_each(|finding| found.add(finding, input.colour));
    let note = check_slack(input, &mut found);
    (found, note)
}

/// Compares every gate with what the newest run used of it, and returns a line that counts them.
fn check_slack(input: &LintInput, found: &mut LintReport) -> String {
    let how = format!("run `{}` first", suite_command());
    let Ok(run) = input.run.canonicalize() else {
        return format!(
            "note: there is no run to compare gates with, so loose gates are not reported; {how}"
        );
    };
    let mut lines = 0;
    for spec in &input.specs.specs {
        let Some(data) = slack::measured(spec, &run) else { continue };
        let (slack, measured) = slack::slack(spec, &input.specs.policies, &data);
        slack.iter().chain(&unusual_ranges(spec, &data)).for_each(|finding| found.add(finding, input.colour));
        lines += measured;
        let twins: Vec<Spec> = spec.twin_specs().collect();
        for twin in &twins {
            let id = twin.twin.as_ref().map_or("", |twin| &twin.of);
            let of = twins.iter().find(|other| other.id == id).unwrap_or(spec);
            let Some(data) = slack::measured(twin, &run) else { continue };
            let (slack, measured) = slack::slack_of_twin(twin, of, &input.specs.policies, &data);
            slack.iter().for_each(|finding| found.add(finding, input.colour));
            lines += measured;
        }
    }
    let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match lines {
        0 => format!(
            "note: run `{name}` has no checkpoint that matches the current specs, so loose gates are not reported; {how}"
        ),
        _ => format!("note: the gates of {} were compared with run `{name}`", counted(lines, "line")),
    }
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
        let input = LintInput {
            specs: Specs::load(root.path()),
            spec_root: root.path().to_owned(),
            root: root.path().to_owned(),
            fixture_root: root.path().join("fixtures"),
            checksums: root.path().join("checksums.json"),
            run: root.path().join("runs/latest"),
            colour: false,
        };
        let (found, note) = lint(&input);
        assert!(note.starts_with("note: there is no run to compare gates with"), "{note}");
        let (text, right) = (found.text(&input.specs), found.wrong.is_empty());
        (text.replace(&root.path().display().to_string(), "ROOT"), right)
    }

    #[test]
    fn what_is_right_is_counted() {
        let policies = "version: 1\npolicies: {a: {rtol: 0, atol: 0, dtypes: []}}";
        let schema = schema_text();
        let (text, right) =
            lint_files(&[("a/b.yaml", SPEC), ("policies.yaml", policies), ("schema.json", &schema)]);
        assert_eq!(text, "1 spec, 1 checkpoint and 1 policy read: 0 errors\n");
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

error: `ROOT/schema.json` does not match this version of mlx-parity: run `cargo xtask lint --write-schema`

1 spec, 1 checkpoint and 0 policies read: 2 errors
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
        assert!(text.starts_with("error: spec `a/b`: no fixtures exist at `ROOT/fixtures`"), "{text}");
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
        let undrawable =
            |name: &str| format!("warning: `{name}` has the stage `image`, but cannot be drawn: ");
        assert!(
            text.contains(&(undrawable("x") + "its last axis has 24 channels, but only 1 to 4 can be drawn")),
            "{text}"
        );
        assert!(text.contains(" --> ROOT/a/b.yaml:5:3"), "{text}");
        assert!(text.contains(&(undrawable("z") + "it has no golden to draw beside it")), "{text}");
        assert!(text.ends_with(": 0 errors, 2 warnings\n") && right, "{text}");
    }

    #[test]
    fn approvals_that_belong_to_nothing_are_named() {
        let spec = "version: 1\nport: p\ncheckpoints:\n  - {name: first, shape: [4, 4], dtype: float32}\n  \
            - {name: x, shape: [4, 4], dtype: float32, stage: image, policy: exact, against: first}\n";
        let policies = "version: 1\npolicies: {exact: {rtol: 0, atol: 0, dtypes: [float32]}}";
        let schema = schema_text();
        let hash = "0".repeat(64);
        let approved = |name: &str| {
            format!(
                "{{\"version\": 1, \"pictures\": [\n{{\"checkpoint\": \"{name}\", \"device\": \"cpu\", \"actual\": \"{hash}\", \
                 \"golden\": \"{hash}\", \"psnr_db\": 30, \"by\": \"Ada\", \"reason\": \"grain\"}}]}}"
            )
        };
        let check = |file: &str, text: &str, words: &str| {
            let files =
                [("a/b.yaml", spec), ("policies.yaml", policies), ("schema.json", &schema), (file, text)];
            let (found, right) = lint_files(&files);
            assert_eq!(right, words.is_empty(), "{found}");
            assert!(found.contains(words), "{found} is not {words}");
        };
        check("a/b.approved.json", &approved("x"), "");
        let nothing =
            |name: &str, why: &str| format!("error: the approval of `{name}` belongs to nothing: {why}");
        check("a/b.approved.json", &approved("x@1"), &nothing("x@1", "the spec has no such checkpoint"));
        check("a/b.approved.json", &approved("first"), &nothing("first", "the checkpoint is not a picture"));
        check("a/b.approved.json", &approved("first"), " --> ROOT/a/b.approved.json:2:1");
        check("a/c.approved.json", &approved("x"), "error: these approvals belong to no spec");
        check("a/b.approved.json", "{", "cannot be used: EOF while parsing");
    }

    #[test]
    fn names_and_loops_that_are_hard_to_live_with_are_shown_once_per_line() {
        let spec = "version: 1\nport: p\ncheckpoints:\n  - {name: txt_in_line49, shape: [2]}\n  \
            - {name: \"blocks.{i}.q_line7\", for: {i: 0..3}, shape: [2]}\n  \
            - {name: \"ocr_line{i}\", for: {i: 0..3}, shape: [2]}\n  \
            - {name: \"a.{i}\", for: {i: 0..101}, shape: [2], level: 1}\n  \
            - {name: \"b.{i}\", for: {i: 0..100}, shape: [2], level: 1}\n  \
            - {name: \"c.{i}\", for: {i: 0..500}, shape: [2]}\n";
        let schema = schema_text();
        let (text, right) = lint_files(&[("a/b.yaml", spec), ("schema.json", &schema)]);
        assert!(right && text.ends_with(": 0 errors, 3 warnings\n"), "{text}");
        for words in [
            "warning: `txt_in_line49` is named after a line of source code, which the next edit moves\n \
             --> ROOT/a/b.yaml:4:3",
            "help: name what the tensor is, such as `after_txt_in`, in the spec, the port",
            "warning: `blocks.0.q_line7` is named after a line",
            "warning: `a.0` is 101 checkpoints at level 1; an inner checkpoint is for a close look at one place\n \
             --> ROOT/a/b.yaml:7:3",
            "help: take some of them with `when`",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }

    #[test]
    fn a_root_without_specs_is_wrong() {
        let schema = schema_text();
        let (text, right) = lint_files(&[("schema.json", &schema)]);
        assert!(text.starts_with("error: no spec was found in `ROOT`"));
        assert!(!right);
    }
}
