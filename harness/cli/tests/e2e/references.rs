//! The Python environments of references. A script stands in for uv and logs its arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::command::{ended, prints};
use crate::shell_project::{Project, SCRIPT};

const PYPROJECT: &str = "[dependency-groups]\nnumpy = [\"numpy==2.4.6\"]\ntorch = [\"torch==2.15.0\"]\n";
const LOCK: &str = r#"
version = 1
[[package]]
name = "numpy"
version = "2.4.6"
wheels = [
    { url = "https://nowhere.invalid/numpy-2.4.6-cp27-cp27m-win32.whl", hash = "sha256:00", size = 99000000000 },
    { url = "https://nowhere.invalid/numpy-2.4.6-py3-none-any.whl", hash = "sha256:00", size = 17000000 },
]
[[package]]
name = "torch"
version = "2.15.0"
wheels = [{ url = "https://nowhere.invalid/torch-2.15.0-py3-none-any.whl", hash = "sha256:00", size = 2500000000 }]
"#;
/// Prints what uv prints, and appends its arguments to `calls`.
const UV: &str = r#"#!/bin/sh
home=$(dirname "$0")
if [ "$1" = --version ]; then echo "uv 0.13.7 (test)"; exit 0; fi
echo "$*" >> "$home/../calls"
case "$*" in
  *"python find"*) command -v python3; exit 0 ;;
  *--dry-run*)
    case "$*" in *"--group torch"*) package=torch==2.15.0 ;; *) package=numpy==2.4.6 ;; esac
    printf 'Would download 1 package\nWould install 1 package\n + %s\n' $package >&2; exit 0 ;;
esac
if [ -e "$home/../broken" ]; then echo "error: no route to host" >&2; exit 2; fi
mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"
cat > "$UV_PROJECT_ENVIRONMENT/bin/python" <<'END'
#!/bin/sh
if [ "$1" = -I ]; then cat "$(dirname "$0")/../installed.json"; exit 0; fi
echo "$PYTHONPATH" > ran
exec /bin/sh "$@"
END
case "$*" in *"--group torch"*) package='["torch", "2.15.0"]' ;; *) package='["numpy", "2.4.6"]' ;; esac
if [ -e "$home/../stubborn" ]; then package='["numpy", "2.3.5"]'; fi
echo "[$package]" > "$UV_PROJECT_ENVIRONMENT/installed.json"
chmod +x "$UV_PROJECT_ENVIRONMENT/bin/python"
"#;

/// A project that locks the environments of its references; `line` in the script selects one.
fn project(line: &str) -> Project {
    let project = Project::new();
    project.write("exporter/references/pyproject.toml", PYPROJECT);
    project.write("exporter/references/uv.lock", LOCK);
    project.write("bin/uv", UV);
    fs::set_permissions(project.path("bin/uv"), fs::Permissions::from_mode(0o755)).unwrap();
    project.script(&format!("{line}{SCRIPT}"));
    project
}

fn run(project: &Project, arguments: &[&str]) -> (i32, String) {
    let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = project.command(&["regenerate-fixtures"]);
    command.args(arguments).env("PATH", path).env("PYTHONPATH", "/elsewhere").env_remove("PARITY_PYTHON");
    ended(command.output().unwrap())
}

/// Runs the command, and expects the exit code and these words.
#[track_caller]
fn runs(project: &Project, arguments: &[&str], code: i32, words: &[&str]) {
    let (found, text) = run(project, arguments);
    assert_eq!(found, code, "{text}");
    prints(&text, words);
}

