//! Finding and loading the specs in a folder.

use std::path::{Component, Path, PathBuf};

use walkdir::WalkDir;

use super::check::parse_spec;
use super::devices::Devices;
use super::model::Spec;
use super::policy::{POLICIES, Policies};
use super::problem::{SpecError, quoted};
use super::read::{ReadError, read_text};
use crate::text::suggest::did_you_mean;

/// How many folders deep a spec may be.
const DEPTH: usize = 8;

/// The most threads that read specs.
const MAX_THREADS: usize = 8;

/// The fewest specs for which a thread is worth starting.
const FILES_A_THREAD: usize = 8;

/// The specs of a spec root.
#[derive(Debug, Clone, PartialEq)]
pub struct Specs {
    /// Usable specs, sorted by id.
    pub specs: Vec<Spec>,
    /// Files that are wrong, sorted by id; `policies` is the id of a wrong `policies.yaml`.
    pub broken: Vec<SpecError>,
    /// The policies of the spec root.
    pub policies: Policies,
    /// Why the root itself cannot be searched.
    pub unreadable: Option<SpecError>,
}

impl Specs {
    /// Reads every `<model>/<component>.yaml` in `spec_root`.
    ///
    /// It does not fail: wrong files are in `broken`. Callers must check for an empty result themselves.
    pub fn load(spec_root: &Path) -> Self {
        let (policies, broken_policies) = Policies::load(spec_root);
        let mut found = Self {
            specs: Vec::new(),
            broken: broken_policies.into_iter().collect(),
            policies,
            unreadable: None,
        };
        let mut ids = Vec::new();
        for entry in WalkDir::new(spec_root).max_depth(DEPTH + 1).sort_by_file_name() {
            match entry {
                Ok(entry) if entry.file_type().is_dir() && entry.depth() > DEPTH => {
                    let id = relative_name(spec_root, entry.path());
                    let message = format!("the folder is more than {DEPTH} folders deep");
                    let path = entry.into_path();
                    found.broken.push(SpecError::whole(&id, path, message, "move its specs up"));
                }
                Ok(entry) if entry.file_type().is_dir() => {}
                Ok(entry) => match file(spec_root, &entry) {
                    Some(Ok(id)) => ids.push(id),
                    Some(Err(error)) => found.broken.push(*error),
                    None => {}
                },
                Err(error) if error.depth() == 0 => {
                    let message = format!("the spec root cannot be searched: {error}");
                    let error = SpecError::whole("", spec_root.to_owned(), message, "");
                    found.unreadable = Some(error);
                }
                Err(error) => {
                    let path = error.path().unwrap_or(spec_root).to_owned();
                    let id = relative_name(spec_root, &path);
                    let message = format!("cannot be searched: {error}");
                    found.broken.push(SpecError::whole(&id, path, message, ""));
                }
            }
        }
        ids.sort();
        for result in load_files(spec_root, &ids, &found.policies) {
            match result {
                Ok(spec) => found.specs.push(spec),
                Err(error) => found.broken.push(*error),
            }
        }
        // Wrong policies come first, because they make specs wrong too.
        found.broken.sort_by(|a, b| (a.id != "policies", &a.id).cmp(&(b.id != "policies", &b.id)));
        found
    }

    /// Reads only the spec `id` and the policies. `id` may be that of a twin, such as `qwen3/decoder+padded`.
    ///
    /// # Errors
    ///
    /// When the spec does not exist or is wrong, which includes naming a policy that cannot be looked up.
    pub fn load_one(spec_root: &Path, id: &str) -> Result<Spec, Box<SpecError>> {
        Self::load_one_on(Devices::Declared, spec_root, id)
    }

    /// Does the same as [`Specs::load_one`] for the spec as it runs on these devices.
    ///
    /// # Errors
    ///
    /// Those of [`Specs::load_one`].
    pub fn load_one_on(devices: Devices, spec_root: &Path, id: &str) -> Result<Spec, Box<SpecError>> {
        let (id, twin) = id.split_once('+').map_or((id, None), |(id, twin)| (id, Some(twin)));
        let spec = devices.apply(Self::load_main(spec_root, id)?);
        let Some(twin) = twin else { return Ok(spec) };
        let whole = format!("{id}+{twin}");
        if let Some(found) = spec.twin_specs().find(|spec| spec.id == whole) {
            return Ok(found);
        }
        let near = did_you_mean(twin, spec.twins.iter().map(|twin| twin.name.as_str()));
        let message = format!("spec `{id}` has no twin {}{near}", quoted(twin));
        Err(Box::new(SpecError::whole(&whole, spec.path, message, "")))
    }

    fn load_main(spec_root: &Path, id: &str) -> Result<Spec, Box<SpecError>> {
        if let Err(error) = check_id(id) {
            let message = format!("{} cannot be a spec's name: {error}", quoted(id));
            return Err(Box::new(SpecError::whole(
                id,
                spec_root.to_owned(),
                message,
                "expected `model/component`",
            )));
        }
        load_file(spec_root, id, &Policies::load(spec_root).0)
    }
}

