//! The command `init`: prepares a package for parity tests. It edits manifests without touching anything else in them, shows
//! what changes, and asks.

mod changes;
mod manifests;
mod source;
mod texts;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use thiserror::Error;
use toml_edit::DocumentMut;

use super::ask::{YesNo, ask};
use super::references::{LOCK, Uv};
use super::rustc::is_new_enough;
use super::workspace::{Package, WorkspaceError, packages};
use super::{CliError, Project, mlx_rs_versions, say};
use crate::error::CommandError;
use changes::FileChange;
use manifests::{PackageNeeds, edit_config, edit_package, edit_profile};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{POLICIES, SCHEMA, schema_text};
use mlx_parity_core::text::program::{program, suite_command};
use source::relative;
pub(crate) use source::{CrateSource, SourceArguments};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask init                            Show what is missing, and ask before writing it\n  \
    cargo xtask init --dry-run                  Only show it\n  \
    cargo xtask init --package my-port          Choose the package of a workspace\n  \
    cargo xtask init --path ../mlx-parity       Use the crates of a checkout\n\n\
    The command adds dependencies and the test target `parity`, and writes the suite, policies, the\n\
    schema, locked Python environments for references, and the Cargo configuration that MLX needs on\n\
    Linux. Existing keys and files stay as they are. A second run changes nothing.")]
pub(crate) struct Arguments {
    /// Package that gets the suite [default: the one in the current folder, or the only one]
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    #[command(flatten)]
    source: SourceArguments,
    /// Write without asking
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Why the project was not prepared. Nothing was written.
#[derive(Debug, Error)]
pub(crate) enum InitError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("the workspace has no package")]
    NoPackage,
    #[error("the workspace has several packages: {names}")]
    SeveralPackages { names: String },
    #[error("the workspace has no package `{name}`, but {names}")]
    UnknownPackage { name: String, names: String },
    #[error("`{}` is not a checkout of mlx-parity: it has no `harness/Cargo.toml` and `harness/tap/Cargo.toml`", path.display())]
    NoCheckout { path: PathBuf },
    #[error("{found} is too old: mlx-parity needs Rust {wanted} or newer")]
    OldRust { found: String, wanted: &'static str },
    #[error("`{}` is not valid TOML", path.display())]
    Toml { path: PathBuf, source: Box<toml_edit::TomlError> },
    #[error("this project cannot be prepared automatically:\n{}", conflicts.join("\n"))]
    Conflicts { conflicts: Vec<String> },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{count} would change, but there is no terminal to ask on; nothing was written")]
    NotAsked { count: String },
}

impl CommandError for InitError {
    fn next(&self) -> Option<String> {
        Some(match self {
            Self::Workspace(error) => error.next(),
            Self::NoPackage => "create one with `cargo new --lib my-port`".into(),
            Self::SeveralPackages { .. } | Self::UnknownPackage { .. } => {
                "name the one with the port: `cargo xtask init --package <NAME>`".into()
            }
            Self::NoCheckout { .. } => "name the root of the checkout".into(),
            Self::OldRust { .. } => "run `rustup update stable`".into(),
            Self::Toml { .. } => "correct the file".into(),
            Self::Conflicts { .. } => {
                "change these lines yourself, then run the command again; nothing was written".into()
            }
            Self::Read { .. } | Self::Write { .. } => return None,
            Self::NotAsked { .. } => "pass `--yes` to write them, or `--dry-run` to see them only".into(),
        })
    }
}

pub(crate) fn run(project: &Project, arguments: &Arguments) -> Result<ExitCode, CliError> {
    check_rust(project.root())?;
    let all = packages(project.root()).map_err(InitError::from)?;
    let package = choose(&all, project.root(), arguments.package.as_deref())?;
    let plan = plan(project, package, arguments)?;
    let changes: Vec<&FileChange> = plan.iter().filter(|change| change.is_needed()).collect();
    for change in &changes {
        say(&change.shown());
    }
    let count = counted(changes.len(), "file");
    if changes.is_empty() {
        say("nothing to change: the project is prepared\n");
    } else if arguments.dry_run {
        say(&format!("{count} would change; nothing was written\n"));
    } else {
        let answer = if arguments.yes { YesNo::Yes } else { ask(&format!("write {count}?")) };
        match answer {
            YesNo::Yes => {}
            YesNo::No => {
                say("nothing was written\n");
                return Ok(ExitCode::FAILURE);
            }
            YesNo::NoTerminal => return Err(InitError::NotAsked { count }.into()),
        }
        for change in &changes {
            change
                .write(project.root())
                .map_err(|source| InitError::Write { path: change.path.clone(), source })?;
        }
        say(&format!("wrote {count}\n"));
    }
    if !arguments.dry_run {
        lock_environments(project)?;
    }
    for note in notes(project, package) {
        eprintln!("warning: {note}");
    }
    if !arguments.dry_run {
        say(&next_steps(project.suite_target()));
    }
    Ok(ExitCode::SUCCESS)
}

