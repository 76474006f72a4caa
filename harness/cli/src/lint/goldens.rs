//! `lint --base`: goldens and floors that changed since the base commit, and whether their reference explains the change.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::finding::{Finding, some_of};
use super::git::{BranchCommit, FileChange, Git, GitError};
use crate::regenerate::CHANGED_FLOOR;
use mlx_parity_core::files::regular;
use mlx_parity_core::golden::{MANIFEST, Manifest, Role, TensorEntry};
use mlx_parity_core::report::multiple;
use mlx_parity_core::spec::Specs;
use mlx_parity_core::tensor::{Dtype, TensorFormat};
use mlx_parity_core::text::program::program;

/// A floor has grown if it is at least this many times the old floor and its golden is the same to the bit. Such a floor
/// depends on the float64 run alone, which other machines repeat far more closely.
const SAME_GOLDEN: f64 = 1.01;

/// A branch, as far as its goldens matter.
pub(super) struct Branch<'a> {
    pub(super) git: &'a Git,
    /// The commit that it started from.
    pub(super) base: &'a str,
    pub(super) commits: &'a [BranchCommit],
    /// The fixture root, from the top of the repository.
    pub(super) folder: &'a str,
    /// Which changes are to port code.
    pub(super) is_port: &'a dyn Fn(&FileChange) -> bool,
    /// Whether the lock of the references' environments changed.
    pub(super) lock_changed: bool,
}

/// A set at the base commit, and the set in its place now.
struct SetPair {
    /// The folder then and now, from the top of the repository.
    then: String,
    now: String,
    before: Option<Manifest>,
    after: Option<Manifest>,
}

