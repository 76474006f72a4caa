//! `cargo parity regenerate-fixtures` with the real exporter and NumPy, on a copy of the gated MLP.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::command::{WITH_EXPORTER, cargo_parity, check, copy_from_repository, repository};

struct Project(tempfile::TempDir);

const SCRIPT: &str = "exporter/references/gated_mlp_block.py";
const SPEC: &str = "parity-specs/gated_mlp/block.yaml";

impl Project {
    /// The gated MLP in a project that locks no environment, so that its script runs with the packages of the
    /// exporter's tests.
    fn new() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        let files = [SCRIPT, SPEC, "parity-specs/policies.yaml", "exporter/requirements-test.txt"];
        copy_from_repository(&files, project.0.path());
        let repository = repository();
        let set = "fixtures/gated_mlp/block";
        fs::create_dir_all(project.path(set)).unwrap();
        for entry in fs::read_dir(repository.join(set)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), project.path(set).join(entry.file_name())).unwrap();
        }
        let packages = repository.join(".parity/python");
        fs::create_dir_all(&packages).unwrap();
        fs::create_dir_all(project.path(".parity")).unwrap();
        symlink(packages, project.path(".parity/python")).unwrap();
        symlink(repository.join("exporter/parity_export"), project.path("exporter/parity_export")).unwrap();
        fs::write(project.path("Cargo.toml"), WITH_EXPORTER).unwrap();
        project
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(file)).unwrap();
        assert!(text.contains(from), "`{file}` has no `{from}`");
        fs::write(self.path(file), text.replacen(from, to, 1)).unwrap();
    }

    /// Runs the command, expects the exit code and these words, and returns what it printed.
    #[track_caller]
    fn prints(&self, arguments: &[&str], code: i32, words: &[&str]) -> String {
        let mut command = cargo_parity(self.0.path(), &["regenerate-fixtures"]);
        // The Python that the exporter's tests run with.
        command.envs(std::env::var_os("PARITY_PYTHON").map(|python| ("PARITY_PYTHON", python)));
        check(command.args(arguments).output().unwrap(), code, words)
    }
}

/// The guide's sample of `regenerate-fixtures`, line by line, with `#` for each number.
fn sample() -> Vec<String> {
    let page = fs::read_to_string(repository().join("docs/src/fixtures.md")).unwrap();
    let command = "  cargo parity regenerate-fixtures gated_mlp/block\n  ```\n  ```text\n";
    let (_, block) = page.split_once(command).unwrap();
    without_numbers(block.split_once("  ```").unwrap().0)
}

