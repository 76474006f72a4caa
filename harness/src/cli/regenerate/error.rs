//! Why a set was not made anew. The old one is then still there.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::cli::references::ReferencesError;
use crate::golden::FixtureError;
use crate::size::{self, SizeError};

#[derive(Debug, Error)]
pub(crate) enum RegenerateError {
    #[error("there is no spec `{id}`{near}")]
    NoSpec { id: String, near: String },
    #[error("{count} cannot be read, so what they need is not known")]
    BrokenSpecs { count: String },
    #[error("no spec was found in `{}`", root.display())]
    NoSpecs { root: PathBuf },
    #[error("spec `{id}` has no `reference`, so nothing can make its fixtures")]
    NoReference { id: String },
    #[error(
        "specs `{first}` and `{second}` share the fixtures `{set}`, but have different `reference` blocks"
    )]
    TwoReferences { set: String, first: String, second: String },
    #[error(transparent)]
    References(#[from] ReferencesError),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error("fixtures and runs take {}, above the limit of {}", size::words(*found), size::words(*limit))]
    TooLarge { found: u64, limit: u64 },
    #[error("`{script}` failed: {said}")]
    Script { script: String, said: String, status: Option<i32>, withheld: Option<String> },
    #[error("`{script}` ran for more than {after}, and was ended")]
    TimedOut { script: String, after: String },
    #[error("the lint refuses what `{script}` made:\n{findings}")]
    Refused { script: String, findings: String },
    #[error("`{script}` does not give the same bytes twice: {difference}")]
    NotRepeatable { script: String, difference: String },
    #[error("what `{script}` made cannot be used: {problem}")]
    Unusable { script: String, problem: String },
    #[error("`{}` is a symbolic link, and nothing is replaced through one", path.display())]
    Link { path: PathBuf },
    #[error("fixtures `{set}` lead out of `{}`", root.display())]
    Outside { set: String, root: PathBuf },
    #[error("`{}` is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("`{set}` holds what is not part of the set and would be lost: {names}")]
    Foreign { set: String, names: String },
    #[error("`{}` is another set inside `{set}` and would be lost", path.display())]
    Nested { set: String, path: PathBuf },
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{count} would change, and there is no terminal to ask on; nothing was replaced")]
    NotAsked { count: String },
}

impl RegenerateError {
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn next(&self) -> Option<String> {
        Some(match self {
            Self::References(error) => return error.next(),
            Self::NoSpec { .. } | Self::NoSpecs { .. } => "see the specs with `cargo xtask list`".into(),
            Self::BrokenSpecs { .. } => "see them with `cargo xtask lint`, or name the specs that you mean".into(),
            Self::NoReference { .. } => "name the script that exports its goldens in `reference.script`".into(),
            Self::TwoReferences { .. } => "give both the same `reference`, or one of them its own `fixtures`".into(),
            Self::Size(_) => return None,
            Self::TooLarge { .. } => {
                "remove runs in target/parity/runs or fixtures that nobody needs, or set PARITY_SIZE_LIMIT".into()
            }
            Self::Script { said, .. } if said.contains("No module named") => {
                "say which environment it needs with a line `# parity: environment = \"torch\"` in the script, or \
                 install the module where PARITY_PYTHON finds it"
                    .into()
            }
            Self::Script { withheld: Some(name), .. } => format!(
                "scripts see only a few of your environment variables; if this one needs `{name}`, say \
                 `reference: {{env: [{name}]}}` in the spec"
            ),
            Self::TimedOut { .. } => {
                "mend the script, or give it more time with `timeout` in the spec's `reference`, e.g. `2h`".into()
            }
            Self::Script { status: Some(2), .. } => {
                "see that the script ends in `parity_export.main(reference)`".into()
            }
            Self::Script { .. } | Self::Unusable { .. } => {
                "mend the script, then run the command again; what was there is untouched".into()
            }
            Self::Refused { .. } => {
                "mend the script, or accept a finding with its reason: `rec.accept(kind, name, why=…)`".into()
            }
            Self::NotRepeatable { .. } => {
                "look for draws without a seed, threads, sets that are iterated, or times in the script".into()
            }
            Self::Link { .. } => "put a real folder there; PARITY_FIXTURES names another root".into(),
            Self::Outside { .. } => "name a folder below the fixture root in the spec's `fixtures`".into(),
            Self::NotAFolder { .. } | Self::Foreign { .. } | Self::Nested { .. } => {
                "move it away first; nothing was changed".into()
            }
            Self::Fixture(_) => return None,
            Self::Read { source, .. } | Self::Write { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    "free some space, then run the command again".into()
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "mend the permissions, then run the command again".into()
                }
                io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory | io::ErrorKind::NotFound => {
                    "put a regular file there, or a link to one".into()
                }
                _ => "see that nothing else works in that folder, then run the command again".into(),
            },
            Self::NotAsked { .. } => "say `--yes` to replace them".into(),
        })
    }
}
