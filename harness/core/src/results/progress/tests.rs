use super::*;
use crate::run_folder::{Exit, FORMAT, JOB, Plan, PlannedSpec, Selection, SuiteFolder};
use crate::settings::Settings;
use crate::spec::Inject;

/// A run whose suite planned these specs, each with two checkpoints and the trial `fixture`.
fn planned(run: &Path, specs: &[&str], filter: Option<&str>) {
    let spec = |id: &&str| PlannedSpec {
        id: (*id).to_owned(),
        digest: String::new(),
        trials: ["norm", "out", "fixture"].map(str::to_owned).into(),
        inject: Inject::Declared,
        unmet: id.ends_with("metal").then(|| "requires Metal".to_owned()),
    };
    let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
    let plan = Plan {
        checkout: None,
        format: FORMAT,
        mlx_parity: "1".into(),
        target: "parity".into(),
        started: "2026-01-01T00:00:00Z".into(),
        folder: "run".into(),
        settings: Settings::default(),
        selections: vec![selection.clone()],
        specs: specs.iter().map(spec).collect(),
        broken: Vec::new(),
        refused: None,
    };
    SuiteFolder::create(run, "parity").unwrap().plan(|| plan, &selection).unwrap();
}

/// The folder of a spec that has started.
fn started(run: &Path, id: &str) -> Folder {
    let folder = Folder::create(run.join(id)).unwrap();
    folder.write_json(STARTED, &serde_json::json!({"process": 7, "attempt": 1})).unwrap();
    folder
}

fn append(folder: &Folder, text: &str) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(folder.records()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn record(name: &str, status: &str) -> String {
    format!(
        "{{\"kind\":\"checkpoint\",\"checkpoint\":\"{name}\",\"hit\":0,\"verdict\":{{\"status\":\"{status}\"}}}}\n"
    )
}

#[test]
fn a_spec_goes_from_waiting_to_done() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path();
    let mut watch = RunWatch::of(run);
    assert!(!watch.look(None).unwrap().planned);
    planned(run, &["a/b", "c/d", "e/metal"], None);
    let mut look = |holder: Option<&DeviceHolder>| watch.look(holder).unwrap();
    let found = look(None);
    let states: Vec<&SpecState> = found.specs.iter().map(|spec| &spec.state).collect();
    assert_eq!(states, [&SpecState::Waiting, &SpecState::Waiting, &SpecState::Ignored]);
    assert_eq!((found.counts(), found.checkpoints()), ([1, 0, 2], (0, 4)));

    let folder = started(run, "a/b");
    let lock = folder.lock().unwrap();
    let holder = DeviceHolder::new(9, "x/y");
    assert_eq!(look(Some(&holder)).specs[0].state, SpecState::WaitingForDevice { holder: Some(holder) });
    fs::write(folder.output(), "").unwrap();
    append(&folder, &record("norm", "pass"));
    append(&folder, "{\"kind\":\"checkpoint\",\"checkpoint\":\"ou");
    let found = look(None).specs[0].clone();
    assert_eq!((found.state, found.done, found.declared), (SpecState::Running, 1, 2));
    assert_eq!((found.last.as_deref(), found.process, found.failed), (Some("norm"), Some(7), 0));

    // The rest of the line, and a second hit.
    append(&folder, "t\",\"verdict\":{\"status\":\"fail\"}}\n");
    append(&folder, &record("out", "pass"));
    let found = look(None).specs[0].clone();
    assert_eq!((found.done, found.failed, found.last.as_deref()), (2, 1, Some("out")));
    append(&folder, "{\"kind\":\"end\",\"error\":null}\n");
    assert_eq!(look(None).specs[0].state, SpecState::Timing);
    let local = Folder::local(&folder).unwrap();
    append(&local, &record("norm", "pass"));
    let found = look(None);
    assert_eq!((&found.specs[0].state, found.specs[0].done), (&SpecState::SecondPass, 1));
    assert_eq!(found.checkpoints(), (2, 4), "the second pass is not counted again");

    folder.write_json(EXIT, &Exit::Done).unwrap();
    drop(lock);
    let found = look(None);
    assert_eq!((&found.specs[0].state, found.counts()), (&SpecState::Done, [2, 0, 1]));
    assert!(!found.ended);
}

#[test]
fn a_killed_spec_is_interrupted_and_a_retry_starts_again() {
    let home = tempfile::tempdir().unwrap();
    planned(home.path(), &["a/b"], None);
    let folder = started(home.path(), "a/b");
    append(&folder, &record("norm", "fail"));
    let mut watch = RunWatch::of(home.path());
    assert_eq!(watch.look(None).unwrap().specs[0].state, SpecState::Interrupted);
    let lock = folder.lock().unwrap();
    folder.clear().unwrap();
    let folder = started(home.path(), "a/b");
    folder.write_json(JOB, &serde_json::json!({})).unwrap();
    fs::write(folder.output(), "").unwrap();
    append(&folder, "");
    let found = watch.look(None).unwrap().specs[0].clone();
    assert_eq!((found.state, found.done, found.failed), (SpecState::Running, 0, 0));
    drop(lock);
}

#[test]
fn only_selected_checkpoints_count() {
    let home = tempfile::tempdir().unwrap();
    planned(home.path(), &["a/b", "c/d"], Some("a/b::out"));
    let found = RunWatch::of(home.path()).look(None).unwrap();
    assert_eq!((found.specs.len(), found.specs[0].declared), (1, 1));
    let json = serde_json::to_value(&found.specs[0]).unwrap();
    assert_eq!(json["state"], "waiting");
    assert_eq!(json["elapsed_seconds"], serde_json::Value::Null);
}
