//! The command `list`: which specs and checkpoints a run would check.

use std::process::ExitCode;

use super::{CliError, Project, say};
use mlx_parity_core::spec::{Specs, list};
use mlx_parity_core::text::printable::json;
use mlx_parity_core::text::program::program;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask list                    Show specs and their checkpoints as a tree\n  \
    cargo xtask list --names mlp        Print the names of checkpoints that contain `mlp`\n  \
    cargo xtask list --json             Print everything in the specs, with loops expanded\n\n\
    Exits with 1 when a spec is broken or no spec is found, else with 0.")]
pub(crate) struct Arguments {
    /// Print one `spec::checkpoint` per line
    #[arg(long, conflicts_with = "json")]
    names: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Show only checkpoints whose `spec::checkpoint` contains this text, and all broken specs
    filter: Option<String>,
}

/// Writes the list to stdout, and errors that the list does not show to stderr.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let mut specs = Specs::load(&project.spec_root());
    let none = specs.specs.is_empty() && specs.broken.is_empty();
    if let Some(filter) = &arguments.filter {
        select(&mut specs, filter);
    }
    let mut text = String::new();
    let written = match (arguments.names, arguments.json) {
        (true, _) => list::names(&mut text, &specs),
        (_, true) => list::json(&mut text, &specs),
        _ => list::tree(&mut text, &specs),
    };
    say(&if arguments.json { json(&text) } else { text });
    if let Some(error) = &specs.unreadable {
        eprintln!("{error}");
    } else if none {
        eprintln!(
            "error: no spec in `{}`: expected at least one `<model>/<component>.yaml`",
            project.spec_root().display()
        );
    } else if !specs.broken.is_empty() {
        eprintln!(
            "note: {} cannot be used; `{} lint` shows why",
            list::counted(specs.broken.len(), "file"),
            program()
        );
    }
    let right = written.is_ok() && !none && specs.broken.is_empty() && specs.unreadable.is_none();
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Keeps the checkpoints whose trial name contains `filter`, and the specs that still have a checkpoint.
fn select(specs: &mut Specs, filter: &str) {
    for spec in &mut specs.specs {
        let id = &spec.id;
        spec.checkpoints.retain(|checkpoint| format!("{id}::{}", checkpoint.name).contains(filter));
    }
    specs.specs.retain(|spec| !spec.checkpoints.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_part_of_a_trial_name() {
        let root = tempfile::tempdir().unwrap();
        for (id, checkpoints) in [
            (
                "vision/block",
                "[{name: norm1, shape: [2]}, {name: norm2, shape: [2]}, {name: out, shape: [2]}]",
            ),
            ("dit/full", "[{name: \"step.{t}.{i}\", for: {t: 0..2, i: [0, 3]}, shape: [2]}]"),
        ] {
            let path = root.path().join(format!("{id}.yaml"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("version: 1\nport: p\ncheckpoints: {checkpoints}\n")).unwrap();
        }
        let names = |filter: &str| {
            let mut specs = Specs::load(root.path());
            assert!(specs.broken.is_empty(), "{:?}", specs.broken);
            select(&mut specs, filter);
            let mut text = String::new();
            list::names(&mut text, &specs).unwrap();
            text
        };
        assert_eq!(names("block::norm"), "vision/block::norm1\nvision/block::norm2\n");
        assert_eq!(names("dit/full::step.1"), "dit/full::step.1.0\ndit/full::step.1.3\n");
        assert_eq!(names("nothing"), "");
    }
}
