//! Looking at a run: the page, one run against another, and runs that are kept, packed and traced.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::project::{Project, Ran};

/// The results inside a page.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn page(project: &Project, file: &str) -> Value {
    data(&fs::read_to_string(project.path(file)).unwrap())
}

const PAGE: &str = "target/parity/runs/latest/report.html";

#[test]
fn every_run_writes_a_page_with_the_details_of_what_is_red() {
    let project = Project::with_port("scaled");
    project.run(&[]).is_red(&[]);
    let data = page(&project, PAGE);
    assert_eq!(data["verdict"], "red");
    let specs = data["specs"].as_array().unwrap();
    let row = |name: &str| {
        let mut rows = specs.iter().flat_map(|spec| spec["rows"].as_array().unwrap());
        rows.find(|row| row["name"] == name).unwrap()
    };
    let detail = &row("gated")["detail"];
    assert_eq!(detail["error"]["heat_map"]["shape"], serde_json::json!([1, 6, 48]), "{detail}");
    assert!(detail["error"]["histogram"]["counts"].as_array().unwrap().len() > 1, "{detail}");
    assert!(!detail["causes"].as_array().unwrap().is_empty());
    let port = &detail["port"];
    assert!(port["file"].as_str().unwrap().ends_with(".rs"), "{port}");
    let at = port["line"].as_u64().unwrap() - port["first"].as_u64().unwrap();
    let line = port["lines"][at as usize].as_str().unwrap();
    assert!(line.contains("tap("), "the line of the tap is quoted: {line}");
    assert_eq!(detail["reference"]["file"], "exporter/references/gated_mlp_block.py", "{detail}");
    assert!(row("norm")["detail"].is_null(), "a green checkpoint has no details");
    assert!(!project.path("target/parity/runs/latest/gated_mlp/block/details/norm.json").exists());
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_packed_run_gives_the_same_page_on_another_machine() {
    let project = Project::with_port("scaled");
    project.run(&[]).is_red(&[]);
    let zip = project.path("one.zip");
    project.report(&["--pack", zip.to_str().unwrap()]).prints(&["packed: "]);
    let here = page(&project, PAGE);
    let elsewhere = Project::with_port("right");
    let file = elsewhere.path("there.html");
    let ran = elsewhere.report(&[zip.to_str().unwrap(), &format!("--html={}", file.display())]);
    ran.prints(&["there.html", "3 failed"]);
    assert_eq!(data(&fs::read_to_string(file).unwrap()), here);
    assert!(!elsewhere.path("target/parity/runs").exists(), "a zip file is only read");
    let refused = elsewhere.report(&[zip.to_str().unwrap(), "--keep", "x"]);
    assert_eq!(refused.code, Some(1));
    refused.prints(&["a zip file cannot be kept"]);
    project.report(&["--pack", "one"]).prints(&["`one` does not end in `.zip`", "use `--pack one.zip`"]);
    project.report(&["x.html"]).prints(&["there is no run `x.html`", "use `--html=x.html`"]);
}

fn git(project: &Project, arguments: &[&str]) {
    let name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
    let status =
        Command::new("git").arg("-C").arg(project.path("")).args(name).args(arguments).status().unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_run_is_compared_with_a_kept_one_and_with_that_of_a_commit() {
    let project = Project::with_port("right");
    git(&project, &["init", "--quiet", "--initial-branch=main"]);
    git(&project, &["add", "parity-specs"]);
    git(&project, &["commit", "--quiet", "--message=a"]);
    project.run(&[]).is_green();
    project.report(&["--keep", "before"]).prints(&["runs/before"]);
    project.edit("parity-specs/gated_mlp/block.yaml", "port: right", "port: scaled");
    git(&project, &["commit", "--quiet", "--all", "--message=b"]);
    project.run(&[]).is_red(&[]);
    let words =
        ["against ", "now red   gated_mlp/block::gated", "outcome ok -> value", "before ", "revision "];
    project.report(&["--against", "before"]).prints(&words);
    project.report(&["--against", "HEAD~1"]).prints(&words);
    let data = page(&project, PAGE);
    assert_eq!(data["against"]["name"], "HEAD~1");
    git(&project, &["commit", "--quiet", "--allow-empty", "--message=c"]);
    let none = project.report(&["--against", "main"]);
    assert_eq!(none.code, Some(1));
    none.prints(&["was made at commit", "make one with `git worktree add"]);
    project.report(&["--against", "nowhere"]).prints(&["`nowhere` is neither a run in", "nor a commit"]);
}

#[test]
fn a_kept_run_is_neither_removed_nor_replaced() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    project.report(&["--keep", "mine"]).is_green();
    let kept = project.path("target/parity/runs/mine/gated_mlp/block/records.jsonl");
    let records = fs::read(&kept).unwrap();
    let again = Ran::of(project.command(&[]).env("PARITY_RUN", "mine").output().unwrap());
    again.prints(&["the run `mine` is kept, so this run is called `mine-2`"]);
    assert_eq!(fs::read(&kept).unwrap(), records);
    project.report(&["mine-2", "--keep", "mine"]).prints(&["there is already a run called `mine`"]);
    project.report(&["--keep", "../x"]).prints(&["`../x` cannot be the name of a run"]);
}

#[test]
fn a_trace_is_written_where_it_was_asked_for() {
    let project = Project::with_port("right");
    project.run(&[]).is_green();
    let file = project.path("times.json");
    project.report(&[&format!("--trace={}", file.display())]).prints(&["ui.perfetto.dev"]);
    let trace: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let slices: Vec<&str> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(slices, ["norm", "gated", "out"]);
}

#[test]
fn github_gets_annotations_and_a_summary() {
    let project = Project::with_port("scaled");
    project.run(&[]).is_red(&[]);
    let summary = project.path("summary.md");
    fs::write(&summary, "before\n").unwrap();
    let mut command = project.xtask(&["report"]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
    command.env("GITHUB_WORKSPACE", project.path(""));
    let ran = Ran::of(command.output().unwrap());
    ran.prints(&["::error ", "title=gated_mlp/block%3A%3Agated%3A value differs::the first faulty stage"]);
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("before\n### ❌ parity: "), "{text}");
    assert!(text.contains("<details><summary>❌ <code>gated&#95;mlp/block</code>"), "{text}");
    let plain = project.report(&[]);
    assert!(!plain.text.contains("::error"), "{}", plain.text);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn specs_are_listed_backwards_from_the_picture() {
    let project = Project::with_port("right");
    let spec = fs::read_to_string(project.path("parity-specs/gated_mlp/block.yaml")).unwrap();
    let spec = spec.replacen("inputs: [x]", "fixtures: gated_mlp/block\ninputs: [x]", 1);
    fs::create_dir_all(project.path("parity-specs/a")).unwrap();
    fs::write(project.path("parity-specs/a/decoder.yaml"), spec.replace("stage: residual", "stage: vae"))
        .unwrap();
    project.run(&["--skip", "::stats"]);
    let order = |arguments: &[&str]| {
        let text = project.report(arguments).text;
        text.find("a/decoder").unwrap() < text.find("gated_mlp/block").unwrap()
    };
    assert!(order(&[]) && order(&["--order", "run"]) && order(&["--order", "backwards"]));
    fs::rename(project.path("parity-specs/a"), project.path("parity-specs/z")).unwrap();
    project.run(&["--skip", "::stats"]);
    let text = project.report(&["--order", "backwards"]).text;
    assert!(text.find("z/decoder").unwrap() < text.find("gated_mlp/block").unwrap(), "{text}");
}

#[test]
fn checkpoints_are_listed_backwards_and_a_red_spec_names_its_log_once() {
    let project = Project::with_port("scaled");
    let ran = project.run(&["--skip", "::stats"]);
    let ladder = &ran.text[ran.text.find("  counts   ").unwrap()..];
    assert_eq!(ladder.matches("/gated_mlp/block/output.log\n").count(), 1, "{ladder}");
    for arguments in [&["--order", "backwards"][..], &["--order", "backwards", "--all"]] {
        let text = project.report(arguments).text;
        let at = |row: &str| text.find(row).unwrap_or_else(|| panic!("no `{row}` in:\n{text}"));
        assert!(at("value     out ") < at("value     gated "), "{text}");
        assert!(at("value     gated ") < at("ok        norm "), "{text}");
        assert!(text.contains("<- first divergence, last green: norm"), "{text}");
    }
}
