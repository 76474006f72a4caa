//! Scripts through a pipe: what they print, to the letter.

use super::session::{name, script, trace};
use crate::project::{Project, Ran};

/// What was printed, without line numbers of the port, which change with its file, and without what a port computes, which
/// differs between processors in its last digits.
fn printed(ran: &Ran) -> String {
    let shown = |line: &str| {
        let is_computed =
            ["  actual ", "green ", "red ", "  detail "].iter().any(|start| line.starts_with(start));
        if let Some((before, _)) = line.split_once("misbehaving.rs:") {
            format!("{before}misbehaving.rs:LINE")
        } else if let Some((before, _)) = line.split_once(" min ").filter(|_| is_computed) {
            format!("{before} min …")
        } else if let Some((before, _)) = line.split_once(", worst ").filter(|_| is_computed) {
            format!("{before}, worst …")
        } else if let Some((before, rest)) = line.split_once("green, 0.") {
            format!("{before}green, 0.…{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        } else {
            line.to_owned()
        }
    };
    ran.stdout.lines().map(shown).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_script_stops_looks_and_ends() {
    let project = Project::with_port("right");
    let ran = script(&project, "break gated\ncontinue\nlocation\nterminate\n", &[]);
    ran.is_green();
    insta::assert_snapshot!("script", printed(&ran));
    ran.prints(&["DEBUG session, nothing was judged; trace: target/parity/debug/"]);
}

#[test]
fn a_red_checkpoint_is_looked_at_and_repaired() {
    let project = Project::with_port("scaled");
    let script_text = "break failed\ncontinue\nvars\nshow golden 0, 0, :4\neval abs(actual - golden).max() > 0.04\n\
        d = actual / golden\neval d = actual / golden; d.shape\neval d.min() > 1\ndiagnose\nset gated actual / 1.01\nlocation\n\
        next\nbreaks\nnote repaired\ncontinue\nterminate\n";
    // A line that is no command ends a script.
    let ran = script(&project, script_text, &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    ran.prints(&["error: line 6 of the script: unknown command `d`"]);
    let ran = script(&project, &script_text.replace("\nd = actual / golden\n", "\n"), &[]);
    ran.is_green();
    insta::assert_snapshot!("repaired", printed(&ran));
}

#[test]
fn json_answers_are_one_object_per_line_and_the_trace_has_them_all() {
    let project = Project::with_port("scaled");
    let ran = script(&project, "break gated\ncontinue\neval 1 + 1\n", &["--json"]);
    ran.is_green();
    let answers: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = answers.iter().map(|answer| answer["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["stopped", "breakpoints", "stopped", "values"]);
    let trace = trace(&project);
    let events: Vec<&str> = trace.iter().map(|line| line["event"].as_str().unwrap()).collect();
    let expected =
        ["session", "run", "answer", "command", "answer", "command", "answer", "command", "answer", "ended"];
    assert_eq!(events, expected);
    let stop = &trace[6]["answer"];
    assert_eq!(*stop, answers[2], "the trace has what was printed");
    assert_eq!(stop["tap"]["status"], "fail");
    assert_eq!(stop["goes_on"]["tensor"], "actual");
    assert!(trace.iter().all(|line| line["at"].as_str().unwrap().ends_with('Z')));
    // The report prints the same, on a terminal and as a page.
    let report = project.report(&[&name(&project)]);
    assert_eq!(report.code, Some(1), "only a green run is a success: {}", report.text);
    report.prints(&[
        "DEBUG session: a person or a program stepped through the port, so nothing was judged\n",
        "  > break gated\n",
        "stopped at `gated`, red: value, ",
        "DEBUG: 1 run, 2 stops, 3 commands, no verdict\n",
    ]);
    // A zipped session too, and only `report` reads it.
    let zip = project.path("session.zip");
    let zip = zip.to_str().unwrap();
    project.report(&[&name(&project), "--pack", zip]).prints(&["packed: "]);
    project.report(&[zip]).prints(&["DEBUG: 1 run, 2 stops, 3 commands, no verdict\n"]);
    let shown = Ran::of(project.xtask(&["show", "gated_mlp/block", "--run", zip]).output().unwrap());
    assert_eq!(shown.code, Some(1), "{}", shown.text);
    shown.prints(&["is a debug session, which judges nothing"]);
    let page = super::session::folder(&project).join("report.html");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("DEBUG session") && page.contains("&gt; break gated") && !page.contains("<script"));
    assert!(
        page.contains("<details><summary>source</summary>") && page.contains("rec.save(&quot;gated&quot;"),
        "{page}"
    );
}

#[test]
fn help_lists_every_command_once() {
    let ran = script(&Project::with_port("right"), "help\nhelp functions\n", &[]);
    ran.is_green();
    ran.prints(&["break PATTERN [when EXPR] [first|hit N]", "`set gated actual / 1.01`", "softmax"]);
    let ran = script(&Project::with_port("right"), "help\n?\nhelp functions\n", &["--json"]);
    ran.is_green();
    let answers: Vec<serde_json::Value> =
        ran.stdout.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0]["kind"], "help");
    let usages: Vec<&str> =
        answers[0]["commands"].as_array().unwrap().iter().map(|one| one["usage"].as_str().unwrap()).collect();
    assert!(usages.contains(&"save NAME FILE") && usages.contains(&"help [functions]"), "{usages:?}");
    assert!(answers[2]["text"].as_str().unwrap().contains("softmax"));
}

#[test]
fn a_spec_or_a_command_that_does_not_exist_is_bad_usage() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.xtask(&["debug", "gated_mlp/blok"]).output().unwrap());
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    ran.prints(&["spec `gated_mlp/blok` does not exist, did you mean `gated_mlp/block`?"]);
    let ran = script(&project, "contnue\n", &[]);
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    ran.prints(&["line 1 of the script: unknown command `contnue`, did you mean `continue`?"]);
}

#[test]
fn the_guide_shows_what_a_session_prints() {
    let command =
        r"printf 'break failed\ncontinue\ndiagnose\ninject\nnext\n' | cargo parity debug gated_mlp/block";
    let lines = command.split('\'').nth(1).unwrap().replace("\\n", "\n");
    let ran = script(&Project::with_port("scaled"), &lines, &[]);
    ran.is_green();
    crate::readme::check_sample(command, &ran.stdout);
}