/// The lines of a text with `#` for each number and one blank between words; empty lines are left out.
fn without_numbers(text: &str) -> Vec<String> {
    let word = |word: &str| {
        let number = word.trim_end_matches([',', 'x']);
        if number.parse::<f64>().is_ok() { format!("#{}", &word[number.len()..]) } else { word.to_owned() }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_changed_script_is_stale_until_it_was_run() {
    let project = Project::new();
    project.prints(&["--check"], 0, &["1 current, 0 not"]);
    project.edit(SCRIPT, "np.float32(1e-6)", "np.float32(1e-5)");
    project.prints(&["--check"], 1, &["are stale: the content of"]);
    // The committed inputs and weights are used again; only goldens that depend on the edit change.
    let text = project.prints(
        &["--yes"],
        0,
        &["9 tensors: 3 changed, 6 the same", "golden norm  differs by up to", "x its floor"],
    );
    let printed = without_numbers(&text);
    let sample = sample();
    assert_eq!(sample.len(), 6);
    for line in &sample {
        assert!(printed.contains(line), "docs/src/fixtures.md has `{line}`, but this is printed:\n{text}");
    }
    project.prints(&["--check"], 0, &["1 current, 0 not"]);
    project.prints(&["--check", "--run"], 0, &["3 goldens reproduced, 3 of them to the bit"]);
    project.prints(&["--yes", "--force"], 0, &["reproduced byte for byte"]);
    // Another seed has an effect only together with new inputs.
    project.edit(SCRIPT, "default_rng(0)", "default_rng(1)");
    project.prints(&["--yes"], 0, &["9 tensors: 9 the same, but the manifest changes: made_by"]);
    project.prints(&["--yes", "--force", "--new-inputs"], 0, &["9 tensors: 9 changed, 0 the same"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn other_parameters_give_tensors_of_another_shape() {
    let project = Project::new();
    project.edit(SPEC, "tokens: 6}", "tokens: 7}");
    project.prints(
        &["--yes"],
        0,
        &[
            "`params` of the reference block changed",
            "4 with a different dtype or shape, 5 the same",
            "old  float32 [1, 6, 32]",
            "new  float32 [1, 7, 32]",
        ],
    );
    project.prints(&["--check"], 0, &[]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn the_exporters_lint_has_the_last_word() {
    let project = Project::new();
    project.edit(SCRIPT, "x + gated @", "0 * (x + gated @");
    project.edit(SCRIPT, "w[\"down.bias\"])", "w[\"down.bias\"]))");
    project.prints(
        &["--yes"],
        1,
        &["the exporter's lint rejects the set that", "zero             golden `out` is 0.0 in all of its"],
    );
    project.edit(
        SCRIPT,
        "    rec.save(\"out\"",
        "    rec.accept(\"zero\", \"out\", why=\"a test\")\n    rec.save(\"out\"",
    );
    project.prints(&["--yes"], 0, &["accepted: zero: golden `out` is 0.0", "(a test)"]);
    project.edit(SCRIPT, "rec.save(\"out\"", "rec.save(\"ouch\"");
    project.prints(
        &["--yes"],
        1,
        &["missing          the spec declares golden `out`, but the reference does not record it"],
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_draw_without_a_seed_is_refused() {
    let project = Project::new();
    project.edit(SCRIPT, "default_rng(0)", "default_rng()");
    project.prints(
        &["--yes", "--new-inputs"],
        1,
        &["gave different bytes: weight `norm.weight` differs by up to"],
    );
    project.prints(&["--check"], 1, &["are stale"]);
}

const SECOND: &str = "exporter/references/gated_mlp_formulas.py";

/// The gated MLP once more, in float64 and written in another way.
const FORMULAS: &str = r#"# parity: environment = "numpy"
import numpy as np

from parity_export import main


def reference(rec, dim, hidden, tokens):
    def linear(x, name):
        return np.einsum("bti,oi->bto", x, rec.load(f"{name}.weight").astype(np.float64))

    x = rec.load("x").astype(np.float64)
    norm = rec.save("norm", rec.load("norm.weight") * x * (np.mean(x**2, axis=-1, keepdims=True) + 1e-6) ** -0.5)
    gate, up = linear(norm, "gate"), linear(norm, "up")
    gated = rec.save("gated", up * gate * 0.5 * (1 + np.tanh(gate / 2)))
    rec.save("out", linear(gated, "down") + rec.load("down.bias") + x)


if __name__ == "__main__":
    main(reference)
"#;

/// Mistakes in the second script: what is replaced, by what, and the first golden that both do not agree on.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("+ 1e-6) ** -0.5", "+ 1e-5) ** -0.5", "norm"),
    ("axis=-1", "axis=1", "norm"),
    ("np.tanh(gate / 2)", "np.tanh(0.79788456 * (gate + 0.044715 * gate**3))", "gated"),
    ("np.tanh(gate / 2)", "np.tanh(up / 2)", "gated"),
    (" + rec.load(\"down.bias\")", "", "out"),
    (" + x)", " + norm)", "out"),
];

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_mistake_in_one_of_two_references_is_refused_where_it_begins() {
    let project = Project::new();
    fs::write(project.path(SECOND), FORMULAS).unwrap();
    project.edit(SPEC, "\n  source:", &format!("\n  also: {SECOND}\n  source:"));
    project.prints(&["--yes"], 0, &["gated_mlp_formulas.py: 3 goldens agree within "]);
    let manifest = || fs::read(project.path("fixtures/gated_mlp/block/manifest.json")).unwrap();
    let before = manifest();
    for (right, wrong, golden) in MISTAKES {
        assert!(FORMULAS.contains(right), "{right}");
        fs::write(project.path(SECOND), FORMULAS.replacen(right, wrong, 1)).unwrap();
        let text = project.prints(
            &["--yes"],
            1,
            &["disagree:", &format!("         {golden}: "), "x the floor apart"],
        );
        for earlier in ["norm", "gated", "out"].iter().take_while(|name| *name != golden) {
            assert!(!text.contains(&format!("         {earlier}: ")), "{wrong}: {text}");
        }
        assert!(before == manifest(), "{wrong}: the old set stays");
    }
    // The same mistake in the first script.
    fs::write(project.path(SECOND), FORMULAS).unwrap();
    project.edit(SCRIPT, "np.float32(1e-6)", "np.float32(1e-5)");
    project.prints(&["--yes"], 1, &["disagree:", "         norm: "]);
    assert!(before == manifest(), "the old set stays");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn floors_by_block_without_a_torch_module_are_refused_and_the_old_set_stays() {
    let project = Project::new();
    let manifest = fs::read(project.path("fixtures/gated_mlp/block/manifest.json")).unwrap();
    let first = "draw = np.random.default_rng(0)";
    project.edit(SCRIPT, first, &format!("rec.floors(\"by-block\")\n    {first}"));
    project.prints(
        &["--yes"],
        1,
        &["`rec.floors(\"by-block\")` found no torch module; pass the model to `rec.weights` or `rec.hook`"],
    );
    assert_eq!(fs::read(project.path("fixtures/gated_mlp/block/manifest.json")).unwrap(), manifest);
}
