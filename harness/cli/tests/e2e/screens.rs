//! What people read, to the letter: sets that are made, replaced, checked and compared.
//!
//! `<project>` stands for the project's folder and `#` for times and versions.

use crate::command::ended;
use crate::shell_project::{Project, SCRIPT};

/// The exit code and the text, without what differs between machines.
fn screen(project: &Project, mark: u8, arguments: &[&str]) -> String {
    let (code, text) = ended(project.command(arguments).env("MARK", mark.to_string()).output().unwrap());
    let root = project.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let lines = text.replace(root, "<project>");
    let lines = lines.lines().map(|line| {
        // The last column of a line about a step is its time.
        let time = line.strip_suffix(" s").and_then(|line| line.rsplit_once(' '));
        match time.filter(|(_, time)| time.parse::<f64>().is_ok()) {
            Some((step, _)) => format!("{} # s", step.trim_end()),
            None => line.trim_end().to_owned(),
        }
    });
    format!("exit code {code}\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_set_from_its_first_export_to_its_removal() {
    let project = Project::new();
    let screen = |mark, arguments: &[&str]| screen(&project, mark, arguments);
    insta::assert_snapshot!("set_missing", screen(1, &["regenerate-fixtures", "--check"]));
    insta::assert_snapshot!("set_new", screen(1, &["regenerate-fixtures", "--yes"]));
    insta::assert_snapshot!("set_current", screen(1, &["regenerate-fixtures", "--check"]));
    project.nudge(1, 0.25);
    insta::assert_snapshot!("set_asked", screen(1, &["regenerate-fixtures", "--force"]));
    insta::assert_snapshot!("set_replaced", screen(1, &["regenerate-fixtures", "--force", "--yes"]));
    project.write("reference.sh", &format!("{SCRIPT}# newer\n"));
    insta::assert_snapshot!("set_stale", screen(1, &["regenerate-fixtures", "--check"]));
    project.script("echo cannot import torch >&2; exit 3\n");
    insta::assert_snapshot!("script_failed", screen(1, &["regenerate-fixtures", "--yes"]));
}

#[test]
fn two_dumps() {
    let project = Project::new();
    project.nudge(2, 0.5);
    let screen = |arguments: &[&str]| screen(&project, 1, arguments);
    let (one, two) = ("made/1/golden-b.npy", "made/2/golden-a.npy");
    insta::assert_snapshot!("diff_equal", screen(&["diff", one, one]));
    insta::assert_snapshot!("diff_different", screen(&["diff", one, two]));
    insta::assert_snapshot!("diff_no_file", screen(&["diff", one, "made/3/golden-a.npy"]));
}

#[test]
fn findings_of_lint() {
    let project = Project::new();
    insta::assert_snapshot!("lint_no_fixtures", screen(&project, 1, &["lint"]));
    let spec = "parity-specs/model/part.yaml";
    let text = std::fs::read_to_string(project.path(spec)).unwrap();
    project.write(
        spec,
        &text.replace("dtype: float32, policy: fp32}\n  -", "dtype: flaot32, policy: fp23}\n  -"),
    );
    insta::assert_snapshot!("lint_misspelt", screen(&project, 1, &["lint"]));
}
