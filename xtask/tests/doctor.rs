//! What `cargo xtask doctor` says of projects that lack something.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod shell;

use std::fs;
use std::process::Command;

use mlx_parity::golden::FileIdentity;
use serde_json::Value;
use shell::{Project, told};

/// The command in a project, with the machine's own Python and no variable that it would warn of.
fn doctor(project: &Project) -> Command {
    let mut command = project.command(&["doctor", "--json"]);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["MLX_", "OMP_", "OPENBLAS_", "MKL_", "PYTHON", "TORCH_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command.env_remove("PARITY_PYTHON");
    command
}

/// The checks of one subject, as `state: found`, and the exit code.
fn checks(command: &mut Command, subject: &str) -> (i32, Vec<String>) {
    let output = command.output().unwrap();
    let code = output.status.code().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["version"], 1);
    let word = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let all = json["checks"].as_array().unwrap();
    for check in all {
        assert_eq!(check["state"] == "ok", check["next"].is_null(), "{check}");
    }
    let found = all.iter().filter(|check| check["subject"] == subject);
    (code, found.map(|check| format!("{}: {}", word(check, "state"), word(check, "found"))).collect())
}

#[track_caller]
fn says(command: &mut Command, subject: &str, words: &str) {
    let (_, found) = checks(command, subject);
    assert!(found.iter().any(|line| line.contains(words)), "`{subject}` does not say `{words}`: {found:?}");
}

#[test]
fn fixtures_and_leftovers_are_looked_at() {
    let project = Project::new();
    says(
        &mut doctor(&project),
        "fixtures",
        "wrong: 1 of 1 set not current; `model/part`: there are no fixtures at",
    );
    project.says(1, &["--yes"], 0, &[]);
    says(&mut doctor(&project), "fixtures", "ok: 1 set current, every checksum is right");
    project.write("fixtures/.regenerating/run-x/half", "12345");
    says(&mut doctor(&project), "leftovers", "warn: 5 bytes that a stopped regenerate-fixtures left");
    project.write("fixtures/model/part/golden-a.npy", "rubbish");
    says(&mut doctor(&project), "fixtures", "wrong: 1 of 1 set not current; `model/part`: fixture file");
    project.write("parity-specs/model/part.yaml", "version: 1\n");
    says(&mut doctor(&project), "fixtures", "wrong: 1 spec cannot be read");
}

/// What is remembered of a file counts only while it is the same file, and for `doctor`, `--check` and CI not even then.
#[test]
fn a_golden_that_was_replaced_with_its_old_time_is_found() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    let (golden, memory) = (project.path("fixtures/model/part/golden-a.npy"), "target/parity/checksums.json");
    let lint = |ci: &str| told(project.command(&["lint"]).env("CI", ci).output().unwrap()).1;
    let is_remembered =
        || fs::read_to_string(project.path(memory)).is_ok_and(|text| text.contains("golden-a"));
    // A file is remembered from its second second on.
    while !is_remembered() {
        assert!(!lint("").contains("SHA-256"));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }

    let mut kept: Value = serde_json::from_slice(&fs::read(project.path(memory)).unwrap()).unwrap();
    let time = fs::metadata(&golden).unwrap().modified().unwrap();
    let mut bytes = fs::read(&golden).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&golden, bytes).unwrap();
    fs::File::options().write(true).open(&golden).unwrap().set_modified(time).unwrap();
    assert!(lint("").contains("has SHA-256"), "the old time hides it");

    // Even a memory that vouches for the other file is not asked where it counts.
    let real = golden.canonicalize().unwrap();
    kept["files"][real.to_str().unwrap()]["identity"] =
        serde_json::to_value(FileIdentity::at(&real).unwrap()).unwrap();
    let vouch = || project.write(memory, &kept.to_string());
    vouch();
    assert!(!lint("").contains("SHA-256"), "the memory is not used at all");
    assert!(lint("true").contains("has SHA-256"), "CI trusts the memory");
    vouch();
    says(&mut doctor(&project), "fixtures", "has SHA-256");
    vouch();
    project.says(1, &["--check"], 1, &["has SHA-256", "0 current, 1 not"]);
}