impl Branch<'_> {
    /// Returns goldens that changed since the base commit and floors that grew, set by set.
    ///
    /// New sets and new tensors do not count. If the branch changes port code, both are errors; they are warnings if the
    /// reference changed too and no commit changes both goldens and port code, because then the port may have to follow.
    /// Without port code, changed goldens are a warning if their reference did not change, and grown floors always are.
    pub(super) fn findings(&self, before: &Specs, now: &Specs) -> Result<Vec<Finding>, GitError> {
        let changes = self.commits.iter().flat_map(|commit| &commit.changes);
        let port: BTreeSet<&str> =
            changes.filter(|change| (self.is_port)(change)).map(|change| change.path.as_str()).collect();
        let port: Vec<&str> = port.into_iter().collect();
        let mut found = Vec::new();
        for pair in self.pairs(before, now)? {
            found.extend(self.moved(&pair, &port));
            found.extend(self.grown(&pair, &port));
        }
        Ok(found)
    }

    /// Pairs every set of the base commit with the set in the same folder now, or in the folder that its spec names now.
    fn pairs(&self, before: &Specs, now: &Specs) -> Result<Vec<SetPair>, GitError> {
        let listed = self.git.files(self.base, self.folder)?;
        let sets: BTreeSet<String> = listed
            .iter()
            .filter_map(|path| Some(path.strip_suffix(MANIFEST)?.strip_suffix('/')?.to_owned()))
            .collect();
        let in_git = |folder: &str| match self.folder {
            "" => folder.to_owned(),
            root => format!("{root}/{folder}"),
        };
        let mut folders: BTreeSet<(String, String)> = BTreeSet::new();
        for old in &before.specs {
            let new = now.specs.iter().find(|new| new.id == old.id);
            if let Some(new) = new.filter(|new| new.fixtures != old.fixtures) {
                folders.insert((in_git(&old.fixtures), in_git(&new.fixtures)));
            }
        }
        for set in &sets {
            let is_elsewhere = folders.iter().any(|(then, _)| then == set);
            if !is_elsewhere || self.git.path(set).join(MANIFEST).exists() {
                folders.insert((set.clone(), set.clone()));
            }
        }
        let pairs = folders.into_iter().filter(|(then, _)| sets.contains(then));
        Ok(pairs
            .map(|(then, now)| {
                let bytes = self.git.show(self.base, &format!("{then}/{MANIFEST}"));
                let before = bytes.and_then(|bytes| Manifest::parse(&bytes).ok());
                let after = self.manifest_now(&now);
                SetPair { then, now, before, after }
            })
            .collect())
    }

    fn manifest_now(&self, folder: &str) -> Option<Manifest> {
        let bytes = regular::read(&self.git.path(folder).join(MANIFEST), regular::TEXT).ok()?;
        Manifest::parse(&bytes).ok()
    }

    fn moved(&self, pair: &SetPair, port: &[&str]) -> Option<Finding> {
        let touching = self.touching(pair);
        let names = match pair.moved_tensors() {
            Some(names) if names.is_empty() => self.files_without_manifest(pair, &touching),
            Some(names) => names,
            None => touching.values().flatten().map(|path| (*path).to_owned()).collect(),
        };
        if names.is_empty() {
            return None;
        }
        let why = self.explained(pair, &touching);
        let changed_by = touching.keys().map(|index| self.git.name(&self.commits[*index]));
        let mut notes: Vec<String> = changed_by.take(3).map(|name| format!("{name} changes them")).collect();
        notes.extend((!port.is_empty()).then(|| format!("the same branch touches {}", some_of(port))));
        notes.push(why.note.to_owned());
        let (is_error, message, help) = match (port.is_empty(), why.is_explained) {
            (true, true) => return None,
            (true, false) => {
                (false, "goldens change, but their reference does not", prove(pair, self.folder))
            }
            (false, true) => {
                (false, "goldens change in a branch that changes port code", prove(pair, self.folder))
            }
            (false, false) => (true, "goldens change together with port code", why.help.to_owned()),
        };
        Some(Finding {
            is_error,
            message: format!("{message}: {}", some_of(&names)),
            path: self.git.path(&format!("{}/{MANIFEST}", pair.now)),
            line: None,
            notes,
            help: Some(help),
        })
    }

    fn grown(&self, pair: &SetPair, port: &[&str]) -> Option<Finding> {
        let grown = pair.grown_floors();
        let (name, first) = grown.first()?;
        let others = match grown.len() - 1 {
            0 => String::new(),
            1 => ", and 1 other grew".to_owned(),
            more => format!(", and {more} others grew"),
        };
        let why = self.explained(pair, &self.touching(pair));
        let is_error = !port.is_empty() && !why.is_explained;
        let together = if is_error { " together with port code" } else { "" };
        let mut notes: Vec<String> = Vec::new();
        notes.extend((!port.is_empty()).then(|| format!("the same branch touches {}", some_of(port))));
        notes.push(why.note.to_owned());
        Some(Finding {
            is_error,
            message: format!("loosens a tolerance{together}: the floor of `{name}` {first}{others}"),
            path: self.git.path(&format!("{}/{MANIFEST}", pair.now)),
            line: None,
            notes,
            help: Some(if is_error { why.help.to_owned() } else { prove(pair, self.folder) }),
        })
    }

    /// Commits, by their place in the branch, that change or drop files of the set, with these files.
    fn touching(&self, pair: &SetPair) -> BTreeMap<usize, Vec<&str>> {
        let mut found: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (index, commit) in self.commits.iter().enumerate() {
            for FileChange { status, path } in &commit.changes {
                let (set, file) = path.rsplit_once('/').unwrap_or(("", path));
                // Files added to a set that is new in this branch change no golden; files that replace another set do.
                let is_set = set == pair.then && *status != 'A' || set == pair.now && pair.now != pair.then;
                if is_set && (is_tensors(file) || file == MANIFEST) {
                    found.entry(index).or_default().push(path);
                }
            }
        }
        found
    }

    /// Tensor files that changed although the manifest did not, so that the set no longer matches it.
    fn files_without_manifest(&self, pair: &SetPair, touching: &BTreeMap<usize, Vec<&str>>) -> Vec<String> {
        let manifest = format!("{}/{MANIFEST}", pair.then);
        let files: BTreeSet<&str> = touching.values().flatten().copied().collect();
        if files.contains(manifest.as_str()) {
            return Vec::new();
        }
        files.into_iter().map(str::to_owned).collect()
    }

    /// Whether the reference explains why a set changed.
    fn explained(&self, pair: &SetPair, touching: &BTreeMap<usize, Vec<&str>>) -> ReferenceChange {
        // No reference explains a set that was removed, or whose manifest cannot be read.
        let reference_changed = match (&pair.before, &pair.after) {
            (Some(before), Some(after)) => before.made_by.key != after.made_by.key || self.lock_changed,
            _ => false,
        };
        let is_mixed = touching
            .keys()
            .any(|index| self.commits[*index].changes.iter().any(|change| (self.is_port)(change)));
        match (reference_changed, is_mixed) {
            (false, _) => ReferenceChange {
                is_explained: false,
                note: "neither their script, nor their `reference` block, nor the lock of the references changed",
                help: "regenerate them in a separate branch, without the code that they judge",
            },
            (true, true) => ReferenceChange {
                is_explained: false,
                note: "their reference changed, but a commit changes both goldens and port code",
                help: "regenerate them in a separate commit, without the code that they judge",
            },
            (true, false) => {
                ReferenceChange { is_explained: true, note: "their reference changed", help: "" }
            }
        }
    }
}

