//! The command `skill`.

use std::fs;

use crate::command::{EMPTY_WORKSPACE, cargo_parity, check};

#[test]
fn the_skill_is_printed_and_written_and_names_commands_that_exist() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("Cargo.toml"), EMPTY_WORKSPACE).unwrap();
    let run = |arguments: &[&str]| cargo_parity(folder.path(), arguments).output().unwrap();
    let text = check(run(&["skill"]), 0, &["name: mlx-parity\n", "Never change a tolerance"]);
    assert!(!text.contains("xtask") && text.lines().count() < 80, "{text}");
    for command in text.split("`cargo parity ").skip(1).filter_map(|rest| rest.split([' ', '`']).next()) {
        check(run(&[command, "--help"]), 0, &["Usage: cargo parity "]);
    }
    check(run(&["skill", "--write", "a/b"]), 0, &["wrote a/b/SKILL.md"]);
    let file = folder.path().join("a/b/SKILL.md");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    // Ours is replaced; what somebody else wrote is not.
    check(run(&["skill", "--write", "a/b"]), 0, &["wrote"]);
    fs::write(&file, "---\nname: other\n---\n").unwrap();
    check(run(&["skill", "--write", "a/b"]), 1, &["is no skill of mlx-parity", "name another folder"]);
    assert!(fs::read_to_string(&file).unwrap().contains("other"));
}
