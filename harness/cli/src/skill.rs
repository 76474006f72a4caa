//! The command `skill`: a short text that teaches a coding agent how to work with mlx-parity.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thiserror::Error;

use super::{CliError, Project, say};
use crate::error::CommandError;
use mlx_parity_core::files::atomic::write_atomically;
use mlx_parity_core::files::regular::{TEXT, read_text};
use mlx_parity_core::text::program::{program, with_program};

/// The text. It names `cargo xtask`, which is replaced by the program that runs.
const SKILL: &str = include_str!("skill/SKILL.md");
/// The file that an agent reads.
const FILE: &str = "SKILL.md";
/// The line by which our own file is known.
const NAME: &str = "name: mlx-parity";

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask skill                                        Print the text\n  \
    cargo xtask skill --write .claude/skills/mlx-parity      Write SKILL.md where an agent finds it\n\n\
    An earlier SKILL.md of mlx-parity is replaced. Any other file is kept, and the command fails.")]
pub(crate) struct Arguments {
    /// Write SKILL.md into this folder, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

/// Why SKILL.md cannot be written.
#[derive(Debug, Error)]
pub(crate) enum SkillError {
    #[error("cannot make the folder `{}`", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("cannot read `{}`", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write `{}`", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("`{}` exists and is no skill of mlx-parity: it has no line `{NAME}`", file.display())]
    Other { file: PathBuf },
}

impl CommandError for SkillError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Other { .. } => Some("name another folder, such as `.claude/skills/mlx-parity`".into()),
            _ => None,
        }
    }
}

pub(crate) fn run(_: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    let text = with_program(SKILL, program());
    match &arguments.write {
        None => say(&text),
        Some(folder) => {
            let file = write(folder, &text)?;
            println!("wrote {}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, text: &str) -> Result<PathBuf, SkillError> {
    fs::create_dir_all(folder).map_err(|source| SkillError::Folder { folder: folder.to_owned(), source })?;
    let file = folder.join(FILE);
    match read_text(&file, TEXT) {
        Ok(old) if !old.lines().any(|line| line == NAME) => return Err(SkillError::Other { file }),
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(SkillError::Read { file, source });
        }
        _ => {}
    }
    match write_atomically(&file, |out| out.write_all(text.as_bytes())) {
        Ok(()) => Ok(file),
        Err(source) => Err(SkillError::Write { file, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        let file = write(&below, SKILL).unwrap();
        assert_eq!(write(&below, SKILL).unwrap(), file);
        fs::write(&file, "name: other\n").unwrap();
        assert!(matches!(write(&below, SKILL), Err(SkillError::Other { .. })));
        assert_eq!(fs::read_to_string(&file).unwrap(), "name: other\n");
    }
}
