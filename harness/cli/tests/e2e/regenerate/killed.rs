//! A set is either the old one or the new one, whenever `cargo xtask regenerate-fixtures` is killed and however many
//! commands run at once.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::command::{bounded, ended};
use crate::shell_project::{Project, SCRIPT};

/// Pseudo-random numbers, the same in every run.
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

/// Waits for the line that is printed just before a set is replaced.
fn until_it_replaces(child: &mut Child) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains(" tensors: ")));
}

/// Starts to replace the set, kills the command, and expects the old set or the new one. Returns the mark before and after.
fn kill_once(project: &Project, round: u64, draws: &mut Draws, whole: Duration) -> (u8, u8) {
    let before = project.mark().unwrap();
    let mut child = start(project, 3 - before);
    // Every second kill comes at any moment, the others around the swap, which is short.
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
#[ignore = "slow: `.ci/run` runs it"]
fn killed_at_many_moments_no_set_is_ever_mixed() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    let started = Instant::now();
    project.prints(2, &["--yes", "--force"], 0, &[]);
    let whole = started.elapsed();
    let mut draws = Draws(1);
    for round in 0..24 {
        kill_once(&project, round, &mut draws, whole);
    }
    // The next command copes with whatever is left.
    let mark = 3 - project.mark().unwrap();
    project.prints(mark, &["--yes", "--force"], 0, &["1 replaced"]);
    assert_eq!(project.mark(), Some(mark));
    let left = fs::read_dir(project.path("fixtures/.regenerating")).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.path()).collect();
    assert_eq!(project.entries(), ["model"], "{left:#?}");
}

/// A whole number from the environment, or the default.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// After each kill the set is the old one or the new one, the next command works and leaves nothing behind, and no script
/// goes on. `KILLS` is the number of kills, `SEED` selects the moments.
#[test]
#[ignore = "takes minutes; CONTRIBUTING.md has the command"]
fn kill_campaign() {
    let (kills, seed) = (setting("KILLS", 200), setting("SEED", 1));
    let project = Project::new();
    // A slow script that keeps writing, and has a child that does the same.
    project.script(&format!(
        "echo $$ >> pids; mkdir -p \"$PARITY_ROOT/a\" \"$PARITY_ROOT/b\"\n\
         ( i=0; while [ $i -lt 300 ]; do echo > \"$PARITY_ROOT/b/$i\"; i=$((i+1)); done ) &\n\
         i=0; while [ $i -lt 300 ]; do echo > \"$PARITY_ROOT/a/$i\"; i=$((i+1)); done\n\
         {SCRIPT}"
    ));
    project.prints(1, &["--yes"], 0, &[]);
    let started = Instant::now();
    project.prints(2, &["--yes", "--force"], 0, &[]);
    let whole = started.elapsed();
    let mut draws = Draws(seed);
    let (mut old, mut new, mut reported, mut twice) = (0, 0, 0, 0);
    for round in 0..kills {
        let (before, found) = kill_once(&project, round, &mut draws, whole);
        *(if found == before { &mut old } else { &mut new }) += 1;

        let mut command = project.command(&["regenerate-fixtures", "--yes", "--force"]);
        let (code, text) = bounded(command.env("MARK", (3 - found).to_string()));
        assert_eq!(code, 0, "kill {round}: {text}");
        assert_eq!(project.mark(), Some(3 - found), "kill {round}: {text}");
        reported += u64::from(text.contains("an earlier run was interrupted"));
        if project.entries() != ["model"] {
            // A process was still at work there; the next command finds it gone.
            twice += 1;
            assert!(text.contains("a later run removes"), "kill {round}: {text}");
            project.prints(3 - found, &["--yes"], 0, &["an earlier run was interrupted"]);
        }
        assert_eq!(project.entries(), ["model"], "kill {round}: {text}");
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
        "{kills} kills, seed {seed}, {:.0} s: {old} sets stayed old, {new} were new, none was mixed; {reported} commands \
         found leftovers, {twice} had to leave some to the next; no script went on",
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn what_a_killed_run_left_is_reported_and_removed() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    let left = "fixtures/.regenerating/run-x/first/model/part";
    project.write(&format!("{left}/manifest.json"), "{}");
    // A journal that was half written.
    project.write("fixtures/.regenerating/.journal.part", "");
    project.prints(1, &["--check"], 0, &["1 current"]);
    project.prints(
        1,
        &[],
        0,
        &["an earlier run was interrupted: nothing had been replaced; removed the 2 bytes that it left behind"],
    );
    assert_eq!(project.entries(), ["model"]);

    // Killed between the two renames, on a system that cannot exchange folders.
    fs::create_dir_all(project.path("fixtures/.regenerating/run-x/first/model")).unwrap();
    fs::rename(project.path("fixtures/model/part"), project.path(&format!("{left}.old"))).unwrap();
    let journal = r#"{"set": "model/part", "new": ".regenerating/run-x/first/model/part", "manifest": "00"}"#;
    project.write("fixtures/.regenerating/journal.json", journal);
    project.prints(
        1,
        &[],
        0,
        &["fixtures `model/part` had not been replaced, and the old ones were restored", "1 set current"],
    );
    assert_eq!(project.mark(), Some(1));

    // A journal with paths outside of the root is not followed.
    let elsewhere = project.path("elsewhere");
    fs::create_dir_all(elsewhere.with_extension("old")).unwrap();
    let journal = r#"{"set": "../there", "new": "../elsewhere", "manifest": "00"}"#;
    project.write("fixtures/.regenerating/journal.json", journal);
    project.prints(1, &[], 0, &["nothing had been replaced"]);
    assert!(!project.path("there").exists());
}

#[test]
fn a_second_command_at_once_waits_and_says_so() {
    let project = Project::new();
    // The first waits until the test lets it go on.
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
    let mut text = String::new();
    let mut errors = BufReader::new(second.stderr.take().unwrap());
    errors.read_line(&mut text).unwrap();
    assert!(text.starts_with("waiting for another command that uses"), "{text}");
    assert_eq!(project.mark(), None);
    project.write("go", "");
    let (code, text) = ended(first.wait_with_output().unwrap());
    assert_eq!(code, 0, "{text}");
    // The first made a current set, so the second has nothing to do.
    let mut result = String::new();
    second.stdout.take().unwrap().read_to_string(&mut result).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(result, "1 set current, nothing to do\n");
    assert_eq!(project.mark(), Some(1));
}
