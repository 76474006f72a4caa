//! Fixtures are wholly the old or wholly the new, whenever `cargo xtask regenerate-fixtures` is killed and however many
//! run at once.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod shell;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use shell::{Project, SCRIPT, bounded, told};

/// Numbers that look random and are the same in every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: Duration) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bound.mul_f64((self.0 >> 11) as f64 / (1u64 << 53) as f64)
    }
}

fn start(project: &Project, mark: u8) -> Child {
    let mut command = project.command(&["regenerate-fixtures", "--yes", "--force"]);
    command.env("MARK", mark.to_string()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for the line after which a set is replaced.
fn until_it_replaces(child: &mut Child) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains(" tensors: ")));
}

/// Starts to replace the set, kills the command, and sees that the set is wholly old or wholly new: its mark before and now.
fn kill_once(project: &Project, round: u64, draws: &mut Draws, whole: Duration) -> (u8, u8) {
    let before = project.mark().unwrap();
    let mut child = start(project, 3 - before);
    // Half of them anywhere, and half about the moment of the swap, which is short.
    if round.is_multiple_of(2) {
        std::thread::sleep(draws.below(whole));
    } else {
        until_it_replaces(&mut child);
        std::thread::sleep(draws.below(whole / 10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let found = project.mark().unwrap();
    assert!(found == before || found == 3 - before, "kill {round}");
    (before, found)
}

#[test]
fn killed_at_a_hundred_moments_no_set_is_ever_mixed() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    let started = Instant::now();
    project.says(2, &["--yes", "--force"], 0, &[]);
    let whole = started.elapsed();
    let mut draws = Draws(1);
    for round in 0..100 {
        kill_once(&project, round, &mut draws, whole);
    }
    // The next one copes with whatever is left.
    let mark = 3 - project.mark().unwrap();
    project.says(mark, &["--yes", "--force"], 0, &["1 replaced"]);
    assert_eq!(project.mark(), Some(mark));
    let left = fs::read_dir(project.path("fixtures/.regenerating")).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.path()).collect();
    assert_eq!(project.entries(), ["model"], "{left:#?}");
}

/// A whole number from the environment, or what it is unless told.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// The kill campaign: a set is wholly old or wholly new after each kill, the very next command works and leaves nothing
/// behind, and no script goes on. `KILLS` says how many, `SEED` which moments.
#[test]
#[ignore = "takes minutes; CONTRIBUTING.md has the command"]
fn kill_campaign() {
    let (kills, seed) = (setting("KILLS", 200), setting("SEED", 1));
    let project = Project::new();
    // A script that takes its time, writes all the while, and has a child that does too.
    project.script(&format!(
        "echo $$ >> pids; mkdir -p \"$PARITY_ROOT/a\" \"$PARITY_ROOT/b\"\n\
         ( i=0; while [ $i -lt 300 ]; do echo > \"$PARITY_ROOT/b/$i\"; i=$((i+1)); done ) &\n\
         i=0; while [ $i -lt 300 ]; do echo > \"$PARITY_ROOT/a/$i\"; i=$((i+1)); done\n\
         {SCRIPT}"
    ));
    project.says(1, &["--yes"], 0, &[]);
    let started = Instant::now();
    project.says(2, &["--yes", "--force"], 0, &[]);
    let whole = started.elapsed();
    let mut draws = Draws(seed);
    let (mut old, mut new, mut told_of, mut twice) = (0, 0, 0, 0);
    for round in 0..kills {
        let (before, found) = kill_once(&project, round, &mut draws, whole);
        *(if found == before { &mut old } else { &mut new }) += 1;

        let mut command = project.command(&["regenerate-fixtures", "--yes", "--force"]);
        let (code, said) = bounded(command.env("MARK", (3 - found).to_string()));
        assert_eq!(code, 0, "kill {round}: {said}");
        assert_eq!(project.mark(), Some(3 - found), "kill {round}: {said}");
        told_of += u64::from(said.contains("an earlier run was stopped"));
        if project.entries() != ["model"] {
            // Something was still at work there; it is gone by the next command.
            twice += 1;
            assert!(said.contains("stays until a later run"), "kill {round}: {said}");
            project.says(3 - found, &["--yes"], 0, &["an earlier run was stopped"]);
        }
        assert_eq!(project.entries(), ["model"], "kill {round}: {said}");
        assert_eq!(fs::read_dir(project.path("fixtures/model")).unwrap().count(), 1, "kill {round}");
    }
    let pids = fs::read_to_string(project.path("pids")).unwrap();
    let alive = pids.lines().filter(|pid| {
        let state = std::process::Command::new("ps").args(["-o", "stat=,args=", "-p", pid]).output().unwrap();
        let state = String::from_utf8_lossy(&state.stdout).into_owned();
        !state.is_empty() && !state.starts_with('Z') && state.contains("reference.sh")
    });
    assert_eq!(alive.count(), 0, "scripts go on");
    println!(
        "{kills} kills, seed {seed}, {:.0} s: {old} sets stayed old, {new} were new, none was mixed; {told_of} commands \
         found leftovers, {twice} had to leave some to the next; no script went on",
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn what_a_killed_run_left_is_told_and_removed() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    let left = "fixtures/.regenerating/run-x/first/model/part";
    project.write(&format!("{left}/manifest.json"), "{}");
    // Half of a journal, which was being written.
    project.write("fixtures/.regenerating/.journal.part", "");
    project.says(1, &["--check"], 0, &["1 current"]);
    project.says(
        1,
        &[],
        0,
        &["an earlier run was stopped: nothing had been replaced; the 2 bytes that it left are removed"],
    );
    assert_eq!(project.entries(), ["model"]);

    // Killed between the two renames of a system that cannot exchange folders.
    fs::create_dir_all(project.path("fixtures/.regenerating/run-x/first/model")).unwrap();
    fs::rename(project.path("fixtures/model/part"), project.path(&format!("{left}.old"))).unwrap();
    let journal = r#"{"set": "model/part", "new": ".regenerating/run-x/first/model/part", "manifest": "00"}"#;
    project.write("fixtures/.regenerating/journal.json", journal);
    project.says(
        1,
        &[],
        0,
        &["fixtures `model/part` had not been replaced, and the old ones are put back", "1 set current"],
    );
    assert_eq!(project.mark(), Some(1));

    // A journal that leads elsewhere is not followed.
    let elsewhere = project.path("elsewhere");
    fs::create_dir_all(elsewhere.with_extension("old")).unwrap();
    let journal = r#"{"set": "../there", "new": "../elsewhere", "manifest": "00"}"#;
    project.write("fixtures/.regenerating/journal.json", journal);
    project.says(1, &[], 0, &["nothing had been replaced"]);
    assert!(!project.path("there").exists());
}

#[test]
fn the_second_at_once_waits_and_says_so() {
    let project = Project::new();
    // The first goes on until the test lets it.
    project.script(&format!("touch started\nwhile [ ! -e go ]; do sleep 0.01; done\n{SCRIPT}"));
    let first = project
        .command(&["regenerate-fixtures", "--yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !project.path("started").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut second = project
        .command(&["regenerate-fixtures", "--yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut errors = BufReader::new(second.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    assert!(said.starts_with("waiting for another command that works on"), "{said}");
    assert_eq!(project.mark(), None);
    project.write("go", "");
    let (code, said) = told(first.wait_with_output().unwrap());
    assert_eq!(code, 0, "{said}");
    // What the first made is current, so the second has nothing to do.
    let mut result = String::new();
    second.stdout.take().unwrap().read_to_string(&mut result).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(result, "1 set current, nothing to do\n");
    assert_eq!(project.mark(), Some(1));
}
