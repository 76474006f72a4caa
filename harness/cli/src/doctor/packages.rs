//! The packages that references can import: their versions, and where they come from.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use serde_json::json;

use super::DoctorCheck;
use crate::Project;
use crate::error::CommandError;
use crate::references::{
    LOCK, ReferencesError, Runner, declared_packages, groups, is_made, made, on_machine,
};
use mlx_parity_core::spec::Specs;
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::program::program;

/// Looks each package up as a script would, without importing it.
const LOOK: &str = r#"
import importlib.metadata as metadata, importlib.util as util, json, os, sys
asked = json.load(sys.stdin)
sys.path[:1] = asked["folders"]
owners = metadata.packages_distributions()
def plain(name):
    return name.lower().replace("-", "_").replace(".", "_")
def look(name):
    modules = [module for module, names in owners.items() if plain(name) in map(plain, names) and not module.startswith("_")]
    module = plain(name) if plain(name) in modules or not modules else sorted(modules)[0]
    try:
        distribution = metadata.distribution(name)
        version, home = distribution.version, os.path.realpath(distribution.locate_file(""))
        editable = '"editable": true' in (distribution.read_text("direct_url.json") or "").replace('":true', '": true')
    except metadata.PackageNotFoundError:
        version, home, editable = None, None, False
    try:
        spec = util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    origin = None
    if spec is not None:
        origin = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
    real = os.path.realpath(origin) if origin else None
    shadowed = bool(home and real and not editable and not real.startswith(home + os.sep))
    return {"name": name, "version": version, "from": real, "home": home, "shadowed": shadowed, "editable": editable}
print(json.dumps([look(name) for name in asked["packages"]]))
"#;

#[derive(Debug, Deserialize)]
struct ImportedPackage {
    name: String,
    version: Option<String>,
    from: Option<PathBuf>,
    home: Option<PathBuf>,
    shadowed: bool,
    editable: bool,
}

pub(super) fn checks(project: &Project) -> Vec<DoctorCheck> {
    let folders = script_folders(project);
    let Some(locked) = project.references_folder() else {
        return match on_machine(project) {
            Ok(Some(runner)) => {
                let mut checks: Vec<DoctorCheck> = bundled(project).into_iter().collect();
                checks.extend(look_up(&runner, &folders, &needed(project), "references"));
                checks
            }
            Ok(None) => vec![DoctorCheck::ok(
                "references",
                format!(
                    "their packages are not installed; `{} test` or `regenerate-fixtures` installs them",
                    program()
                ),
            )],
            // The check of Python reports it already.
            Err(_) => Vec::new(),
        };
    };
    environments(project, &locked, &folders)
        .unwrap_or_else(|error| vec![DoctorCheck::wrong("references", error_chain(&error), error.next())])
}

/// One check per package of each environment that was made, and one per environment that was not.
fn environments(
    project: &Project,
    locked: &Path,
    folders: &[PathBuf],
) -> Result<Vec<DoctorCheck>, ReferencesError> {
    let lock = locked.join(LOCK);
    if !lock.is_file() {
        return Err(ReferencesError::NoLock { folder: locked.to_owned() });
    }
    let mut checks: Vec<DoctorCheck> = bundled(project).into_iter().collect();
    for group in std::iter::once(None).chain(groups(locked)?.into_iter().map(Some)) {
        let group = group.as_deref();
        let name = format!("references{}", group.map(|group| format!(" {group}")).unwrap_or_default());
        let Some(runner) = made(project, group) else {
            let found = format!(
                "not installed; `{} regenerate-fixtures` installs it when a script needs it",
                program()
            );
            checks.push(DoctorCheck::ok(name, found));
            continue;
        };
        if !is_made(project, locked, group) {
            let found = "installed from a different uv.lock";
            checks.push(DoctorCheck::warn(
                &name,
                found,
                format!("`{} regenerate-fixtures` updates it when a script needs it", program()),
            ));
        }
        // The warning above covers an environment from another lock, which is updated before anything runs.
        else if let Err(error) = runner.check_lock() {
            let next = format!(
                "`{} regenerate-fixtures` restores it from the lock before it runs a script",
                program()
            );
            checks.push(DoctorCheck::wrong(&name, error_chain(&error), Some(next)));
        }
        let mut packages = declared_packages(locked, group)?;
        let needed = needed(project).into_iter().filter(|name| !packages.contains(name));
        packages.extend(needed.collect::<Vec<_>>());
        if project.exporter_folder().is_none() {
            packages.retain(|name| name != EXPORTER);
        }
        checks.extend(look_up(&runner, folders, &packages, &name));
    }
    Ok(checks)
}

