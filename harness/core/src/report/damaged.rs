//! A damaged run folder is reported or refused. Nothing panics, and damage cannot forge lines of a report.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Detail, against_text, annotations, chrome_trace, environments, failures, run_text, step_summary,
    summary_line, test_text, write_html, write_reports,
};
use crate::results::{ExpectedSpecs, RunResults, SpecFile};
use crate::spec::Specs;

const SPEC: &str = "version: 1\nport: p\nreference: {script: s.py}\ninputs: [x]\ncheckpoints:\n  \
    - {name: norm1, dtype: float32, noise: 8}\n  - {name: other, shape: [2, 2], range: [0, 1]}\n  \
    - {name: image, dtype: float32, stage: image, noise: 8}\n";

/// The files of a run, each a list of JSON values, one per line.
fn run() -> Vec<(&'static str, Vec<Value>)> {
    let page = include_str!("../../../../docs/src/record.md");
    let example: Value =
        serde_json::from_str(page.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    let record = |name: &str, status: &str, class: Value| {
        let mut record = example.clone();
        record["kind"] = "checkpoint".into();
        record["spec"] = "a/b".into();
        record["checkpoint"] = name.into();
        record["verdict"] = json!({"status": status, "class": class, "detail": "found"});
        record
    };
    let end = json!({"kind": "end", "error": null, "stopped": false, "unused_inputs": ["x"],
        "weights": {"taken": ["w"], "missing": ["v"], "unused": [], "misshapen": [], "mistyped": [], "siblings": [],
            "packing": []},
        "random": {"times": 3}});
    let records = vec![
        record("norm1", "fail", "value".into()),
        record("other", "pass", Value::Null),
        json!({"kind": "undeclared", "name": "tap"}),
        json!({"kind": "out_of_order", "name": "other", "after": "norm1"}),
        record("image", "fail", "finite".into()),
        end,
    ];
    let environment = json!({"spec": "a/b", "level": 0, "device": "cpu", "mlx": "1", "mlx_parity": "1", "chip": "c",
        "cores": 2, "os": "linux", "os_version": "6", "arch": "x86_64", "optimised": false, "started": "now",
        "variables": {"MLX_ENABLE_TF32": "0"}});
    let map = json!({"shape": [2, 2], "rows_axis": 0, "columns_axis": 1, "low": 0.5, "high": 1.5, "cells": ["AB", "_-"]});
    let details = json!({"error": {"sampled": 4, "histogram": {"equal": 1, "not_finite": 0, "first": -4, "counts": [1, 2]},
            "heat_map": map, "first_expected": [1.5], "first_actual": ["nan"]},
        "port": {"file": "a.rs", "line": 2, "first": 1, "lines": ["x", "y"]}, "reference": null});
    vec![
        ("local/records.jsonl", records.clone()),
        ("records.jsonl", records),
        ("exit.json", vec![json!({"timed_out": 3})]),
        ("run.json", vec![environment]),
        ("times.json", vec![json!({"norm1": 1.5, "other": 2.5, "image": 3.5})]),
        ("stats.json", vec![json!({"Failed": {"line": "moved", "more": "a\nb"}})]),
        ("obstacles.json", vec![json!([])]),
        (
            "peeks.jsonl",
            vec![json!({"tap": "tap", "hit": 1, "tensor": example["actual"], "problem": null,
            "stats": example["metrics"]["actual"], "location": example["location"]})],
        ),
        ("details/norm1.json", vec![details]),
    ]
}

/// Every place in a value, as the keys and indices that lead to it.
fn places(value: &Value, above: &str, found: &mut Vec<String>) {
    found.push(above.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &format!("{above}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| places(value, &format!("{above}/{at}"), found));
        }
        _ => {}
    }
}

/// Values that no worker writes.
fn absurd() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(1e23),
        json!(-1e23),
        json!(1e308),
        json!(-5e-324),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0),
        json!(-1),
        json!(255),
        json!(u32::MAX),
        json!(null),
        json!(true),
        json!("inf"),
        json!("-inf"),
        json!("nan"),
        json!(""),
        json!("x\u{1b}[2J\u{7}\n9 agree, 0 differ\u{202e}\u{fffe}\u{ffff}"),
        json!("norm1"),
        json!([]),
        json!([u64::MAX, u64::MAX]),
        json!({}),
    ])
}

#[track_caller]
fn harmless(text: &str) {
    let bad = |c: char| {
        c.is_control() && c != '\n' && c != '\t' || matches!(c, '\u{202e}' | '\u{fffe}' | '\u{ffff}')
    };
    assert!(!text.contains(bad), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("9 agree")), "{text}");
}

/// Reports the run below `root` in every way.
fn report(root: &Path) {
    let run = root.join("runs/one");
    let Ok(results) = RunResults::read(&run, ExpectedSpecs::Everything) else { return };
    for detail in [Detail::Red, Detail::Brief, Detail::All] {
        harmless(&crate::text::printable::clean_lines(&run_text(&results, detail, false)));
    }
    for account in results.accounts() {
        account.trials.iter().for_each(|trial| harmless(&test_text(account, trial, "parity")));
    }
    let _ = summary_line(&results.summary());
    environments(&results).iter().for_each(|line| harmless(line));
    harmless(&failures(&results));
    let against = crate::results::Against { name: "itself", before: &results, now: &results };
    harmless(&crate::text::printable::clean_lines(&against_text(&against, false)));
    harmless(&step_summary(&results));
    annotations(&results, |file| Some(file.to_owned())).iter().for_each(|line| harmless(line));
    serde_json::from_str::<Value>(&chrome_trace(&results).unwrap()).unwrap();
    write_html(&run.join("against.html"), &results, Some(&against)).unwrap();
    write_reports(&run, &results).unwrap();
    for file in ["report.html", "against.html"] {
        let page = fs::read_to_string(run.join(file)).unwrap();
        assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        serde_json::from_str::<Value>(data.split_once("</script>").unwrap().0).unwrap();
    }
    for file in ["report.txt", "junit.xml"] {
        harmless(&fs::read_to_string(run.join(file)).unwrap());
    }
}

