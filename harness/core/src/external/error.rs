//! Errors of external weights.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::gate::Class;
use crate::tensor::TensorError;
use crate::text::program::program;

/// Why external weights cannot be used. Each message ends with what to do next.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message names its fields")]
#[non_exhaustive]
pub enum ExternalError {
    /// A variable of the path has no value.
    #[error("the variable {name} is not set; set it, or write a default in the spec: `${{{name}:-/path}}`")]
    Unset { name: String },
    /// No file is there.
    #[error("no file matches `{path}`; download the weights, or correct the path or its variables")]
    NoMatch { path: String },
    /// The value of a variable is not text.
    #[error("the value of the variable {name} is not UTF-8; use a path that is")]
    NotText { name: String },
    /// The expanded path is relative.
    #[error("the path is `{path}`, expected an absolute path; correct its first variable")]
    Relative { path: String },
    /// The expanded path could lead to different places.
    #[error(
        "the path is `{}`, expected no part `.` or `..`, no control character, and no wildcard of a variable beside one of \
         the spec; correct its variables", path.escape_debug()
    )]
    NotPlain { path: String },
    /// Folders with too many entries match.
    #[error("`{path}` looks at more than {allowed} names; use fewer wildcards")]
    TooMany { path: String, allowed: usize },
    /// Two files have one name.
    #[error(
        "two files are called `{name}`: `{}` and `{}`; name one folder, such as one snapshot, in place of a wildcard",
        first.display(), second.display()
    )]
    TwoFiles { name: String, first: PathBuf, second: PathBuf },
    /// Two index files match.
    #[error("two index files match: `{}` and `{}`; name one of them", first.display(), second.display())]
    TwoIndexes { first: PathBuf, second: PathBuf },
    /// A link leads nowhere.
    #[error("`{}` is a link to a file that does not exist; download the weights again", path.display())]
    Dangling { path: PathBuf },
    /// The operating system cannot read it.
    #[error("cannot read `{}`; make it readable", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The index is not an index.
    #[error("index `{}` cannot be used: {problem}; download it again", path.display())]
    Index { path: PathBuf, problem: String },
    /// The index names a file outside its folder.
    #[error(
        "index `{}` names the file `{}`, expected the plain name of a safetensors file in its own folder; download it again",
        path.display(), file.escape_debug()
    )]
    Escapes { path: PathBuf, file: String },
    /// The index names a file that is not there.
    #[error("index `{}` names `{file}`, which is not there: the download is incomplete; download the weights again", path.display())]
    Incomplete { path: PathBuf, file: String },
    /// A weight is not where the index says.
    #[error("index `{}` says that `{file}` has the weight `{name}`, but it has not; download the weights again", path.display())]
    NotInFile { path: PathBuf, file: String, name: String },
    /// A file has a weight that the index does not list.
    #[error("`{}` has the weight `{name}`, which the index does not list for it; download the weights again", path.display())]
    NotInIndex { path: PathBuf, name: String },
    /// Two files have a weight with one name.
    #[error("`{first}` and `{second}` both have the weight `{name}`; name the files of one checkpoint only")]
    TwoWeights { name: String, first: String, second: String },
    /// The fixture set has a weight of the same name.
    #[error(
        "both the fixture set and the external weights have `{name}`; stop saving it with `rec.weights`, then run \
         `{} regenerate-fixtures`",
        program()
    )]
    InSet { name: String },
    /// A file is damaged.
    #[error("external weights `{}` cannot be used; download the file again", path.display())]
    Tensor { path: PathBuf, source: Box<TensorError> },
    /// A file changed while it was hashed.
    #[error("external weights `{}` changed while they were hashed; stop whatever writes there, then rerun", path.display())]
    Changed { path: PathBuf },
    /// No checksum is known.
    #[error(
        "no checksum is known for `{}`, so any file would do; add to `weights` in the spec: \
         `sha256: {{\"{name}\": {found}}}`", path.display()
    )]
    NoChecksum { path: PathBuf, name: String, found: String },
    /// One checksum is declared for several files.
    #[error(
        "`weights.sha256` is one checksum, but {count} files match; write one per file: `sha256: {{\"{first}\": …}}`"
    )]
    OneChecksum { count: usize, first: String },
    /// A checksum is declared for a file that is not there.
    #[error(
        "`weights.sha256` names `{name}`, which is not among the files; download the weights again, or correct the spec"
    )]
    NoSuchFile { name: String },
    /// The file is another than the declared one.
    #[error(
        "external weights `{}` have SHA-256 {found}, but the spec declares {expected}; download the file again, or correct \
         `weights.sha256` and run `{} regenerate-fixtures`", path.display(), program()
    )]
    Checksum { path: PathBuf, expected: Box<str>, found: Box<str> },
    /// The goldens were made with other weights.
    #[error(
        "the goldens were made with other external weights: {difference}; run `{} regenerate-fixtures {set}`",
        program()
    )]
    Stale { set: String, difference: String },
}

impl ExternalError {
    /// Whether the weights are not on this machine, which is no fault of theirs.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Unset { .. } | Self::NoMatch { .. })
    }

    /// The class of the failure.
    pub fn class(&self) -> Class {
        match self {
            Self::Unset { .. }
            | Self::NoMatch { .. }
            | Self::Dangling { .. }
            | Self::Incomplete { .. }
            | Self::NoSuchFile { .. } => Class::Missing,
            Self::NotText { .. }
            | Self::Relative { .. }
            | Self::NotPlain { .. }
            | Self::TooMany { .. }
            | Self::TwoFiles { .. }
            | Self::TwoIndexes { .. }
            | Self::NoChecksum { .. }
            | Self::OneChecksum { .. } => Class::Spec,
            Self::Stale { .. } => Class::Stale,
            Self::Read { .. }
            | Self::Index { .. }
            | Self::Escapes { .. }
            | Self::NotInFile { .. }
            | Self::NotInIndex { .. }
            | Self::TwoWeights { .. }
            | Self::InSet { .. }
            | Self::Tensor { .. }
            | Self::Changed { .. }
            | Self::Checksum { .. } => Class::Corrupt,
        }
    }
}