fn check_rust(root: &Path) -> Result<(), InitError> {
    const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(output) = Command::new(rustc).arg("--version").current_dir(root).output() else { return Ok(()) };
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if found.is_empty() || is_new_enough(&found, OLDEST) {
        return Ok(());
    }
    Err(InitError::OldRust { found, wanted: OLDEST })
}

/// Returns the package that gets the suite: the named one, the one around the current folder, or the only one.
fn choose<'a>(all: &'a [Package], root: &Path, name: Option<&str>) -> Result<&'a Package, InitError> {
    let names = || all.iter().map(|one| format!("`{}`", one.name)).collect::<Vec<_>>().join(", ");
    if let Some(name) = name {
        let found = all.iter().find(|package| package.name == name);
        return found.ok_or_else(|| InitError::UnknownPackage { name: name.to_owned(), names: names() });
    }
    let here = std::env::current_dir().unwrap_or_else(|_| root.to_owned());
    let around = all.iter().filter(|package| here.starts_with(package.folder()));
    if let Some(package) = around.max_by_key(|package| package.folder().components().count()) {
        return Ok(package);
    }
    // An xtask has the commands, not the port.
    let mut ports = all.iter().filter(|package| package.name != "xtask");
    match (ports.next(), ports.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(InitError::NoPackage),
        _ => Err(InitError::SeveralPackages { names: names() }),
    }
}

/// Returns every file that the project needs, as it will be.
fn plan(project: &Project, package: &Package, arguments: &Arguments) -> Result<Vec<FileChange>, InitError> {
    let root = project.root();
    let from_root = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
    let own = from_root(&package.manifest_path);
    let source = CrateSource::of(&arguments.source, package.folder())?;
    let is_named = arguments.source.is_named();
    let name = own.display().to_string();
    let needs = PackageNeeds { manifest: &name, source: &source, is_named, suite: project.suite_target() };
    let mut planner = Planner { root, files: Vec::new(), conflicts: Vec::new() };
    let in_root = own == Path::new("Cargo.toml");
    planner.toml(&own, "the package", |document| {
        let mut conflicts = edit_package(document, &needs);
        if in_root {
            conflicts.extend(edit_profile(document, &name));
        }
        conflicts
    })?;
    if !in_root {
        // Cargo reads profiles in the workspace's manifest only.
        planner.toml(Path::new("Cargo.toml"), "the workspace", |document| {
            edit_profile(document, "Cargo.toml")
        })?;
    }
    let old_config = Path::new(".cargo/config");
    if root.join(old_config).is_file() {
        planner.conflicts.push("`.cargo/config` exists: rename it to `.cargo/config.toml`".to_owned());
    }
    let config = Path::new(".cargo/config.toml");
    planner.toml(config, "includes what MLX needs on Linux", |document| {
        edit_config(document, ".cargo/config.toml")
    })?;
    planner.new_file(
        Path::new(".cargo/mlx-missing.toml"),
        "what the compiler prints before MLX is set up on Linux",
        texts::mlx_missing,
    )?;
    planner.suite(project, package)?;
    let specs = from_root(&project.spec_root());
    planner.new_file(&specs.join(POLICIES), "named tolerances", texts::policies)?;
    planner.new_file(&specs.join(SCHEMA), "completes and checks specs in editors", || {
        schema_text().to_string()
    })?;
    let references = project.references_folder().unwrap_or_else(|| root.join("exporter/references"));
    let references = from_root(&references);
    if !root.join(&references).join("pyproject.toml").exists() && !root.join(&references).join(LOCK).exists()
    {
        planner.new_file(
            &references.join("pyproject.toml"),
            "the Python environments of reference scripts: `numpy`, `mlx`, `torch`",
            || texts::PYPROJECT.to_owned(),
        )?;
        planner.new_file(&references.join(LOCK), "their packages, pinned with checksums", || {
            texts::UV_LOCK.to_owned()
        })?;
    }
    planner.edit(Path::new(".gitignore"), "what git ignores", |old| Ok(texts::gitignore(old)))?;
    if planner.conflicts.is_empty() {
        Ok(planner.files)
    } else {
        let conflicts = planner.conflicts.iter().map(|text| format!("- {text}")).collect();
        Err(InitError::Conflicts { conflicts })
    }
}

/// Collects the files, and what cannot be merged.
struct Planner<'a> {
    root: &'a Path,
    files: Vec<FileChange>,
    conflicts: Vec<String>,
}

