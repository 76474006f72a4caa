//! Choices end to end: a router and greedy decoding, right and wrong, in the suite, in reports, in mutations and as twins.

use std::fs;

use mlx_parity_core::golden::made_by_key;
use mlx_parity_core::tensor::{Dtype, TensorView, write_npy};
use rstest::rstest;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::project::{Project, Ran, copy_from_repository};

const ROUTING: &str = "parity-specs/routing/topk.yaml";
const GREEDY: &str = "parity-specs/qwen3/greedy.yaml";

/// A project with the two specs that judge choices; `port` is that of the router or of greedy decoding.
fn project(port: &str) -> Project {
    let project = Project::with_port("right");
    let root = project.path("");
    for (id, script) in [("routing/topk", "routing_topk"), ("qwen3/greedy", "qwen3_greedy")] {
        let files = [
            "manifest.json",
            "goldens.safetensors",
            "inputs.safetensors",
            "recipes.json",
            "weights.safetensors",
        ];
        let fixtures: Vec<String> = files.iter().map(|file| format!("fixtures/{id}/{file}")).collect();
        let others = [format!("parity-specs/{id}.yaml"), format!("exporter/references/{script}.py")];
        let all: Vec<&str> = fixtures.iter().chain(&others).map(String::as_str).collect();
        copy_from_repository(&all, &root);
        copy_from_repository(&[&format!("tests/snapshots/{}.snap", id.replace('/', "__"))], &root);
    }
    let (spec, right) = match port.split_once('/') {
        Some((right, _)) if right.starts_with("routing") => (ROUTING, right),
        Some((right, _)) => (GREEDY, right),
        None => return project,
    };
    project.edit(spec, &format!("port: {right}"), &format!("port: {port}"));
    project
}

#[test]
fn right_choices_are_green_and_ties_are_counted() {
    let project = project("");
    let ran = project.run(&["routing/"]);
    ran.is_green();
    let records =
        fs::read_to_string(project.path("target/parity/runs/latest/routing/topk/records.jsonl")).unwrap();
    assert!(records.contains("\"choices\":{\"rows\":12,"), "{records}");
    project.run(&["qwen3/"]).is_green();
    let report = project.report(&["--all"]);
    let shown = |what: &str| Ran::of(project.xtask(&["show", what]).output().unwrap());
    let logits = shown("qwen3/greedy::step.0.logits");
    logits.prints(&[
        "           the 12 most probable ids of each row; errors are those of their log-probabilities",
    ]);
    let token = shown("qwen3/greedy::step.0.token");
    assert!(token.code == Some(0) && !token.text.contains("\n  error "), "{}", token.text);
    // Ids have no floor and no range; the last column counts the rows that choose otherwise.
    let row = report.text.lines().find(|line| line.contains("step.0.token ")).unwrap();
    assert!(row.split_whitespace().collect::<Vec<_>>().ends_with(&["-", "-", "0", "rows"]), "{row}");
}

#[rstest]
#[case::expert(
    "routing::topk/tied_expert",
    "routing/topk",
    "12 rows of 2: 11 equal, 1 tie, 0 decided differences"
)]
#[case::token(
    "qwen3::greedy/tied_token",
    "qwen3/greedy",
    "2 positions: 1 equal, 1 tie, 0 decided differences; KL mean "
)]
fn a_tie_is_green_and_counted(#[case] port: &str, #[case] id: &str, #[case] words: &str) {
    let project = project(port);
    project.run(&[id]).is_green();
    let file = format!("target/parity/runs/latest/{id}/records.jsonl");
    let records = fs::read_to_string(project.path(&file)).unwrap();
    assert!(records.contains(words), "{records}");
    assert!(records.contains("\"tie\":true"), "{records}");
}

/// The port, its first faulty stage, and words of the failure.
#[rstest]
#[case::from_one("routing::topk/experts_from_one", &["routing/topk::experts: choice differs", "12 rows of 2: ", "decided differences; first ", "every id is the golden's plus 1", "  row      ["])]
#[case::other_axis("routing::topk/best_over_tokens", &["routing/topk::experts: choice differs", "in the reference's scores"])]
#[case::twice("routing::topk/one_expert_twice", &["routing/topk::experts: choice differs"])]
#[case::not_renormalised("routing::topk/not_renormalised", &["routing/topk::expert_weights: value differs"])]
#[case::pairs("routing::topk/weights_of_the_other_expert", &["routing/topk::expert_weights: value differs"])]
#[case::temperature("qwen3::greedy/temperature", &["qwen3/greedy::prompt.logits: value differs", "KL mean ", " is above 1e-11", "the golden times 1.42857"])]
#[case::token("qwen3::greedy/not_the_best", &["qwen3/greedy::step.2.token: choice differs", "2 positions: ", "KL mean "])]
#[case::suppressed("qwen3::greedy/suppressed", &["qwen3/greedy::step.1.logits: value differs", "KL max "])]
#[case::over_batch("qwen3::greedy/best_over_batch", &["qwen3/greedy::step.0.token: shape differs"])]
fn a_wrong_choice_is_red(#[case] port: &str, #[case] words: &[&str]) {
    let id = if port.starts_with("routing") { "routing/" } else { "qwen3/" };
    project(port).run(&[id]).is_red(words);
}

