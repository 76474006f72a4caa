//! Pictures that a person approves by eye: what an approval turns green, and all that it must not.

use std::fs;

use crate::project::{Project, Ran, SPEC};

const PICTURE: &str =
    "  - {name: gated, dtype: float32, shape: [6, 48], squeeze: [0], stage: image, noise: 8}";
const APPROVALS: &str = "parity-specs/gated_mlp/block.approved.json";
const NAME: &str = "gated_mlp/block::gated";

/// A project whose checkpoint `gated` is a picture, and whose port multiplies it by a factor.
fn project() -> Project {
    let project = Project::with_port("picture");
    project.declare(PICTURE);
    // The snapshot is of another shape.
    fs::remove_file(project.path("tests/snapshots/gated_mlp__block.snap")).unwrap();
    project
}

fn run(project: &Project, factor: &str) -> Ran {
    Ran::of(project.command(&[]).env("BAD_PORTS_FACTOR", factor).output().unwrap())
}

fn accept(project: &Project, name: &str, arguments: &[&str]) -> Ran {
    let arguments = [&["accept", "--picture", name][..], arguments].concat();
    Ran::of(project.xtask(&arguments).output().unwrap())
}

const BY_ADA: &[&str] = &["--reason", "only the grain differs", "--by", "Ada"];

/// A project with an approved picture.
fn approved() -> Project {
    let project = project();
    run(&project, "1.0005").is_red(&["gated: value differs"]);
    accept(&project, NAME, BY_ADA).is_green();
    project
}

#[test]
fn an_approved_picture_is_green_and_counted_apart_everywhere() {
    let project = project();
    run(&project, "1.0005").is_red(&[
        "  image    PSNR ",
        "look at the pictures; if they are right: cargo parity accept --picture gated_mlp/block::gated \
         --reason \"…\"",
    ]);
    let accepted = accept(&project, NAME, BY_ADA);
    accepted.is_green();
    accepted.prints(&[
        "gated_mlp/block::gated  approved by eye by Ada on cpu, PSNR ",
        "/images/gated.{golden,actual,diff}.png\n",
        "wrote parity-specs/gated_mlp/block.approved.json: commit it.",
    ]);
    let text = fs::read_to_string(project.path(APPROVALS)).unwrap();
    for words in
        ["CPU and GPU round differently", "\"device\": \"cpu\"", "\"reason\": \"only the grain differs\""]
    {
        assert!(text.contains(words), "{text}");
    }

    let ran = run(&project, "1.0005");
    ran.is_green();
    ran.prints(&[
        "1 approved by eye; at most",
        "`gated` approved by eye by Ada: only the grain differs",
        " + 0 failed + 0 ignored + 0 not gated + 1 approved by eye + 1 new snapshot",
    ]);
    // The approved picture asks for no second pass.
    assert_eq!(project.forwards(), 3);
    let report = project.report(&["--all"]);
    report.is_green();
    report.prints(&[
        "  by eye    gated ",
        "approved by eye by Ada: only the grain differs",
        ", 1 approved by eye, ",
    ]);
    let line = project.trials().lines().find(|line| line.contains("\"trial\":\"gated\"")).unwrap().to_owned();
    assert!(
        line.contains("\"status\":\"approved\",\"class\":\"value\",\"detail\":\"only the grain"),
        "{line}"
    );
    for (file, words) in [
        ("junit.xml", "<system-out>approved by eye by Ada: only the grain differs</system-out>"),
        ("report.html", "\"approved\":1"),
        ("report.html", "\"status\":\"approved\""),
        ("report.txt", "1 approved by eye"),
        ("gated_mlp/block/records.jsonl", "\"status\":\"approved\",\"class\":\"value\""),
    ] {
        let text = fs::read_to_string(project.path("target/parity/runs/latest").join(file)).unwrap();
        assert!(text.contains(words), "`{file}` has no `{words}`");
    }
    let again = accept(&project, NAME, BY_ADA);
    assert_eq!(again.code, Some(1));
    again.prints(&["needs no approval: its picture is approved"]);
}

