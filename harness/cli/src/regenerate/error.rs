//! Why a set was not regenerated. The old set then still exists.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::CommandError;
use crate::references::ReferencesError;
use mlx_parity_core::external::ExternalError;
use mlx_parity_core::files::size;
use mlx_parity_core::golden::FixtureError;
use mlx_parity_core::run_folder::Obstacle;
use mlx_parity_core::settings::SettingError;

#[derive(Debug, Error)]
pub(crate) enum RegenerateError {
    #[error("spec `{id}` does not exist{near}")]
    NoSpec { id: String, near: String },
    #[error("{count} cannot be read, so the fixtures that they need are unknown")]
    BrokenSpecs { count: String },
    #[error("no spec was found in `{}`", root.display())]
    NoSpecs { root: PathBuf },
    #[error("spec `{id}` has no `reference`, so nothing can make its fixtures")]
    NoReference { id: String },
    #[error(
        "specs `{first}` and `{second}` share the fixtures `{set}`, but have different `reference` blocks"
    )]
    TwoReferences { set: String, first: String, second: String },
    #[error("specs `{first}` and `{second}` share the fixtures `{set}`, but have different external weights")]
    TwoExternal { set: String, first: String, second: String },
    #[error("the external weights of `{set}` cannot be used")]
    External { set: String, source: Box<ExternalError> },
    #[error(transparent)]
    References(#[from] ReferencesError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("fixtures and runs take {}, above the limit of {}", size::words(*found), size::words(*limit))]
    TooLarge { found: u64, limit: u64 },
    #[error("`{script}` failed: {reason}")]
    Script { script: String, reason: String, status: Option<i32>, withheld: Option<String> },
    #[error("`{script}` ran longer than {after} and was stopped")]
    TimedOut { script: String, after: String },
    #[error("`{script}` needed more than {limit} of memory")]
    Memory { script: String, limit: String },
    #[error("`{script}` wrote no listing: {problem}")]
    NoListing { script: String, problem: String },
    #[error("the exporter's lint rejects the set that `{script}` made:\n{findings}")]
    Unaccepted { script: String, findings: String },
    #[error("two runs of `{script}` gave different bytes: {difference}")]
    NotRepeatable { script: String, difference: String },
    #[error("{}", _0.text)]
    Second(Obstacle),
    #[error("the references `{first}` and `{second}` disagree:\n{findings}")]
    Disagree { first: String, second: String, findings: String },
    #[error("the references `{first}` and `{second}` have no golden in common; `{second}` makes {made}")]
    NothingInCommon { first: String, second: String, made: String },
    #[error("`{second}` computes with {what}, so its goldens cannot be compared with those of `{first}`")]
    OtherInputs { first: String, second: String, what: String },
    #[error("the set that `{script}` made is unusable: {problem}")]
    Unusable { script: String, problem: String },
    #[error("`{}` is a symbolic link; fixtures are never replaced through a link", path.display())]
    Link { path: PathBuf },
    #[error("fixtures `{set}` are outside the fixture root `{}`", root.display())]
    Outside { set: String, root: PathBuf },
    #[error("`{}` is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("`{set}` contains files that are not part of the set and would be lost: {names}")]
    Foreign { set: String, names: String },
    #[error("`{}` is another set inside `{set}` and would be lost", path.display())]
    Nested { set: String, path: PathBuf },
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{count} would change, but there is no terminal to ask on; nothing was replaced")]
    NotAsked { count: String },
}

impl RegenerateError {
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }
}

impl CommandError for RegenerateError {
    fn next(&self) -> Option<String> {
        Some(match self {
            Self::References(error) => return error.next(),
            Self::NoSpec { .. } => "see the specs with `cargo xtask list`".into(),
            Self::NoSpecs { .. } => "write one with `cargo xtask new-spec <model>/<component> --from <reference.py>`".into(),
            Self::BrokenSpecs { .. } => "see what is wrong with `cargo xtask lint`, or name the specs to regenerate".into(),
            Self::NoReference { .. } => "name the script that exports its goldens in `reference.script`".into(),
            Self::TwoReferences { .. } => "give both the same `reference`, or one of them its own `fixtures`".into(),
            Self::TwoExternal { .. } => {
                "give both the same `external` and `sha256`, or one of them its own `fixtures`".into()
            }
            Self::External { .. } => return None,
            Self::Setting(_) => return None,
            Self::TooLarge { .. } => {
                "remove old runs with `cargo xtask clean`, remove fixtures, or raise PARITY_SIZE_LIMIT".into()
            }
            Self::Script { reason, .. } if reason.contains("No module named") => {
                "name the environment that it needs with a line `# parity: environment = \"torch\"` in the script \
                 (`cargo xtask init` writes such environments), or install the module where PARITY_PYTHON finds it"
                    .into()
            }
            Self::Script { withheld: Some(name), .. } => format!(
                "scripts see only a few of your environment variables; if this one needs `{name}`, write \
                 `reference: {{env: [{name}]}}` in the spec"
            ),
            Self::TimedOut { .. } => {
                "fix the script, or give it more time with `timeout` in the spec's `reference`, e.g. `2h`".into()
            }
            Self::Memory { .. } => {
                "make the model smaller with the spec's `params` (`--param layers=2` for a new spec), or allow more with \
                 `--memory 32GB`"
                    .into()
            }
            Self::NoListing { .. } => "make sure that the script ends in `parity_export.main(reference)`".into(),
            Self::Script { status: Some(2), .. } => {
                "make sure that the script ends in `parity_export.main(reference)`".into()
            }
            Self::Script { .. } | Self::Unusable { .. } => {
                "fix the script, then rerun the command; the old set is untouched".into()
            }
            Self::Second(_) => return None,
            Self::Disagree { .. } => {
                "find out which of the two is wrong, by hand or with `cargo xtask debug SPEC --reference`; the old set is untouched".into()
            }
            Self::NothingInCommon { .. } => {
                "record in the second script some names that the spec declares; the old set is untouched".into()
            }
            Self::OtherInputs { .. } => {
                "take inputs and weights in the second script with `rec.load(name)`, or with the same names, dtypes and \
                 shapes as in the first; the old set is untouched"
                    .into()
            }
            Self::Unaccepted { .. } => {
                "fix the script, or accept a finding with its reason: `rec.accept(kind, name, why=…)`".into()
            }
            Self::NotRepeatable { .. } => {
                "look in the script for random draws without a seed, threads, iteration over sets, or the time".into()
            }
            Self::Link { .. } => "put a real folder there; PARITY_FIXTURES sets another root".into(),
            Self::Outside { .. } => "name a folder below the fixture root in the spec's `fixtures`".into(),
            Self::NotAFolder { .. } | Self::Foreign { .. } | Self::Nested { .. } => {
                "move it elsewhere first; nothing was changed".into()
            }
            Self::Fixture(_) => return None,
            Self::Read { source, .. } | Self::Write { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    "free some space, then rerun the command".into()
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "fix the permissions, then rerun the command".into()
                }
                io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory | io::ErrorKind::NotFound => {
                    "put a regular file there, or a link to one".into()
                }
                _ => "make sure that no other program uses that folder, then rerun the command".into(),
            },
            Self::NotAsked { .. } => "pass `--yes` to replace them".into(),
        })
    }
}
