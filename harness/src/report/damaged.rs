//! Run folders that somebody or something has damaged are reported or refused; nothing panics, and nothing is forged.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Collected, Fate, Told, trial_text, write_reports};

const SPEC: &str = "version: 1\nport: p\nreference: {script: s.py}\ninputs: [x]\ncheckpoints:\n  \
    - {name: norm1, dtype: float32, noise: 8}\n  - {name: other, shape: [2, 2], range: [0, 1]}\n  \
    - {name: image, dtype: float32, stage: image, noise: 8}\n";

/// The files of a run, each a list of JSON values, one a line.
fn run() -> Vec<(&'static str, Vec<Value>)> {
    let page = include_str!("../../../docs/record.md");
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
    vec![
        ("local/records.jsonl", records.clone()),
        ("records.jsonl", records),
        ("exit.json", vec![json!({"timed_out": 3})]),
        ("run.json", vec![environment]),
        ("times.json", vec![json!({"norm1": 1.5, "other": 2.5, "image": 3.5})]),
        ("stats.json", vec![json!({"Failed": {"line": "moved", "more": "a\nb"}})]),
        ("obstacles.json", vec![json!([])]),
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

/// What no worker writes.
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
    let (specs, fixtures, run) = (root.join("specs"), root.join("fixtures"), root.join("runs/one"));
    let told = Told { level: None, filter: None, require_all: false, own_fixtures: true };
    let collected = Collected::read(&specs, &fixtures, &run, &told);
    harmless(&crate::printable::clean_lines(&collected.ladders(false, false)));
    let _ = collected.summary().to_string();
    collected.environments().iter().for_each(|line| harmless(line));
    for (spec, fate) in &collected.specs {
        if let Fate::Ran(account) = fate {
            account.endings.iter().for_each(|ending| harmless(&trial_text(spec, account, ending, "parity")));
        }
    }
    write_reports(&run, &collected, "parity").unwrap();
    for file in ["report.txt", "junit.xml"] {
        harmless(&fs::read_to_string(run.join(file)).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

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
        write("specs/a/b.yaml", SPEC);
        let mut files = run();
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
            if let Some(cut) = cut.as_ref().filter(|_| *file == "records.jsonl") {
                text.truncate(cut.index(text.len()));
            }
            write(&format!("runs/one/a/b/{file}"), &text);
        }
        write("runs/one/a/b/local/job.json", &json!({"spec": "a/b", "spec_root": "specs", "fixture_root": "fixtures",
            "folder": "f", "level": 0, "until": null, "inject": "all", "times": 0}).to_string());
        report(root.path());
    }
}