#[test]
fn a_golden_without_the_declared_top_is_reported() {
    let project = project("");
    project.edit(GREEDY, "compare: distribution, top: 12", "compare: distribution, top: 5");
    project.run(&["qwen3/"]).is_red(&["the spec declares `top: 5`, but the golden is float64 [2, 13, 2]"]);
}

#[test]
fn ids_are_injected_with_their_weights_only() {
    let project = project("");
    project.edit(ROUTING, "inject: [experts, expert_weights]", "inject: [experts]");
    project.run(&["routing/"]).is_red(&["`experts` is injected without `expert_weights`"]);
}

#[test]
fn weights_before_their_ids_are_refused() {
    let project = project("");
    project.edit(ROUTING, ", with: expert_weights}", "}");
    project.edit(
        ROUTING,
        "{name: expert_weights, dtype: float32, shape: [tokens, k], noise: 8}",
        "{name: out, dtype: float32, noise: 8, with: experts}",
    );
    project.run(&["routing/"]).is_red(&["`with` without `compare`"]);
}

#[test]
fn mutations_of_choices_are_noticed() {
    let project = project("");
    project.edit(ROUTING, "inject: [experts, expert_weights]\n", "");
    let ran = Ran::of(project.xtask(&["mutate", "routing/topk"]).output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    ran.prints(&["mutation score ", "0 survived"]);
}

#[test]
fn a_twin_is_judged_by_the_other_run() {
    let project = project("");
    project.edit(ROUTING, "inject: [experts, expert_weights]\n", "");
    project.edit(
        ROUTING,
        "\ncheckpoints:",
        "\ntwins:\n  chunked: {of: main, gate: same, along: 0, hits: 2}\ncheckpoints:",
    );
    let ran = project.run(&["routing/topk"]);
    ran.is_green();
    ran.prints(&["routing/topk+chunked::experts", "routing/topk+chunked::expert_weights"]);
    project.edit(ROUTING, "  chunked: {", "  confused: {");
    let ran = project.run(&["routing/topk"]);
    ran.is_red(&["routing/topk+confused::experts: choice differs", "compared with `routing/topk`"]);
}

/// A project whose spec `text/prompt` expects this text.
fn project_of_text(expected: &str) -> Project {
    let project = Project::with_port("right");
    let script = "exporter/references/gated_mlp_block.py";
    let (specs, set) = (project.path("parity-specs/text"), project.path("fixtures/text/prompt"));
    fs::create_dir_all(&specs).unwrap();
    fs::create_dir_all(&set).unwrap();
    let spec = format!(
        "version: 1\nport: says\nreference: {{script: {script}}}\ncheckpoints:\n  \
         - {{name: prompt, dtype: uint8, compare: text}}\n"
    );
    fs::write(specs.join("prompt.yaml"), spec).unwrap();
    let shape = [expected.len()];
    let view = TensorView::new(Dtype::Uint8, &shape, expected.as_bytes()).unwrap();
    write_npy(set.join("prompt.npy"), &view).unwrap();
    let key = made_by_key(&json!({ "script": script }), &fs::read(project.path(script)).unwrap());
    let sha256: String = Sha256::digest(expected).iter().map(|byte| format!("{byte:02x}")).collect();
    let manifest = json!({
        "format": 1,
        "made_by": {"key": key, "script": script},
        "tensors": [{
            "name": "prompt", "role": "golden", "file": "prompt.npy", "dtype": "uint8", "shape": shape, "sha256": sha256,
            "sequence": 0,
        }],
    });
    fs::write(set.join("manifest.json"), manifest.to_string()).unwrap();
    project
}

#[test]
fn a_text_must_be_equal_and_the_first_difference_is_shown() {
    let project = project_of_text("<|im_start|>user\nHello");
    let says =
        |text: &str| Ran::of(project.command(&["text/"]).env("BAD_PORTS_TEXT", text).output().unwrap());
    says("<|im_start|>user\nHello").is_green();
    let ran = says("<|im_start|>usr\nHello");
    ran.is_red(&[
        "text/prompt::prompt: value differs",
        "  what     the first difference is at byte 14 of 22, actual 21: expected \"<|im_start|>us\u{27e8}er",
    ]);
    let report = project.report(&["--all"]);
    assert!(!report.text.contains("its output is"), "no cause is searched in a text: {}", report.text);
    // The text is as long, and one letter differs.
    says("<|im_start|>user\nhello").is_red(&["1 of 22 bytes differs, the first at 17: expected "]);
}
