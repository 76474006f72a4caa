//! What is never lost: files of other people, links, and the old set when the disk is full.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::command::{BINARY, ended};
use crate::shell_project::{Project, SCRIPT};

#[test]
fn links_and_foreign_files_are_not_written_over() {
    let project = Project::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(project.path("fixtures")).unwrap();
    symlink(elsewhere.path(), project.path("fixtures/model")).unwrap();
    project.prints(1, &["--yes"], 1, &["is a symbolic link; fixtures are never replaced through a link"]);
    fs::remove_file(project.path("fixtures/model")).unwrap();
    fs::create_dir(project.path("fixtures/model")).unwrap();
    symlink(elsewhere.path(), project.path("fixtures/model/part")).unwrap();
    project.prints(1, &["--yes"], 1, &["is a symbolic link"]);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    fs::remove_file(project.path("fixtures/model/part")).unwrap();

    for (file, words) in [
        (
            "fixtures/model/part/notes.txt",
            "contains files that are not part of the set and would be lost: `notes.txt`",
        ),
        ("fixtures/model/part/inner/manifest.json", "is another set inside `model/part` and would be lost"),
    ] {
        project.write(file, "{}");
        project.prints(1, &["--yes"], 1, &[words, "move it elsewhere first"]);
        assert!(project.path(file).exists());
        fs::remove_dir_all(project.path("fixtures/model/part")).unwrap();
    }
    project.write("fixtures/model/part", "a file");
    project.prints(1, &["--yes"], 1, &["is not a folder"]);
    fs::remove_file(project.path("fixtures/model/part")).unwrap();

    // A broken set is replaced, and its hidden files are kept.
    project.write("fixtures/model/part/manifest.json", "{");
    project.write("fixtures/model/part/golden-a.npy", "rubbish");
    project.write("fixtures/model/part/.gitattributes", "*.npy binary\n");
    project.prints(1, &["--yes"], 0, &["1 replaced"]);
    assert_eq!(project.mark(), Some(1));
    assert_eq!(
        fs::read_to_string(project.path("fixtures/model/part/.gitattributes")).unwrap(),
        "*.npy binary\n"
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn what_somebody_put_into_a_set_is_never_deleted() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    project.script(&format!("touch ran\n{SCRIPT}"));
    let mine = [
        "mine.npy",
        ".notes/a.txt",
        ".notes/manifest.json",
        "deep/er.npy",
        "deep/.b.npy",
        "notes.txt",
        "x.npy",
    ];
    for file in mine {
        project.write(&format!("fixtures/model/part/{file}"), "mine");
    }
    let words = [
        "`model/part` contains files that are not part of the set and would be lost: `.notes/`, `deep/`, `mine.npy`, `notes.txt`, `x.npy`",
        "to do: move it elsewhere first; nothing was changed",
    ];
    project.prints(2, &["--yes"], 1, &words);
    assert!(!project.path("ran").exists(), "the script was run though nothing can come of it");
    for file in mine {
        let path = project.path(&format!("fixtures/model/part/{file}"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(path).unwrap();
    }
    fs::remove_dir(project.path("fixtures/model/part/.notes")).unwrap();
    fs::remove_dir(project.path("fixtures/model/part/deep")).unwrap();
    project.prints(2, &["--yes"], 0, &["1 replaced"]);
    // A manifest that cannot be read names no file, so a file that the new set does not have may be anybody's.
    project.script(&format!("# another\n{SCRIPT}"));
    project.write("fixtures/model/part/manifest.json", "{");
    project.write("fixtures/model/part/mine.npy", "mine");
    project.prints(1, &["--yes"], 1, &["would be lost: `mine.npy`"]);
    assert_eq!(fs::read_to_string(project.path("fixtures/model/part/mine.npy")).unwrap(), "mine");
    // A file that appears while the script runs is noticed before anything is replaced.
    fs::remove_file(project.path("fixtures/model/part/mine.npy")).unwrap();
    project.script(&format!("{SCRIPT}echo mine > fixtures/model/part/late.txt\n"));
    project.prints(1, &["--yes"], 1, &["would be lost: `late.txt`"]);
    assert_eq!(fs::read_to_string(project.path("fixtures/model/part/late.txt")).unwrap(), "mine\n");
    assert_eq!(project.entries(), ["model"]);
}

/// A limit on the size of files stands in for a full disk. A write beyond it fails or kills the process; the old set stays.
#[test]
fn out_of_space_the_old_set_stays() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    project.script(&format!("head -c 100000 /dev/zero > \"$PARITY_ROOT/large\" || exit 1\n{SCRIPT}"));
    let xtask = BINARY;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("ulimit -f 8; exec '{xtask}' regenerate-fixtures --yes")]);
    command.current_dir(project.path("")).env("PARITY_PYTHON", project.path("python"));
    let (code, text) = ended(command.env("MARK", "2").output().unwrap());
    assert_ne!(code, 0, "{text}");
    assert!(text.contains("model/part"), "the script of the set did not run: {text}");
    assert_eq!(project.mark(), Some(1));
    project.prints(2, &["--yes"], 0, &["1 replaced"]);
    assert_eq!(project.mark(), Some(2));
}