/// Without `harness = false`, `cargo test` prints `running 0 tests` and passes.
#[test]
fn a_suite_that_cargo_would_not_run_is_wrong() {
    let project = Project::new();
    let lint = |words: &str| {
        let (code, said) = told(project.command(&["lint"]).output().unwrap());
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&format!("error: {words}")), "lint does not say `{words}`:\n{said}");
    };
    lint("Cargo cannot tell whether there is a test target `parity`: error: could not find `Cargo.toml`");

    let package = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    let workspace = "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n";
    project.write("Cargo.toml", workspace);
    project.write("crates/model/Cargo.toml", package);
    project.write("crates/model/src/lib.rs", "");
    lint("no package of the workspace has a test target `parity`");
    // Cargo finds the file by itself, which is how the two lines are forgotten.
    project.write("crates/model/tests/parity.rs", "fn main() {}\n");
    lint("test target `parity` of `");
    says(&mut doctor(&project), "suite", "is without `harness = false`: libtest finds no test in it");
    let (_, said) = told(project.command(&["lint"]).output().unwrap());
    let next = "add the lines `[[test]]`, `name = \"parity\"` and `harness = false` to it";
    assert!(said.contains(next), "{said}");
    let listed = format!("{package}autotests = false\n\n[[test]]\nname = \"parity\"\n");
    project.write("crates/model/Cargo.toml", &listed);
    lint("test target `parity` of `");
    let (_, said) = told(project.command(&["lint"]).output().unwrap());
    assert!(said.contains("add the line `harness = false` to its `[[test]]` named `parity`"), "{said}");
    project.write("crates/model/Cargo.toml", &format!("{listed}harness = false\ntest = false\n"));
    lint("test target `parity` of `");
    project.write("crates/model/Cargo.toml", &format!("{package}autotests = false\n"));
    lint("no package of the workspace has a test target `parity`");

    project.write("crates/model/Cargo.toml", &format!("{listed}harness = false\n"));
    says(&mut doctor(&project), "suite", "ok: test target `parity`, with `harness = false`");
    let (_, said) = told(project.command(&["lint"]).output().unwrap());
    assert!(!said.contains("test target"), "{said}");
}

#[test]
fn what_is_wrong_with_the_machine_makes_it_exit_with_1() {
    let project = Project::new();
    project.says(1, &["--yes"], 0, &[]);
    // There is no Cargo.lock here, so nothing says which MLX is needed.
    let (code, found) = checks(&mut doctor(&project), "MLX");
    assert_eq!(code, 1);
    assert!(found[0].starts_with("wrong: "), "{found:?}");
    says(
        doctor(&project).env("PARITY_PYTHON", "/nowhere/python"),
        "Python",
        "wrong: cannot run `/nowhere/python`",
    );
    project.write("Cargo.toml", "[workspace.package]\nrust-version = \"999.1\"\n");
    says(&mut doctor(&project), "Rust", "but 999.1 or newer is needed");
    says(
        doctor(&project).env("MLX_ENABLE_TF32", "1"),
        "MLX_ENABLE_TF32",
        "warn: is `1`: changes how MLX computes",
    );
    says(
        doctor(&project).env("PARITY_LEVL", "2"),
        "PARITY_LEVL",
        "nothing reads it, did you mean `PARITY_LEVEL`?",
    );
    says(doctor(&project).env("PARITY_SIZE_LIMIT", "1 byte"), "size", "wrong: PARITY_SIZE_LIMIT is `1 byte`");
    says(doctor(&project).env("PARITY_SIZE_LIMIT", "1"), "size", "above the limit of 1 bytes");
}

/// A package beside a script, or on PYTHONPATH, is imported instead of the one that is installed.
#[test]
fn a_package_that_is_shadowed_is_told() {
    let project = Project::new();
    let site = "site/numpy-9.9.9.dist-info";
    project.write(&format!("{site}/METADATA"), "Metadata-Version: 2.1\nName: numpy\nVersion: 9.9.9\n");
    project.write(&format!("{site}/RECORD"), "numpy/__init__.py,,\n");
    project.write(&format!("{site}/top_level.txt"), "numpy\n");
    project.write("site/numpy/__init__.py", "raise SystemExit('it was imported')\n");
    let with_site = |paths: &[&str]| {
        let mut command = doctor(&project);
        let paths = paths.iter().map(|path| project.path(path));
        command.env("PYTHONPATH", std::env::join_paths(paths).unwrap());
        command
    };
    says(&mut with_site(&["site"]), "references: numpy", "ok: 9.9.9, from `");
    says(&mut with_site(&["site"]), "references: safetensors", "wrong: cannot be imported");
    project.write("other/numpy.py", "");
    says(&mut with_site(&["other", "site"]), "references: numpy", "wrong: 9.9.9 is installed in `");
    project.write("numpy.py", "");
    says(&mut with_site(&["site"]), "references: numpy", "but imported from `");
    fs::remove_file(project.path("numpy.py")).unwrap();
}

#[test]
fn people_get_a_line_a_check() {
    let project = Project::new();
    let output = project.command(&["doctor"]).output();
    let (code, said) = told(output.unwrap());
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("\nwrong  fixtures ")
            && said.contains("  to do: run `cargo xtask regenerate-fixtures`\n"),
        "{said}"
    );
    assert!(said.lines().last().unwrap().ends_with(" wrong"), "{said}");
}
