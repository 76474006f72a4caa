//! `cargo xtask doctor` in projects that lack something.

use std::fs;
use std::process::Command;

use mlx_parity_core::golden::FileIdentity;
use serde_json::Value;

use crate::command::ended;
use crate::shell_project::Project;

/// The command without the variables that it warns about. The project has a stand-in for Python, which starts faster.
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
    command
}

/// The exit code, and the checks of one subject as `state: found`.
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
fn prints(command: &mut Command, subject: &str, words: &str) {
    let (_, found) = checks(command, subject);
    assert!(found.iter().any(|line| line.contains(words)), "`{subject}` does not print `{words}`: {found:?}");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn fixtures_and_leftovers_are_looked_at() {
    let project = Project::new();
    prints(
        &mut doctor(&project),
        "fixtures",
        "wrong: 1 of 1 set not current; `model/part`: no fixtures exist at",
    );
    project.prints(1, &["--yes"], 0, &[]);
    prints(&mut doctor(&project), "fixtures", "ok: 1 set current, all checksums match");
    project.write("fixtures/.regenerating/run-x/half", "12345");
    prints(&mut doctor(&project), "leftovers", "warn: 5 bytes left by an interrupted regenerate-fixtures");
    project.write("fixtures/model/part/golden-a.npy", "rubbish");
    prints(&mut doctor(&project), "fixtures", "wrong: 1 of 1 set not current; `model/part`: fixture file");
    project.write("parity-specs/model/part.yaml", "version: 1\n");
    prints(&mut doctor(&project), "fixtures", "wrong: 1 spec cannot be read");
}

/// A remembered checksum counts only while the file is the same. `doctor`, `--check` and CI hash every file.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_golden_that_was_replaced_with_its_old_time_is_found() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    let (golden, memory) = (project.path("fixtures/model/part/golden-a.npy"), "target/parity/checksums.json");
    let lint = |ci: &str| ended(project.command(&["lint"]).env("CI", ci).output().unwrap()).1;
    let is_remembered =
        || fs::read_to_string(project.path(memory)).is_ok_and(|text| text.contains("golden-a"));
    // A file that changed within the last two seconds is not remembered.
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

    // The three do not read the memory, even if it has the checksum of the other file.
    let real = golden.canonicalize().unwrap();
    kept["files"][real.to_str().unwrap()]["identity"] =
        serde_json::to_value(FileIdentity::at(&real).unwrap()).unwrap();
    let vouch = || project.write(memory, &kept.to_string());
    vouch();
    assert!(!lint("").contains("SHA-256"), "the memory is not used at all");
    assert!(lint("true").contains("has SHA-256"), "CI trusts the memory");
    vouch();
    prints(&mut doctor(&project), "fixtures", "has SHA-256");
    vouch();
    project.prints(1, &["--check"], 1, &["has SHA-256", "0 current, 1 not"]);
}

