//! What people read, to the letter: the suite and the commands on one green and several wrong ports.
//!
//! Measured numbers, paths and times differ between machines, so `#`, `<project>` and `<run>` stand for them. `<tap>` stands
//! for the line of the ports' only tap, which moves whenever somebody edits their file.

use crate::project::{Project, Ran, SPEC};

/// The source of the ports. All of them call `tap` in one line.
const PORTS: &str = include_str!("../bad_ports/misbehaving.rs");

/// The text without what differs between machines.
fn masked(project: &Project, text: &str) -> String {
    let tap = PORTS.lines().position(|line| line.contains("tap(name, array)?")).unwrap() + 1;
    let text = text.replace(&format!("misbehaving.rs:{tap}"), "misbehaving.rs:<tap>");
    let root = project.path("").canonicalize().unwrap();
    let text = text.replace(root.to_str().unwrap(), "<project>");
    let text = text.replace(project.path("").to_str().unwrap().trim_end_matches('/'), "<project>");
    let runs = std::fs::read_dir(project.path("target/parity/runs")).into_iter().flatten().flatten();
    let text = runs.fold(text, |text, run| text.replace(run.file_name().to_str().unwrap(), "<run>"));
    let lines = text.lines().filter(|line| !line.starts_with("MLX ")).map(masked_line);
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces runs' names and every number that was measured; columns lose their alignment.
fn masked_line(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let masked = words.iter().enumerate().map(|(at, word)| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.');
        let is_multiple = bare.starts_with('x') || bare.ends_with('x');
        let number = bare.trim_start_matches('x').trim_end_matches(['x', 's']);
        let is_number =
            number.starts_with(|c: char| c.is_ascii_digit() || c == '-') && number.parse::<f64>().is_ok();
        let unit = words.get(at + 1).map_or("", |word| word.trim_end_matches([',', ')', ':']));
        let is_size = ["bytes", "kB", "MB", "GB", "ms", "s"].contains(&unit);
        // Small whole numbers are counts and indices, which are the same everywhere.
        let is_count = !is_multiple && number.parse::<u8>().is_ok_and(|count| count < 100);
        let is_measured = is_number && (is_size || !is_count);
        if is_measured { word.replace(bare, "#") } else { (*word).to_owned() }
    });
    let indent = line.len() - line.trim_start().len();
    format!("{}{}", " ".repeat(indent.min(8)), masked.collect::<Vec<_>>().join(" "))
}

fn command(project: &Project, arguments: &[&str]) -> String {
    let ran = Ran::of(project.xtask(arguments).output().unwrap());
    format!("exit code {}\n{}", ran.code.unwrap(), masked(project, &ran.text))
}

/// What the suite prints about one failing test.
fn failing(port: &str, trial: &str) -> String {
    let project = Project::with_port(port);
    let text = project.run(&["--test-threads", "1"]).text;
    let block = text.split(&format!("---- gated_mlp/block::{trial} ----\n")).nth(1).unwrap();
    masked(&project, block.split("\n---- ").next().unwrap().split("\n\nfailures:").next().unwrap())
}

#[test]
fn a_green_run() {
    insta::assert_snapshot!("parity_green", command(&Project::with_port("right"), &["parity"]));
}

#[test]
fn a_red_run_and_its_reports() {
    let project = Project::with_port("scaled");
    insta::assert_snapshot!("parity_red", command(&project, &["parity"]));
    insta::assert_snapshot!("report_red", command(&project, &["report"]));
    insta::assert_snapshot!("diagnose_red", command(&project, &["diagnose"]));
    insta::assert_snapshot!("bisect_red", command(&project, &["bisect", "gated_mlp/block"]));
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn failing_tests() {
    for (port, trial) in [
        ("wrong_eps", "norm"),
        ("shape", "gated"),
        ("dtype", "gated"),
        ("nan", "gated"),
        ("twice", "gated"),
        ("error", "out"),
        ("abort", "out"),
        ("weight_left", "weights"),
        ("input_unused", "fixture"),
    ] {
        insta::assert_snapshot!(format!("failing_{port}"), failing(port, trial));
    }
}

#[test]
fn lists_and_lint() {
    let project = Project::with_port("right");
    insta::assert_snapshot!("list", command(&project, &["list"]));
    insta::assert_snapshot!("weights", command(&project, &["weights", "gated_mlp/block"]));
    project.edit(SPEC, "policy: fp32", "polcy: fp32");
    insta::assert_snapshot!("lint_broken", command(&project, &["lint"]));
    insta::assert_snapshot!("parity_broken", command(&project, &["parity"]));
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn looking_at_a_red_run() {
    let project = Project::with_port("scaled");
    assert_eq!(project.run(&[]).code, Some(101));
    for (name, arguments) in [
        ("show_spec", &["show", "gated_mlp/block"][..]),
        ("show_checkpoint", &["show", "gated_mlp/block::gated"]),
        (
            "show_expression",
            &["show", "gated_mlp/block::gated", "--expr", "abs(actual - golden)[0, :, 3].max()"],
        ),
        ("status", &["status"]),
        ("shapes", &["shapes", "gated_mlp/block"]),
        ("accept_refused", &["accept"]),
        ("fixtures_info", &["fixtures", "info", "gated_mlp/block"]),
        ("fixtures_list", &["fixtures", "list"]),
    ] {
        insta::assert_snapshot!(name, command(&project, arguments));
    }
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn mutations_of_a_green_spec() {
    let project = Project::with_port("right");
    insta::assert_snapshot!("mutate", command(&project, &["mutate", "gated_mlp/block"]));
}

/// One line for what is wrong and one for what to do.
#[test]
fn mistakes_on_the_command_line() {
    let project = Project::with_port("right");
    insta::assert_snapshot!("mistake_no_run", command(&project, &["report"]));
    project.run(&[]).is_green();
    for (name, arguments) in [
        ("no_such_spec", &["show", "gated_mlp/blok"][..]),
        ("no_such_checkpoint", &["show", "gated_mlp/block::nrom"]),
        ("no_such_file", &["weights", "nowhere.safetensors", "--against", "gated_mlp/block"]),
        ("no_such_set", &["fixtures", "info", "gated_mlp/blok"]),
        ("no_such_filter", &["parity", "gated_mpl"]),
        ("no_such_picture", &["accept", "--picture", "gated_mlp/block::out", "--reason", "looks right"]),
    ] {
        insta::assert_snapshot!(format!("mistake_{name}"), command(&project, arguments));
    }
}