/// The folders of the scripts; Python imports from there first.
fn script_folders(project: &Project) -> Vec<PathBuf> {
    let specs = Specs::load(&project.spec_root()).specs;
    let scripts = specs.iter().filter_map(|spec| Some(project.root().join(&spec.reference.as_ref()?.script)));
    let folders: BTreeSet<PathBuf> =
        scripts.filter_map(|script| script.parent().map(Path::to_owned)).collect();
    folders.into_iter().collect()
}

fn look_up(runner: &Runner, folders: &[PathBuf], packages: &[String], name: &str) -> Vec<DoctorCheck> {
    let asked = json!({"packages": packages, "folders": folders}).to_string();
    let mut command = runner.command();
    let child = command
        .args(["-c", LOOK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = child.and_then(|mut child| {
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(asked.as_bytes()));
        // A child that ended early prints its reason to stderr.
        let _ = written;
        child.wait_with_output()
    });
    let found: Vec<ImportedPackage> = match output {
        Ok(output) => match serde_json::from_slice(&output.stdout) {
            Ok(found) => found,
            Err(_) => {
                let reason = crate::python::last_lines(&output.stderr);
                return vec![DoctorCheck::wrong(
                    name,
                    format!("its Python does not work: {reason}"),
                    Some(remake()),
                )];
            }
        },
        Err(error) => {
            return vec![DoctorCheck::wrong(
                name,
                format!("its Python does not start: {error}"),
                Some(remake()),
            )];
        }
    };
    found.iter().map(|package| package_check(package, name, runner.is_locked())).collect()
}

/// The exporter, as a Python package.
const EXPORTER: &str = "parity-export";

/// The packages that every script needs: those of the exporter, and the project's own exporter if it has one.
fn needed(project: &Project) -> Vec<String> {
    let own = project.exporter_folder().map(|_| EXPORTER);
    own.into_iter().chain(["numpy", "safetensors"]).map(str::to_owned).collect()
}

/// The exporter in this program, for a project that has none. It is unpacked when a script needs it.
fn bundled(project: &Project) -> Option<DoctorCheck> {
    let found = format!("{}, part of this program", env!("CARGO_PKG_VERSION"));
    project.exporter_folder().is_none().then(|| DoctorCheck::ok(format!("references: {EXPORTER}"), found))
}

fn remake() -> String {
    format!("remove `.parity/references`; `{} regenerate-fixtures` makes it again", program())
}

fn package_check(package: &ImportedPackage, name: &str, locked: bool) -> DoctorCheck {
    let subject = format!("{name}: {}", package.name);
    let version = package.version.as_deref().unwrap_or("not an installed package");
    match (&package.from, &package.home) {
        (None, _) => {
            let next = if locked {
                remake()
            } else if package.name == EXPORTER {
                // The name is not registered on PyPI, so anybody could register it.
                "correct the key `exporter` in `[workspace.metadata.parity]`, or remove it to use the exporter of this \
                 program"
                    .to_owned()
            } else {
                format!(
                    "run `{} init`, which writes locked environments for references; or install it for that Python: \
                     `python3 -m pip install {}`",
                    program(),
                    package.name
                )
            };
            DoctorCheck::wrong(subject, "cannot be imported", Some(next))
        }
        (Some(from), Some(home)) if package.shadowed => DoctorCheck::wrong(
            subject,
            format!("{version} is installed in `{}`, but imported from `{}`", home.display(), from.display()),
            Some("rename or remove the file that is imported instead, or unset PYTHONPATH".into()),
        ),
        (Some(from), _) => {
            let editable = if package.editable { ", editable" } else { "" };
            DoctorCheck::ok(subject, format!("{version}{editable}, from `{}`", from.display()))
        }
    }
}