/// Without `harness = false`, `cargo test` prints `running 0 tests` and passes.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_suite_that_cargo_would_not_run_is_wrong() {
    let project = Project::new();
    let lint = |words: &str| {
        let (code, text) = ended(project.command(&["lint"]).output().unwrap());
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&format!("error: {words}")), "lint does not print `{words}`:\n{text}");
    };
    project.write("Cargo.toml", "[workspace]\nmembers = [\"missing\"]\n");
    lint(
        "the test target `parity` cannot be looked for: Cargo cannot list the packages: error: failed to load manifest",
    );

    let package = "[package]\nname = \"p\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    let workspace = "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"3\"\n";
    project.write("Cargo.toml", workspace);
    project.write("crates/model/Cargo.toml", package);
    project.write("crates/model/src/lib.rs", "");
    lint("no package of the workspace has a test target `parity`");
    // Cargo finds the file without these two lines, so it is easy to forget them.
    project.write("crates/model/tests/parity.rs", "fn main() {}\n");
    lint("test target `parity` of `");
    prints(&mut doctor(&project), "suite", "has no `harness = false`: libtest finds no test in it");
    let (_, text) = ended(project.command(&["lint"]).output().unwrap());
    let next = "add the lines `[[test]]`, `name = \"parity\"` and `harness = false` to it";
    assert!(text.contains(next), "{text}");
    let listed = format!("{package}autotests = false\n\n[[test]]\nname = \"parity\"\n");
    project.write("crates/model/Cargo.toml", &listed);
    lint("test target `parity` of `");
    let (_, text) = ended(project.command(&["lint"]).output().unwrap());
    assert!(text.contains("add the line `harness = false` to its `[[test]]` named `parity`"), "{text}");
    project.write("crates/model/Cargo.toml", &format!("{listed}harness = false\ntest = false\n"));
    lint("test target `parity` of `");
    project.write("crates/model/Cargo.toml", &format!("{package}autotests = false\n"));
    lint("no package of the workspace has a test target `parity`");

    project.write("crates/model/Cargo.toml", &format!("{listed}harness = false\n"));
    prints(&mut doctor(&project), "suite", "ok: test target `parity`, with `harness = false`");
    let (_, text) = ended(project.command(&["lint"]).output().unwrap());
    assert!(!text.contains("test target"), "{text}");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn what_is_wrong_with_the_machine_makes_it_exit_with_1() {
    let project = Project::new();
    project.prints(1, &["--yes"], 0, &[]);
    // Without a Cargo.lock, no version of MLX is known.
    let (code, found) = checks(&mut doctor(&project), "MLX");
    assert_eq!(code, 1);
    assert!(found[0].starts_with("wrong: "), "{found:?}");
    prints(
        doctor(&project).env("PARITY_PYTHON", "/nowhere/python"),
        "Python",
        "wrong: cannot run `/nowhere/python`",
    );
    project.write("Cargo.toml", "[workspace.package]\nrust-version = \"999.1\"\n");
    prints(&mut doctor(&project), "Rust", "but 999.1 or newer is needed");
    prints(
        doctor(&project).env("MLX_ENABLE_TF32", "1"),
        "MLX_ENABLE_TF32",
        "warn: is `1`: changes how MLX computes",
    );
    prints(
        doctor(&project).env("PARITY_LEVL", "2"),
        "PARITY_LEVL",
        "nothing reads it, did you mean `PARITY_LEVEL`?",
    );
    prints(
        doctor(&project).env("PARITY_SIZE_LIMIT", "1 byte"),
        "size",
        "wrong: PARITY_SIZE_LIMIT is `1 byte`",
    );
    prints(doctor(&project).env("PARITY_SIZE_LIMIT", "1"), "size", "above the limit of 1 bytes");
}

/// Python imports a package beside the script, or on PYTHONPATH, before the installed one.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_package_that_is_shadowed_is_reported() {
    let project = Project::new();
    let site = "site/numpy-9.9.9.dist-info";
    project.write(&format!("{site}/METADATA"), "Metadata-Version: 2.1\nName: numpy\nVersion: 9.9.9\n");
    project.write(&format!("{site}/RECORD"), "numpy/__init__.py,,\n");
    project.write(&format!("{site}/top_level.txt"), "numpy\n");
    project.write("site/numpy/__init__.py", "raise SystemExit('it was imported')\n");
    let with_site = |paths: &[&str]| {
        let mut command = doctor(&project);
        command.env_remove("PARITY_PYTHON");
        let paths = paths.iter().map(|path| project.path(path));
        command.env("PYTHONPATH", std::env::join_paths(paths).unwrap());
        command
    };
    prints(&mut with_site(&["site"]), "references: numpy", "ok: 9.9.9, from `");
    prints(&mut with_site(&["site"]), "references: safetensors", "wrong: cannot be imported");
    project.write("other/numpy.py", "");
    prints(&mut with_site(&["other", "site"]), "references: numpy", "wrong: 9.9.9 is installed in `");
    project.write("numpy.py", "");
    prints(&mut with_site(&["site"]), "references: numpy", "but imported from `");
    fs::remove_file(project.path("numpy.py")).unwrap();
}

#[test]
fn people_get_one_line_per_check() {
    let project = Project::new();
    let output = project.command(&["doctor"]).output();
    let (code, text) = ended(output.unwrap());
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("\nwrong  fixtures ")
            && text.contains("  to do: run `cargo parity regenerate-fixtures`\n"),
        "{text}"
    );
    assert!(text.lines().last().unwrap().ends_with(" wrong"), "{text}");
}