impl Planner<'_> {
    fn edit(
        &mut self,
        path: &Path,
        about: &'static str,
        new: impl FnOnce(Option<&str>) -> Result<String, InitError>,
    ) -> Result<(), InitError> {
        let change = FileChange::edit(self.root, path, about, new)
            .map_err(|source| InitError::Read { path: path.to_owned(), source })?;
        self.files.push(change?);
        Ok(())
    }

    /// A file that is written only if it does not exist.
    fn new_file(
        &mut self,
        path: &Path,
        about: &'static str,
        text: impl FnOnce() -> String,
    ) -> Result<(), InitError> {
        self.edit(path, about, |old| Ok(old.map_or_else(text, str::to_owned)))
    }

    fn toml(
        &mut self,
        path: &Path,
        about: &'static str,
        edit: impl FnOnce(&mut DocumentMut) -> Vec<String>,
    ) -> Result<(), InitError> {
        let mut conflicts = Vec::new();
        self.edit(path, about, |old| {
            let mut document: DocumentMut = old
                .unwrap_or_default()
                .parse()
                .map_err(|source| InitError::Toml { path: path.to_owned(), source: Box::new(source) })?;
            conflicts = edit(&mut document);
            Ok(document.to_string())
        })?;
        self.conflicts.extend(conflicts);
        Ok(())
    }

    /// The suite, unless the package has one. A test of that name that is no suite stays, and is a conflict.
    fn suite(&mut self, project: &Project, package: &Package) -> Result<(), InitError> {
        let target = project.suite_target();
        let tests = package.folder().join("tests");
        let places = [tests.join(format!("{target}.rs")), tests.join(target).join("main.rs")];
        let from_root = |path: &Path| path.strip_prefix(self.root).unwrap_or(path).to_owned();
        let Some(found) = places.iter().find(|place| place.exists()) else {
            if package.has_target("test", Some(target)) {
                // Its `[[test]]` names another path.
                return Ok(());
            }
            let root =
                relative(package.folder(), &self.root.canonicalize().unwrap_or_else(|_| self.root.into()));
            let (specs, fixtures) = (from_root(&project.spec_root()), from_root(&project.own_fixture_root()));
            return self.new_file(&from_root(&places[0]), "the suite", || {
                texts::suite(&root, &specs.to_string_lossy(), &fixtures.to_string_lossy())
            });
        };
        let text = changes::read(found)
            .map_err(|source| InitError::Read { path: found.clone(), source })?
            .unwrap_or_default();
        if !text.contains("mlx_parity") {
            self.conflicts.push(format!(
                "`{}` is a test of your own, not a suite: rename it, or choose another name for the suite with `suite = \
                 \"…\"` in `[workspace.metadata.parity]` (in a single package: `[package.metadata.parity]`)",
                from_root(found).display()
            ));
        }
        Ok(())
    }
}

/// Makes the lock of environments that the project declares itself, if it has none.
fn lock_environments(project: &Project) -> Result<(), CliError> {
    let Some(folder) = project.references_folder() else { return Ok(()) };
    if folder.join(LOCK).exists() || !folder.join("pyproject.toml").exists() {
        return Ok(());
    }
    let uv = Uv::find(project)?;
    uv.lock(&folder)?;
    say(&format!("{} made `{}`\n", uv.name(), folder.join(LOCK).display()));
    Ok(())
}

/// What works differently than people expect, although everything was written.
fn notes(project: &Project, package: &Package) -> Vec<String> {
    let mut notes = Vec::new();
    let two = mlx_rs_versions::declared(package).or_else(|| mlx_rs_versions::locked(project.root()));
    notes.extend(two.map(|two| format!("{two}. To do: {}", mlx_rs_versions::next())));
    if !package.has_target("lib", None) {
        notes.push(format!(
            "package `{}` has no library, and tests can import only a library: move the port into `src/lib.rs`",
            package.name
        ));
    }
    notes
}

fn next_steps(suite: &str) -> String {
    let program = program();
    let (setup, start) = match std::env::consts::OS {
        "linux" => (
            format!("  {program} setup\n      builds MLX's CPU backend into .parity/, once\n"),
            "when `setup` has ended, start it",
        ),
        _ => (String::new(), "start it now,"),
    };
    format!(
        "\nnext:\n{setup}  cargo test --test {suite} --no-run\n      \
         compiles the suite, which takes minutes the first time: {start} in another terminal\n  {program} new-spec my_model/block --from exporter/references/my_model.py\n      \
         writes a spec with every golden that your reference script records; without a script:\n      \
         {program} new-spec my_model/block --template llm\n  {}\n      \
         runs the suite; until a spec exists, it is red and says so\n",
        suite_command()
    )
}
