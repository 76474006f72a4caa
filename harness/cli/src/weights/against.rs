//! `weights FILE --against SPEC`: compares the names, shapes and dtypes in a plain file with the weights of a spec. Reads
//! headers, no tensor.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use walkdir::WalkDir;

use super::{Arguments, WeightsError};
use crate::find_spec::find_spec;
use crate::{CliError, Project, say};
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::preflight::with_external;
use mlx_parity_core::spec::Weights;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::tensor::{Dtype, TensorFile, TensorFormat};
use mlx_parity_core::text::printable::{clean, json};
use mlx_parity_core::text::suggest::did_you_mean;
use mlx_parity_core::weights::{WeightIndex, renamed};

/// Dtype and shape of a weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Header {
    dtype: Dtype,
    shape: Vec<usize>,
}

/// What was found, and what `--json` prints.
#[derive(Debug, Default, Serialize)]
struct FileAudit {
    spec: String,
    files: Vec<PathBuf>,
    /// How many weights the files have, and how many the spec has.
    found: usize,
    expected: usize,
    /// Weights of the spec that the files lack.
    missing: Vec<String>,
    /// Weights of the files that the spec does not have, under the port's names.
    unused: Vec<String>,
    shapes: Vec<HeaderDifference>,
    dtypes: Vec<HeaderDifference>,
}

/// A weight whose header differs.
#[derive(Debug, Serialize)]
struct HeaderDifference {
    name: String,
    expected: Header,
    found: Header,
}

