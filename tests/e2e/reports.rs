//! Reports: every trial is accounted for, in the order of the run.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::project::{Project, Ran, SPEC};

#[test]
fn reports_include_specs_that_cannot_be_read() {
    let project = Project::with_port("right");
    fs::write(project.path("parity-specs/gated_mlp/broken.yaml"), "version: 1\n").unwrap();
    project.run(&[]).is_red(&["gated_mlp/broken::spec"]);
    assert!(project.trials().contains(r#""spec":"gated_mlp/broken","trial":"spec","status":"fail""#));
    let report = fs::read_to_string(project.path("target/parity/runs/latest/report.txt")).unwrap();
    assert!(report.contains("1 failed"), "{report}");
    let junit = fs::read_to_string(project.path("target/parity/runs/latest/junit.xml")).unwrap();
    assert!(junit.contains("failures=\"1\""), "{junit}");
}

#[test]
fn an_image_of_floats_is_drawn_and_its_failure_names_the_files() {
    let project = Project::with_port("shape");
    project.declare(
        "  - {name: gated, dtype: float32, shape: [6, 48], squeeze: [0], stage: image, noise: 8, range: [-0.1, 0.1]}",
    );
    let ran = project.run(&[]);
    ran.is_red(&[
        "gated: out of range",
        "  image    PSNR ",
        "  pictures ",
        "/gated_mlp/block/images/gated.{golden,actual,diff}.png\n",
    ]);
    for kind in ["golden", "actual", "diff"] {
        let png = project.path(&format!("target/parity/runs/latest/gated_mlp/block/images/gated.{kind}.png"));
        assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"), "{}", png.display());
    }
}

#[test]
fn report_shows_what_nextest_ran() {
    let project = Project::with_port("scaled");
    for name in ["norm", "gated", "out", "fixture", "weights"] {
        project.as_nextest(name, "one", "1");
    }
    // The judged run, and since it was red, a run on golden inputs.
    assert_eq!(project.forwards(), 2);
    let ran = project.report(&["--failures"]);
    assert_eq!(ran.code, Some(1));
    ran.prints(&[
        "value     gated",
        "first divergence, last green: norm",
        "gated_mlp/block::gated: value differs",
        "3 passed, 2 failed, 0 ignored, 1 spec",
    ]);
    let junit = fs::read_to_string(project.path("target/parity/runs/latest/junit.xml")).unwrap();
    assert!(junit.contains("failures=\"2\""), "{junit}");
}

#[test]
fn report_of_a_run_that_is_not_there_gives_advice() {
    let project = Project::with_port("right");
    let ran = project.report(&[]);
    assert_eq!(ran.code, Some(1));
    ran.prints(&["nothing has been run yet", "cargo xtask parity"]);
    project.run(&[]).is_green();
    project.report(&["../../x"]).prints(&["there is no run `../../x`"]);
}

#[test]
fn every_trial_is_accounted_for() {
    let project = Project::with_port("scaled");
    project.declare("  - {name: gated, dtype: float32, policy: fp32, gate: false, why: a test}");
    project.run(&[]).prints(&["parity: 8 declared = 5 passed + 2 failed + 0 ignored + 1 not gated\n"]);
    project
        .run(&["::norm"])
        .prints(&["parity: 1 declared = 1 passed + 0 failed + 0 ignored + 0 not gated\n"]);
}

#[test]
fn what_a_removed_spec_leaves_behind_is_red() {
    let project = Project::with_port("right");
    let (from, to) = (project.path("fixtures/gated_mlp/block"), project.path("fixtures/gated_mlp/gone"));
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let ran = project.run(&[]);
    ran.is_red(&["parity::discovery", "no spec uses the fixtures `gated_mlp/gone`"]);
    assert_eq!(ran.ended("FAILED"), [""; 0], "the others are as they were");
}

#[test]
fn a_golden_that_nobody_declares_is_red() {
    let project = Project::with_port("right");
    project.declare("");
    project.run(&[]).is_red(&["parity::discovery", "have goldens that no spec declares: `gated`"]);
}

#[test]
fn taps_in_another_order_are_listed_in_the_order_of_the_run() {
    let ran = Ran::of(Project::with_port("reordered").xtask(&["parity"]).output().unwrap());
    ran.is_green();
    ran.prints(&["order: the port reached `norm` after `out`, but the reference reaches it earlier"]);
    let ran = Ran::of(Project::with_port("reordered").xtask(&["parity", "--all"]).output().unwrap());
    let place = |name: &str| ran.text.find(&format!("ok        {name}")).unwrap();
    assert!(place("out") < place("norm") && place("norm") < place("gated"), "{}", ran.text);
}

#[test]
fn warm_runs_are_timed_apart_from_the_first() {
    let project = Project::with_port("right");
    let ran = Ran::of(project.xtask(&["parity"]).env("PARITY_TIMES", "3").output().unwrap());
    ran.is_green();
    ran.prints(&["first ms", "warm ms"]);
    // One checked pass, three that time each stage, and three without a check.
    assert_eq!(project.forwards(), 7);
    let times = fs::read_to_string(project.path("target/parity/runs/latest/gated_mlp/block/times.json"));
    let times: serde_json::Value = serde_json::from_str(&times.unwrap()).unwrap();
    assert!(["norm", "gated", "out"].iter().all(|name| times[name].as_f64().unwrap() > 0.0), "{times}");
}

#[test]
fn a_timed_run_may_be_filtered_and_is_then_not_timed() {
    let project = Project::with_port("right");
    project.edit(SPEC, "inputs: [x]", "inputs: [x]\ntimeout: 60s");
    let output = project.command(&["::norm"]).env("PARITY_TIMES", "3").output().unwrap();
    Ran::of(output).is_green();
    assert_eq!(project.forwards(), 1);
}

/// What `cargo xtask report` prints about the run, without the line that says where the files are.
fn reported(ran: &Ran) -> String {
    let lines = ran.stdout.lines().filter(|line| !line.starts_with("report.txt, junit.xml"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_report_reads_the_run_folder_and_nothing_else() {
    let project = Project::with_port("scaled");
    project.run(&[]).is_red(&[]);
    let first = project.report(&["--failures"]);
    assert_eq!(first.code, Some(1), "{}", first.text);
    first.prints(&["gated_mlp/block", "first divergence", "gated: value differs"]);
    // Neither the environment nor the specs of today count.
    for (name, value) in [("PARITY_LEVEL", "2"), ("PARITY_REQUIRE", "all"), ("PARITY_INJECT", "norm")] {
        let again = project.xtask(&["report", "--failures"]).env(name, value).output().unwrap();
        assert_eq!(reported(&Ran::of(again)), reported(&first), "{name}");
    }
    fs::remove_dir_all(project.path("parity-specs")).unwrap();
    fs::remove_dir_all(project.path("fixtures")).unwrap();
    assert_eq!(reported(&project.report(&["--failures"])), reported(&first));
}

#[test]
fn a_zipped_run_reports_the_same_on_another_machine() {
    let project = Project::with_port("scaled");
    project.run(&[]).is_red(&[]);
    let first = project.report(&["--failures"]);
    let run = project.path("target/parity/runs/latest").canonicalize().unwrap();
    let elsewhere = Project::with_port("right");
    for top in ["", "run/"] {
        let zip = elsewhere.path("run.zip");
        zip_folder(&run, &zip, top);
        let ran = elsewhere.report(&["--failures", zip.to_str().unwrap()]);
        assert_eq!(reported(&ran), reported(&first));
        assert_eq!(ran.code, first.code);
    }
    assert!(!elsewhere.path("target/parity/runs").exists(), "a zip file is only read");
}

#[test]
fn a_hostile_zip_file_is_refused() {
    let project = Project::with_port("right");
    let path = project.path("run.zip");
    let refused = |words: &[&str]| {
        let ran = project.report(&[path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(1), "{}", ran.text);
        ran.prints(words);
    };
    fs::write(&path, "rubbish").unwrap();
    refused(&["run.zip` is not a readable zip file"]);
    write_zip(&path, &[("../outside", b"x".as_slice())]);
    refused(&["has the entry `../outside`, which leads out of its folder"]);
    assert!(!project.path("outside").exists());
    write_zip(&path, &[("notes.txt", b"x".as_slice())]);
    refused(&["holds no run folder"]);
    write_zip(&path, &[("suites/parity/plan.json", b"{".as_slice())]);
    refused(&["plan.json` is damaged"]);
}

fn write_zip(path: &Path, files: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for (name, bytes) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn zip_folder(folder: &Path, path: &Path, top: &str) {
    let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
    let files: Vec<(String, Vec<u8>)> = entries
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let name = entry.path().strip_prefix(folder).unwrap().to_str().unwrap();
            (format!("{top}{name}"), fs::read(entry.path()).unwrap())
        })
        .collect();
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    write_zip(path, &files);
}