/// The id of a spec file, or why the file cannot be a spec; `None` for files that need not be specs.
fn file(root: &Path, entry: &walkdir::DirEntry) -> Option<Result<String, Box<SpecError>>> {
    let path = entry.path();
    let relative = relative_name(root, path);
    let refuse = |message: &str, allowed: &str| {
        let error = SpecError::whole(&relative, path.to_owned(), message.to_owned(), allowed);
        Some(Err(Box::new(error)))
    };
    if entry.path_is_symlink() && path.is_dir() {
        return refuse("the folder is a symbolic link, which is not followed", "put the specs here");
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml") if relative == POLICIES => return None,
        Some("yaml") => {}
        _ if looks_like_a_spec(path) => {
            return refuse(
                "it looks like a spec, but a spec's file name ends in `.yaml`",
                "rename it to `<component>.yaml`, or move it out of the spec root",
            );
        }
        _ => return None,
    }
    let id = relative.strip_suffix(".yaml").unwrap_or(&relative);
    match check_id(id) {
        Ok(()) => Some(Ok(id.to_owned())),
        Err(error) => {
            refuse(&error, "expected `<model>/<component>.yaml`, of letters, digits, `_`, `-` and `.`")
        }
    }
}

/// Whether a user may think that the file is a spec, by its name: `block.yml`, `block.YAML`, `block.yaml.bak`,
/// `block.yaml~`. Hidden files do not count: editors leave them behind while they work.
fn looks_like_a_spec(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    !name.starts_with('.')
        && name.split('.').skip(1).any(|part| matches!(part.trim_end_matches('~'), "yaml" | "yml"))
}

type LoadResult = Result<Spec, Box<SpecError>>;

/// The specs of `ids`, in that order, read on as many threads as are worth starting.
fn load_files(root: &Path, ids: &[String], policies: &Policies) -> Vec<LoadResult> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let share = ids.len().div_ceil(threads).max(FILES_A_THREAD);
    let load =
        |ids: &[String]| ids.iter().map(|id| load_file(root, id, policies)).collect::<Vec<LoadResult>>();
    std::thread::scope(|scope| {
        // This thread reads the first share, so a small project starts no other thread.
        let mut shares = ids.chunks(share);
        let first = shares.next().unwrap_or_default();
        let others: Vec<_> = shares.map(|ids| scope.spawn(move || load(ids))).collect();
        let mut loaded = load(first);
        for other in others {
            match other.join() {
                Ok(more) => loaded.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        loaded
    })
}

fn load_file(root: &Path, id: &str, policies: &Policies) -> LoadResult {
    let path = root.join(format!("{id}.yaml"));
    let whole =
        |message: String, allowed: &str| Box::new(SpecError::whole(id, path.clone(), message, allowed));
    match inside(root, &path) {
        Some(true) => {}
        Some(false) => {
            return Err(whole(
                "the file is outside the spec root".to_owned(),
                "expected no link to a place outside",
            ));
        }
        None => return Err(missing(root, id, path.clone())),
    }
    match read_text(&path) {
        Ok(source) => parse_spec(id, &path, &source, policies).map_err(Box::new),
        Err(ReadError::Missing) => Err(missing(root, id, path.clone())),
        Err(ReadError::Bad(problem, source)) => Err(Box::new(SpecError {
            id: id.to_owned(),
            path: path.clone(),
            problems: vec![*problem],
            source,
        })),
    }
}

/// Whether the file, with links resolved, is inside the root; `None` when it does not exist.
fn inside(root: &Path, path: &Path) -> Option<bool> {
    // Links are resolved only when the path has any.
    let mut at = PathBuf::from(root);
    let mut linked = false;
    for part in path.strip_prefix(root).ok()?.components() {
        at.push(part);
        linked |= at.symlink_metadata().ok()?.file_type().is_symlink();
    }
    if !linked {
        return Some(true);
    }
    Some(path.canonicalize().ok()?.starts_with(root.canonicalize().ok()?))
}

fn missing(root: &Path, id: &str, path: PathBuf) -> Box<SpecError> {
    let ids: Vec<String> = WalkDir::new(root)
        .max_depth(DEPTH + 1)
        .into_iter()
        .filter_map(Result::ok)
        .filter_map(|entry| relative_name(root, entry.path()).strip_suffix(".yaml").map(str::to_owned))
        .filter(|id| check_id(id).is_ok())
        .collect();
    let near = did_you_mean(id, ids.iter().map(String::as_str));
    Box::new(SpecError::whole(id, path, format!("spec {} does not exist{near}", quoted(id)), ""))
}

/// The path relative to `root`, with `/` on every platform. Bytes that are not UTF-8 are replaced; the id check refuses
/// the result.
fn relative_name(root: &Path, path: &Path) -> String {
    let parts: Vec<String> = path
        .strip_prefix(root)
        .unwrap_or(path)
        .components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    parts.join("/")
}

fn check_id(id: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && part.chars().all(fits)
    };
    if id.len() > super::bounds::NAME {
        return Err(format!("the path has more than {} characters", super::bounds::NAME));
    }
    match id.split('/').count() {
        1 => Err("a spec must be in the folder of its model".to_owned()),
        2..=DEPTH if id.split('/').all(part) => Ok(()),
        2..=DEPTH => Err("the path has characters that a trial's name cannot have".to_owned()),
        _ => Err(format!("the path is more than {DEPTH} folders deep")),
    }
}