/// Whether the reference explains why a set changed, with the note and the advice for it.
struct ReferenceChange {
    is_explained: bool,
    note: &'static str,
    help: &'static str,
}

impl SetPair {
    /// Tensors that changed or were removed; none where a manifest cannot be read.
    fn moved_tensors(&self) -> Option<Vec<String>> {
        fn key(one: &TensorEntry) -> (Role, &str, Dtype, &[usize], &str) {
            (one.role, &one.name, one.dtype, &one.shape, &one.sha256)
        }
        let now: HashSet<_> = self.after.as_ref()?.tensors.iter().map(key).collect();
        // Constants of recipes judge no port.
        let before = self.before.as_ref()?.tensors.iter().filter(|one| one.role != Role::Constant);
        let others = before.filter(|one| !now.contains(&key(one)));
        Some(others.map(|one| one.name.clone()).collect())
    }

    /// Goldens whose floor grew, with the old and the new floor; the largest growth comes first.
    fn grown_floors(&self) -> Vec<(String, String)> {
        let (Some(before), Some(after)) = (&self.before, &self.after) else { return Vec::new() };
        let mut grown = Vec::new();
        for new in &after.tensors {
            let old = before.tensors.iter().find(|old| (old.role, &old.name) == (new.role, &new.name));
            let Some((old, was, is)) = old.and_then(|old| Some((old, old.floor?, new.floor?))) else {
                continue;
            };
            let allowed = if old.sha256 == new.sha256 { SAME_GOLDEN } else { CHANGED_FLOOR };
            let times = is.over(&was);
            if times > allowed {
                let words = format!(
                    "grew {}, from max {:.1e} with rms {:.1e} to max {:.1e} with rms {:.1e}",
                    multiple(times),
                    was.max,
                    was.rms,
                    is.max,
                    is.rms
                );
                grown.push((times, new.name.clone(), words));
            }
        }
        grown.sort_by(|a, b| b.0.total_cmp(&a.0));
        grown.into_iter().map(|(_, name, words)| (name, words)).collect()
    }
}

fn is_tensors(file: &str) -> bool {
    TensorFormat::of(file).is_ok()
}

fn prove(pair: &SetPair, root: &str) -> String {
    let set = pair.now.strip_prefix(root).unwrap_or(&pair.now).trim_start_matches('/');
    format!(
        "`{} regenerate-fixtures --check --run {set}` shows whether the reference reproduces them",
        program()
    )
}