pub(super) fn run(project: &Project, arguments: &Arguments, spec: &str) -> Result<ExitCode, CliError> {
    let spec = find_spec(project, &spec_id(project, spec))?;
    let declared = spec.weights.as_ref().ok_or_else(|| WeightsError::NoWeights { id: spec.id.clone() })?;
    let set = FixtureSet::open(&project.fixture_root(), &spec.fixtures).map_err(WeightsError::from)?;
    let set = with_external(&spec, set).map_err(WeightsError::from)?;
    let index = WeightIndex::of(declared, &set).map_err(WeightsError::from)?;
    let expected: BTreeMap<String, Header> = index
        .weights()
        .map(|(name, entry)| (name.to_owned(), Header { dtype: entry.dtype, shape: entry.shape.clone() }))
        .collect();
    let files = files(&arguments.targets)?;
    let found = headers(&files, declared)?;
    let mut audit = FileAudit { spec: spec.id, files, ..FileAudit::compare(&expected, &found) };
    if arguments.names {
        audit.shapes.clear();
        audit.dtypes.clear();
    }
    say(&match arguments.json {
        true => json(&format!("{:#}\n", serde_json::json!(audit))),
        false => audit.text(),
    });
    Ok(if audit.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The id of a spec that is named by its id or by its file.
fn spec_id(project: &Project, name: &str) -> String {
    let path = Path::new(name);
    let Some(full) = path.extension().filter(|end| *end == "yaml").and_then(|_| path.canonicalize().ok())
    else {
        return name.to_owned();
    };
    let root = project.spec_root();
    let root = root.canonicalize().unwrap_or(root);
    match full.strip_prefix(root) {
        Ok(below) => below.with_extension("").to_string_lossy().replace('\\', "/"),
        Err(_) => name.to_owned(),
    }
}

/// The files to read: those that are named, and the tensor files in folders that are named.
fn files(targets: &[String]) -> Result<Vec<PathBuf>, WeightsError> {
    let mut files = Vec::new();
    for target in targets.iter().map(PathBuf::from) {
        if !target.is_dir() {
            files.push(target);
            continue;
        }
        let before = files.len();
        let walk = WalkDir::new(&target).max_depth(1).sort_by_file_name().into_iter().filter_map(Result::ok);
        files.extend(walk.map(walkdir::DirEntry::into_path).filter(|path| TensorFormat::of(path).is_ok()));
        if files.len() == before {
            return Err(WeightsError::EmptyFolder { path: target });
        }
    }
    Ok(files)
}

/// The headers of all files, under the port's names.
fn headers(files: &[PathBuf], declared: &Weights) -> Result<BTreeMap<String, Header>, WeightsError> {
    let mut headers = BTreeMap::new();
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    for path in files {
        let file = TensorFile::open(path)?;
        for name in file.names() {
            let own = renamed(name, &declared.rename);
            let tensor = file.get(name)?;
            let view = tensor.view();
            let header = Header { dtype: view.dtype(), shape: view.shape().to_vec() };
            if headers.insert(own.clone(), header).is_some() {
                let first = stored.remove(&own).unwrap_or_default();
                return Err(WeightsError::TwoWeights { name: own, first, second: name.to_owned() });
            }
            stored.insert(own, name.to_owned());
        }
    }
    Ok(headers)
}

impl FileAudit {
    fn compare(expected: &BTreeMap<String, Header>, found: &BTreeMap<String, Header>) -> Self {
        let mut audit = Self { found: found.len(), expected: expected.len(), ..Self::default() };
        for (name, wanted) in expected {
            let Some(header) = found.get(name) else {
                audit.missing.push(name.clone());
                continue;
            };
            let difference =
                || HeaderDifference { name: name.clone(), expected: wanted.clone(), found: header.clone() };
            if header.shape != wanted.shape {
                audit.shapes.push(difference());
            }
            if header.dtype != wanted.dtype {
                audit.dtypes.push(difference());
            }
        }
        audit.unused = found.keys().filter(|name| !expected.contains_key(*name)).cloned().collect();
        audit
    }

    fn is_right(&self) -> bool {
        self.missing.is_empty() && self.unused.is_empty() && self.shapes.is_empty() && self.dtypes.is_empty()
    }

    fn text(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let mut text = format!(
            "{} against {}: {}, the spec has {}\n",
            clean(&files.join(", ")),
            self.spec,
            counted(self.found, "weight"),
            self.expected
        );
        let mut lines: Vec<String> = Vec::new();
        let near = |name: &str| match self.unused.len() {
            0 => String::new(),
            _ => did_you_mean(name, self.unused.iter().map(String::as_str)),
        };
        let missing = self.missing.iter().map(|name| (name.as_str(), near(name)));
        lines.extend(folded("MISSING", missing));
        lines.extend(folded("UNUSED", self.unused.iter().map(|name| (name.as_str(), String::new()))));
        let shapes = self.shapes.iter().map(|one| {
            (
                one.name.as_str(),
                format!(": the file has {:?}, the spec {:?}", one.found.shape, one.expected.shape),
            )
        });
        lines.extend(folded("SHAPE", shapes));
        let dtypes = self.dtypes.iter().map(|one| {
            (
                one.name.as_str(),
                format!(": the file has {}, the spec {}", one.found.dtype, one.expected.dtype),
            )
        });
        lines.extend(folded("DTYPE", dtypes));
        for line in &lines {
            let _ = writeln!(text, "  {}", clean(line));
        }
        if lines.is_empty() {
            text += "  every name, shape and dtype agrees\n";
        }
        if !self.missing.is_empty() && !self.unused.is_empty() {
            text += "if a weight only has another name, map it with `weights.rename` in the spec\n";
        }
        if self.shapes.len() > 1 && self.missing.is_empty() {
            text += "a spec with a tiny config has other shapes than a real checkpoint; `--names` compares names only\n";
        }
        text
    }
}

/// One line per loop: names that differ only in numbers, with the same text after them.
fn folded<'a>(kind: &str, rows: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    let mut groups: Vec<(String, String, &str, usize)> = Vec::new();
    for (name, about) in rows {
        let parts: Vec<&str> =
            name.split('.').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part }).collect();
        let pattern = parts.join(".");
        let is_loop = pattern != name;
        // Suggestions name single weights, so those of a loop are shown once, for its first weight.
        let same = |group: &&mut (String, String, &str, usize)| {
            is_loop && group.0 == pattern && (group.1 == about || kind == "MISSING")
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.3 += 1,
            None => groups.push((pattern, about, name, 1)),
        }
    }
    let line = |(pattern, about, name, count): (String, String, &str, usize)| match count {
        1 => format!("{kind:<8} {name}{about}"),
        _ => format!("{kind:<8} {pattern}{about} ({count} weights)"),
    };
    groups.into_iter().map(line).collect()
}