#[test]
fn ci_accepts_a_committed_approval_and_makes_none() {
    let project = approved();
    let in_ci = |command: &mut std::process::Command| Ran::of(command.env("CI", "true").output().unwrap());
    let ran = in_ci(project.command(&["gated_mlp/block::gated"]).env("BAD_PORTS_FACTOR", "1.0005"));
    ran.is_green();
    ran.prints(&["1 approved by eye"]);
    let refused = in_ci(&mut project.xtask(&["accept", "--picture", NAME, "--reason", "x", "--by", "CI"]));
    assert_eq!(refused.code, Some(1));
    refused.prints(&["CI approves no picture: a person has to look at it"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_approval_goes_stale_with_the_picture_and_the_test_says_so() {
    let project = approved();
    run(&project, "1.00051").is_red(&[
        "gated: value differs",
        "by eye   Ada approved this picture, but the actual has changed since: look at it again; if it is right: cargo \
         parity accept --picture gated_mlp/block::gated --reason",
    ]);
    accept(&project, NAME, BY_ADA).is_green();
    run(&project, "1.00051").is_green();
    run(&project, "1.0005").is_red(&["the actual has changed since"]);
    // The approval of a picture that is right by its numbers is not needed.
    let ran = run(&project, "1");
    ran.is_green();
    assert!(!ran.text.contains("approved by eye"), "{}", ran.text);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn no_approval_covers_nan_or_a_picture_that_is_far_off() {
    let project = approved();
    run(&project, "NaN").is_red(&[
        "gated: NaN or infinity differs",
        "Ada approved this picture, but an approval covers values only, and this failure is `finite`",
    ]);
    let refused = accept(&project, NAME, BY_ADA);
    assert_eq!(refused.code, Some(1));
    refused
        .prints(&["cannot be approved by eye: an approval covers values only, and this failure is `finite`"]);
    run(&project, "9").is_red(&["dB, and below 20 dB a picture is wrong, however it looks"]);
    let refused = accept(&project, NAME, BY_ADA);
    assert_eq!(refused.code, Some(1));
    refused.prints(&["cannot be approved by eye: its PSNR is "]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_edited_approval_turns_nothing_green() {
    let project = approved();
    let text = fs::read_to_string(project.path(APPROVALS)).unwrap();
    let value = |key: &str| text.split(&format!("\"{key}\": \"")).nth(1).unwrap()[..64].to_owned();
    let other = "0".repeat(64);
    for (from, to, words) in [
        (value("actual"), other.as_str(), "the actual has changed since"),
        (value("golden"), other.as_str(), "the golden has changed since"),
        ("\"cpu\"".to_owned(), "\"gpu\"", "it was made on gpu, and this run is on cpu"),
        ("\"gated\"".to_owned(), "\"out\"", "look at the pictures; if they are right: "),
        ("\"Ada\"".to_owned(), "\"\"", "`gated` has an empty `by`; restore the file from git, or remove it"),
        (
            "\"pictures\"".to_owned(),
            "\"picture\"",
            "block.approved.json` cannot be used: unknown field `picture`",
        ),
    ] {
        fs::write(project.path(APPROVALS), text.replace(&from, to)).unwrap();
        run(&project, "1.0005").is_red(&[words]);
    }
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn only_a_red_picture_of_a_free_run_can_be_approved() {
    let project = project();
    let check = |name: &str, arguments: &[&str], words: &str| {
        let refused = accept(&project, name, arguments);
        assert_eq!(refused.code, Some(1), "{}", refused.text);
        refused.prints(&[words]);
        assert!(!project.path(APPROVALS).exists());
    };
    check(NAME, BY_ADA, "nothing has been run yet");
    run(&project, "1.0005").is_red(&[]);
    check("gated", BY_ADA, "`--picture` is `gated`, expected `model/component::checkpoint`");
    check("gated_mlp/block::gate", BY_ADA, "has no checkpoint `gate`, did you mean `gated`?");
    check("gated_mlp/blck::gated", BY_ADA, "the run has no results of spec `gated_mlp/blck`");
    check("gated_mlp/block::norm", BY_ADA, "needs no approval: it passed by its numbers");
    check(NAME, &["--reason", " ", "--by", "Ada"], "`--reason` is empty");
    let pictures = project.path("target/parity/runs/latest/gated_mlp/block/images");
    fs::rename(&pictures, pictures.with_extension("away")).unwrap();
    check(NAME, BY_ADA, "has no pictures in the run folder");
    project.edit(SPEC, "stage: image", "stage: mlp");
    check(NAME, BY_ADA, "spec `gated_mlp/block` changed after the run");
    run(&project, "1.0005").is_red(&[]);
    check(NAME, BY_ADA, "the spec does not declare it as a picture, with `stage: image`");
    let injected =
        project.command(&[]).env("BAD_PORTS_FACTOR", "1.0005").env("PARITY_LOCALISE", "1").output();
    Ran::of(injected.unwrap()).is_red(&["INJECTED"]);
    check(NAME, BY_ADA, "the run injected goldens");
}

#[test]
fn an_approved_picture_is_not_the_first_faulty_stage() {
    let project = approved();
    let mut command = project.command(&["--skip", "::stats"]);
    let ran = command.env("BAD_PORTS_FACTOR", "1.0005").env("BAD_PORTS_FACTOR_OF_OUT", "1.01").output();
    Ran::of(ran.unwrap()).is_red(&[
        "  cause    the first faulty stage is `out`",
        "1 of 3 checkpoints failed (1 value), 1 approved by eye;",
        "<- first divergence, last green: norm",
    ]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_approved_picture_can_be_mutated() {
    let project = approved();
    let mutate = |factor: &str| {
        let mut command = project.xtask(&["mutate", "gated_mlp/block"]);
        Ran::of(command.env("BAD_PORTS_FACTOR", factor).output().unwrap())
    };
    let ran = mutate("1.0005");
    ran.is_green();
    ran.prints(&["gated"]);
    let ran = mutate("1.00051");
    assert_eq!(ran.code, Some(1), "{}", ran.text);
    ran.prints(&["`gated` is red without any mutation", "the actual has changed since"]);
}
