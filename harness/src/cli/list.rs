//! `cargo xtask list`: what would run.

use std::process::ExitCode;

use super::{CliError, Project, say};
use crate::printable::json;
use crate::spec::{Specs, list};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask list                    specs and their checkpoints as a tree\n  \
    cargo xtask list --names mlp        names of checkpoints, only those with `mlp` in them\n  \
    cargo xtask list --json             all that the specs say, loops expanded\n\n\
    Exits with 1 when a spec is broken or none is found, 0 otherwise.")]
pub(crate) struct Arguments {
    /// One `spec::checkpoint` a line
    #[arg(long, conflicts_with = "json")]
    names: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Only checkpoints with this text in `spec::checkpoint`; broken specs stay
    filter: Option<String>,
}

/// Writes the list to stdout; what is wrong goes to stderr as well, unless the list shows it.
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
            "note: {} cannot be used; `cargo xtask lint` shows why",
            list::counted(specs.broken.len(), "file")
        );
    }
    let right = written.is_ok() && !none && specs.broken.is_empty() && specs.unreadable.is_none();
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Keeps the checkpoints whose trial's name has `filter` in it, and specs that still have any.
fn select(specs: &mut Specs, filter: &str) {
    for spec in &mut specs.specs {
        let id = &spec.id;
        spec.checkpoints.retain(|checkpoint| format!("{id}::{}", checkpoint.name).contains(filter));
    }
    specs.specs.retain(|spec| !spec.checkpoints.is_empty());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_filter_is_part_of_a_trials_name() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spec/root");
        let names = |filter: &str| {
            let mut specs = Specs::load(&root);
            select(&mut specs, filter);
            let mut text = String::new();
            list::names(&mut text, &specs).unwrap();
            text
        };
        assert_eq!(names("block::norm"), "vision/block::norm1\n");
        assert_eq!(names("dit/full::step.1"), "dit/full::step.1.0\ndit/full::step.1.3\n");
        assert_eq!(names("nothing"), "");
    }
}