/// The files of a suite, with a spec that was run, one that was not and one that is broken.
fn suite() -> Vec<(&'static str, Vec<Value>)> {
    let settings = json!({"require": "declared", "level": null, "inject": "declared", "times": 0, "fixtures": null,
        "out": null, "run": null, "python": null, "sizes": {"warn": 1, "stop": 2}});
    let planned = |id: &str| {
        json!({"id": id, "digest": "0", "trials": ["norm1", "other", "image", "fixture", "stats"], "inject": "declared",
            "unmet": null})
    };
    let plan = json!({"format": 1, "mlx_parity": "1", "target": "parity", "started": "now",
        "folder": "target/parity/runs/one", "settings": settings,
        "selections": [{"filter": null, "exact": false, "skip": [], "shared": false}],
        "specs": [planned("a/b"), planned("a/c")], "broken": [{"id": "a/d", "text": "line 1"}], "refused": null});
    vec![
        ("suites/parity/plan.json", vec![plan]),
        (
            "suites/parity/outcomes.jsonl",
            vec![
                json!({"trial": "parity::discovery", "status": "failed", "class": null, "text": "wrong"}),
                json!({"trial": "a/b::norm1", "status": "failed", "class": null, "text": null}),
                json!({"trial": "x::y", "status": "failed", "class": null, "text": "not declared"}),
            ],
        ),
        (
            "suites/parity/end.json",
            vec![
                json!({"ended": "now", "passed": 1, "failed": 2, "ignored": 0, "filtered": 0, "problem": null}),
            ],
        ),
    ]
}

/// The spec as its run folder has it.
fn spec_file() -> Value {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("a")).unwrap();
    fs::write(home.path().join("a/b.yaml"), SPEC).unwrap();
    let spec = Specs::load_one(home.path(), "a/b").unwrap();
    serde_json::to_value(SpecFile::of(&spec.into())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_panics_or_forges(
        damages in prop::collection::vec((any::<[prop::sample::Index; 3]>(), absurd()), 0..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mut files: Vec<(String, Vec<Value>)> = suite().into_iter().map(|(file, lines)| (file.to_owned(), lines)).collect();
        files.extend(run().into_iter().map(|(file, lines)| (format!("a/b/{file}"), lines)));
        files.push(("a/b/spec.json".to_owned(), vec![spec_file()]));
        for ([file, line, place], value) in &damages {
            let count = files.len();
            let lines = &mut files[file.index(count)].1;
            let count = lines.len();
            let line = &mut lines[line.index(count)];
            let mut found = Vec::new();
            places(line, "", &mut found);
            let place: &String = place.get(&found);
            *line.pointer_mut(place).unwrap() = value.clone();
        }
        for (file, lines) in &files {
            let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            if let Some(cut) = cut.as_ref().filter(|_| file == "a/b/records.jsonl") {
                text.truncate(cut.index(text.len()));
            }
            write(&format!("runs/one/{file}"), &text);
        }
        write("runs/one/a/b/local/job.json", &json!({"spec": "a/b", "spec_root": "specs", "fixture_root": "fixtures",
            "folder": "f", "level": 0, "until": null, "inject": "all", "times": 0}).to_string());
        report(root.path());
    }
}

#[test]
fn a_whole_run_folder_is_reported_from_itself_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut files: Vec<(String, Vec<Value>)> =
        suite().into_iter().map(|(file, lines)| (file.to_owned(), lines)).collect();
    files.extend(run().into_iter().map(|(file, lines)| (format!("a/b/{file}"), lines)));
    files.push(("a/b/spec.json".to_owned(), vec![spec_file()]));
    for (file, lines) in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
    let results = RunResults::read(root.path(), ExpectedSpecs::Everything).unwrap();
    let text = run_text(&results, Detail::All, false);
    for part in ["a/b", "not run: a/c", "line 1", "parity::discovery  wrong", "x::y: not declared"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert_eq!(results.summary().not_run, 1);
    // The suite's outcomes report what the spec's folder does not, and a retry replaces them.
    let outcomes = root.path().join("suites/parity/outcomes.jsonl");
    let failed =
        json!({"trial": "a/b::norm1", "status": "failed", "class": null, "text": "changed during the test"});
    let passed = json!({"trial": "a/b::norm1", "status": "passed", "class": null, "text": null});
    for (lines, contains) in [(format!("{failed}\n"), true), (format!("{failed}\n{passed}\n"), false)] {
        fs::write(&outcomes, lines).unwrap();
        let results = RunResults::read(root.path(), ExpectedSpecs::Everything).unwrap();
        assert_eq!(run_text(&results, Detail::All, false).contains("a/b  changed during the test"), contains);
    }
    let spec = root.path().join("a/b/spec.json");
    let changed = fs::read_to_string(&spec).unwrap().replace("norm1", "norm2");
    fs::write(spec, changed).unwrap();
    let text =
        run_text(&RunResults::read(root.path(), ExpectedSpecs::Everything).unwrap(), Detail::All, false);
    assert!(text.contains("is not the spec that was run"), "{text}");
}