fn calls(project: &Project) -> Vec<String> {
    let text = fs::read_to_string(project.path("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_environment_is_made_from_the_lock_for_the_group_that_a_script_names() {
    let project = project("# parity: environment = \"numpy\"\n");
    runs(
        &project,
        &["--yes"],
        0,
        &[
            "references in `numpy` need a download of 1 package, 17 MB",
            "making the environment `numpy` for references with uv 0.13.7",
            "1 new, 0 replaced",
        ],
    );
    let made = calls(&project);
    let sync = made.last().unwrap();
    for word in [
        "--project ",
        "exporter/references sync --frozen",
        "--group numpy",
        "--no-install-package parity-export",
    ] {
        assert!(sync.contains(word), "{sync}");
    }
    assert!(!made.concat().contains("torch"), "{made:?}");
    assert!(project.path(".parity/references/groups/numpy/bin/python").exists());
    // Only the environment and the project's own exporter can be imported from.
    assert_eq!(
        fs::read_to_string(project.path("ran")).unwrap().trim(),
        project.path("exporter").canonicalize().unwrap().to_str().unwrap()
    );

    runs(&project, &["--yes", "--force"], 0, &["reproduced byte for byte"]);
    assert_eq!(calls(&project), made, "uv was asked again though nothing had changed");
    project.write("exporter/references/uv.lock", &format!("{LOCK}# newer\n"));
    runs(&project, &["--yes", "--force"], 0, &["making the environment `numpy`"]);
    assert!(calls(&project).len() > made.len());
}

/// Somebody installed another version into an environment that was made from the lock.
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn an_environment_that_is_not_what_its_lock_says_makes_no_set() {
    let project = project("# parity: environment = \"numpy\"\n");
    runs(&project, &["--yes"], 0, &["1 new, 0 replaced"]);
    assert_eq!(project.mark(), Some(1));
    let installed = ".parity/references/groups/numpy/installed.json";
    let doctor = || {
        let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
        ended(project.command(&["doctor"]).env("PATH", path).current_dir(project.path("")).output().unwrap())
            .1
    };
    assert!(!doctor().contains("does not match its lock"));
    for (found, words) in [
        (r#"[["numpy", "2.3.5"]]"#, "numpy is 2.3.5, but the lock has 2.4.6"),
        (r#"[["numpy", "2.4.6"], ["jax", "1.0"]]"#, "jax 1.0 is not in the lock"),
        ("[]", "numpy 2.4.6 is missing"),
        ("rubbish", "does not work"),
    ] {
        project.write(installed, found);
        let text = doctor();
        assert!(
            text.lines().any(|line| line.starts_with("wrong  references numpy") && line.contains(words)),
            "{text}"
        );
        // The command makes the environment from the lock again before it runs the script.
        let before = calls(&project).len();
        runs(&project, &["--yes", "--force"], 0, &[words, "rebuilding it", "reproduced byte for byte"]);
        assert!(calls(&project).len() > before);
        assert!(fs::read_to_string(project.path(installed)).unwrap().contains("2.4.6"));
    }
    // If that does not help, the command refuses, and the set stays.
    project.write("stubborn", "");
    project.write(installed, r#"[["numpy", "2.3.5"]]"#);
    let words = [
        "groups/numpy` does not match its lock: numpy is 2.3.5, but the lock has 2.4.6",
        "remove `.parity/references`",
        "1 failed",
    ];
    project.script(&format!("# parity: environment = \"numpy\"\n# another\n{SCRIPT}"));
    for arguments in [&["--yes"][..], &["--yes", "--force"], &["--yes", "--force"]] {
        runs(&project, arguments, 1, &words);
        assert_eq!(project.mark(), Some(1));
    }
    fs::remove_file(project.path("stubborn")).unwrap();
    runs(&project, &["--yes"], 0, &["1 replaced"]);
    // A script that changes its own environment is noticed afterwards.
    let change = format!("echo '[[\"numpy\", \"2.3.5\"]]' > {installed}\n");
    project.script(&format!("# parity: environment = \"numpy\"\n{change}{SCRIPT}"));
    runs(&project, &["--yes"], 1, &words[..1]);
    // So is a manifest that names other versions.
    project.script(&format!("# parity: environment = \"numpy\"\n{SCRIPT}"));
    let manifest = project.path("made/1/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let other = text.replacen('{', r#"{"provenance": {"packages": {"numpy": "2.3.5", "own": "1"}}, "#, 1);
    fs::write(manifest, other).unwrap();
    runs(&project, &["--yes", "--force"], 1, &["numpy is 2.3.5, but the lock has 2.4.6"]);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_large_download_is_asked_about() {
    let project = project("# parity: environment = \"torch\"\n");
    runs(
        &project,
        &[],
        1,
        &[
            "references need a download of 1 package, 2.5 GB, but there is no terminal to ask on",
            "to do: pass `--yes` to fetch them",
        ],
    );
    assert!(!calls(&project).iter().any(|call| !call.contains("--dry-run") && call.contains("sync")));
    runs(
        &project,
        &["--yes"],
        0,
        &["references in `torch` need a download of 1 package, 2.5 GB", "1 new, 0 replaced"],
    );
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_script_that_names_none_runs_with_the_plain_environment() {
    let project = project("");
    runs(&project, &["--yes"], 0, &["references need a download of 1 package, 17 MB"]);
    assert!(!calls(&project).concat().contains("--group"));
    assert!(project.path(".parity/references/plain/bin/python").exists());
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn mistakes_of_a_script_or_of_uv_are_reported() {
    let project = project("# parity: environment = \"jax\"\n");
    runs(&project, &["--yes"], 1, &["asks for the environment `jax`, but the groups are `numpy`, `torch`"]);
    project.script(&format!("# parity: enviroment = \"numpy\"\n{SCRIPT}"));
    runs(
        &project,
        &["--yes"],
        1,
        &["reference.sh`, line 1: ", "unknown field `enviroment`", "write it as `# parity: "],
    );
    project.script(&format!("# parity: environment = \"numpy\"\n{SCRIPT}"));
    project.write("broken", "");
    runs(
        &project,
        &["--yes"],
        1,
        &["uv could not make the environment: error: no route to host", "network, proxy"],
    );
    // An environment that was not finished does not count as made.
    fs::remove_file(project.path("broken")).unwrap();
    runs(&project, &["--yes"], 0, &["making the environment `numpy`", "1 new, 0 replaced"]);
    fs::remove_file(project.path("exporter/references/uv.lock")).unwrap();
    runs(
        &project,
        &["--yes", "--force"],
        1,
        &[
            "has a `pyproject.toml`, but no `uv.lock`",
            "run `cargo parity init`, which makes the lock with uv",
        ],
    );
}
