//! Runs start, share names, join and make room as documented.

use super::*;

fn name(key: &str, owner: &str) -> RunName {
    let fresh = RunName::fresh(false);
    RunName { key: key.into(), owner: owner.into(), named: false, ..fresh }
}

fn home() -> (tempfile::TempDir, Out) {
    let home = tempfile::tempdir().unwrap();
    let out = Out(home.path().to_owned());
    (home, out)
}

fn called(out: &Out) -> Vec<String> {
    let mut names: Vec<String> =
        folders(&out.runs()).map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn latest(out: &Out) -> PathBuf {
    fs::read_link(out.run(LATEST)).unwrap()
}

#[test]
fn latest_is_the_newest_and_old_runs_go() {
    let (_home, out) = home();
    for run in 0..KEPT + 3 {
        out.start(&name(&format!("run{run:02}"), "one")).unwrap();
    }
    assert_eq!(latest(&out), Path::new("run12"));
    assert_eq!(called(&out), (3..13).map(|run| format!("run{run:02}")).collect::<Vec<_>>());
}

#[test]
fn latest_moves_on_from_an_unmarked_run_and_leaves_a_folder_called_latest() {
    let (_home, out) = home();
    fs::create_dir_all(out.run("unmarked")).unwrap();
    std::os::unix::fs::symlink("unmarked", out.run(LATEST)).unwrap();
    out.start(&name("first", "one")).unwrap();
    assert_eq!(latest(&out), Path::new("first"));
    assert!(out.run("unmarked").is_dir());
    fs::remove_file(out.run(LATEST)).unwrap();
    fs::create_dir(out.run(LATEST)).unwrap();
    out.start(&name("second", "one")).unwrap();
    assert!(out.run(LATEST).symlink_metadata().unwrap().is_dir());
}

#[test]
fn a_running_run_is_kept_at_any_age() {
    let (_home, out) = home();
    let going = out.start(&name("first", "one")).unwrap();
    for run in 0..2 * KEPT {
        out.start(&name(&format!("run{run:02}"), "one")).unwrap();
    }
    assert!(going.folder.is_dir());
    drop(going);
    out.start(&name("last", "one")).unwrap();
    assert!(!out.run("first").exists());
}

#[test]
fn filtered_runs_make_room_first_and_named_ones_never() {
    let (_home, out) = home();
    out.start(&RunName { named: true, ..name("named", "one") }).unwrap();
    for run in 0..KEPT {
        let filtered = run >= KEPT - 2;
        out.start(&RunName { filtered, ..name(&format!("run{run:02}"), "one") }).unwrap();
    }
    out.start(&name("more1", "one")).unwrap();
    out.start(&name("more2", "one")).unwrap();
    assert!(out.run("run00").exists() && out.run("named").exists());
    assert!(!out.run("run08").exists() && !out.run("run09").exists());
    out.start(&name("more3", "one")).unwrap();
    assert!(!out.run("run00").exists() && out.run("named").exists());
}

#[test]
fn folders_without_our_marker_stay_under_any_name() {
    let (_home, out) = home();
    let runs = out.runs();
    for other in ["theirs", "taken", ".aside-old-theirs", ".aside-new-theirs"] {
        fs::create_dir_all(runs.join(other)).unwrap();
        fs::write(runs.join(other).join("work"), "a year of it").unwrap();
    }
    fs::write(runs.join(LATEST), "theirs").unwrap();
    for run in 0..2 * KEPT {
        out.start(&name(&format!("run{run:02}"), "one")).unwrap();
    }
    let going = out.start(&name("taken", "one")).unwrap();
    assert_eq!(going.folder, runs.join("taken-2"));
    assert!(going.note.unwrap().contains("is not a run of mlx-parity, so this run is called `taken-2`"));
    for other in ["theirs", "taken", ".aside-old-theirs", ".aside-new-theirs"] {
        assert!(runs.join(other).join("work").is_file(), "{other}");
    }
    assert_eq!(fs::read_to_string(runs.join(LATEST)).unwrap(), "theirs");
}

#[test]
fn a_name_used_again_starts_an_empty_run_and_latest_moves() {
    let (_home, out) = home();
    let first = out.start(&name("again", "one")).unwrap();
    fs::create_dir(first.folder.join("spec")).unwrap();
    drop(first);
    out.start(&name("other", "two")).unwrap();
    assert_eq!(latest(&out), Path::new("other"));
    let second = out.start(&name("again", "three")).unwrap();
    assert!(second.note.is_none() && !second.folder.join("spec").exists());
    assert_eq!(latest(&out), Path::new("again"));
    let third = out.start(&name("again", "four")).unwrap();
    assert_eq!(third.folder, out.run("again-2"));
    assert!(third.note.unwrap().contains("a run called `again` is still running"));
    assert_eq!(called(&out), ["again", "again-2", "other"]);
}

#[test]
fn processes_of_one_owner_join_by_their_rule() {
    let (_home, out) = home();
    let join = |owner: &str, join: Join| out.start(&RunName { join, ..name("shared", owner) }).unwrap();
    let once = |asked: &str| Join::Once(asked.to_owned());
    let first = join("one", once("1 a")).folder;
    fs::write(first.join("spec"), "kept").unwrap();
    assert!(join("one", once("1 b")).folder.join("spec").exists());
    assert!(join("one", once("2 b")).folder.join("spec").exists());
    // A trial is requested once per run, so this starts the next run.
    assert!(!join("one", once("1 a")).folder.join("spec").exists());
    fs::write(first.join("spec"), "kept").unwrap();
    assert!(join("one", Join::SameOwner).folder.join("spec").exists());
    assert!(!join("one", Join::WhileGoing).folder.join("spec").exists(), "no process held it");
    let going = join("two", Join::Never);
    fs::write(going.folder.join("spec"), "kept").unwrap();
    assert!(join("two", Join::WhileGoing).folder.join("spec").exists());
    drop(going);
    assert!(!join("two", Join::WhileGoing).folder.join("spec").exists());
}

#[test]
fn unfinished_folders_of_a_killed_process_are_removed() {
    let (_home, out) = home();
    let runs = out.runs();
    for (left, file) in [(".aside-new-1-2-3", None), (".aside-new-1-2-4", Some(".abc.part"))] {
        fs::create_dir_all(runs.join(left)).unwrap();
        file.inspect(|file| fs::write(runs.join(left).join(file), "{").unwrap());
    }
    std::os::unix::fs::symlink("gone", runs.join(".aside-latest-1-2-6")).unwrap();
    let half = runs.join(".aside-old-1-2-5");
    fs::create_dir_all(half.join("spec")).unwrap();
    Marker::new("gone").write(&half).unwrap();
    out.start(&name("next", "one")).unwrap();
    assert_eq!(called(&out), ["next"]);
    assert_eq!(links(&runs).count(), 1, "only `latest`");
}
