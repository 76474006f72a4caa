//! What references can import: which packages, in which version, and from where.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use serde_json::json;

use super::Check;
use crate::cli::Project;
use crate::cli::references::{ReferencesError, Runner, declared_packages, groups, is_made, made, on_machine};
use crate::report::error_chain;
use crate::spec::Specs;

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
struct Package {
    name: String,
    version: Option<String>,
    from: Option<PathBuf>,
    home: Option<PathBuf>,
    shadowed: bool,
    editable: bool,
}

pub(super) fn checks(project: &Project) -> Vec<Check> {
    let folders = script_folders(project);
    let Some(locked) = project.references_folder() else {
        return match on_machine(project) {
            Ok(Some(runner)) => look(&runner, &folders, &EXPORTER.map(str::to_owned), "references"),
            Ok(None) => vec![Check::ok(
                "references",
                "their packages are not installed; `cargo xtask test` or `regenerate-fixtures` does it",
            )],
            // The machine's Python was told of already.
            Err(_) => Vec::new(),
        };
    };
    environments(project, &locked, &folders)
        .unwrap_or_else(|error| vec![Check::wrong("references", error_chain(&error), error.next())])
}

/// One line for each package of each environment that was made, and one for each that was not.
fn environments(
    project: &Project,
    locked: &Path,
    folders: &[PathBuf],
) -> Result<Vec<Check>, ReferencesError> {
    let mut checks = Vec::new();
    for group in std::iter::once(None).chain(groups(locked)?.into_iter().map(Some)) {
        let group = group.as_deref();
        let name = format!("references{}", group.map(|group| format!(" {group}")).unwrap_or_default());
        let Some(runner) = made(project, group) else {
            let found = "not installed; `cargo xtask regenerate-fixtures` does it when a script needs it";
            checks.push(Check::ok(name, found));
            continue;
        };
        if !is_made(project, locked, group) {
            let found = "installed from another lock than there is now";
            checks.push(Check::warn(
                &name,
                found,
                "`cargo xtask regenerate-fixtures` brings it up to date when a script needs it",
            ));
        }
        // Another lock than there is now was warned of already, and is brought up to date before anything runs.
        else if let Err(error) = runner.check_lock() {
            let next = "`cargo xtask regenerate-fixtures` brings it back to the lock when a script needs it; before that, \
                nothing is made with it";
            checks.push(Check::wrong(&name, error_chain(&error), Some(next.into())));
        }
        let mut packages = declared_packages(locked, group)?;
        let needed = EXPORTER.map(str::to_owned).into_iter().filter(|name| !packages.contains(name));
        packages.extend(needed.collect::<Vec<_>>());
        checks.extend(look(&runner, folders, &packages, &name));
    }
    Ok(checks)
}

/// The folders that scripts lie in; Python imports from there before anywhere else.
fn script_folders(project: &Project) -> Vec<PathBuf> {
    let specs = Specs::load(&project.spec_root()).specs;
    let scripts = specs.iter().filter_map(|spec| Some(project.root().join(&spec.reference.as_ref()?.script)));
    let folders: BTreeSet<PathBuf> =
        scripts.filter_map(|script| script.parent().map(Path::to_owned)).collect();
    folders.into_iter().collect()
}

fn look(runner: &Runner, folders: &[PathBuf], packages: &[String], name: &str) -> Vec<Check> {
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
        // A child that ended early says why on its own.
        let _ = written;
        child.wait_with_output()
    });
    let found: Vec<Package> = match output {
        Ok(output) => match serde_json::from_slice(&output.stdout) {
            Ok(found) => found,
            Err(_) => {
                let said = crate::cli::python::last_lines(&output.stderr);
                return vec![Check::wrong(
                    name,
                    format!("its Python does not work: {said}"),
                    Some(REMAKE.into()),
                )];
            }
        },
        Err(error) => {
            return vec![Check::wrong(
                name,
                format!("its Python does not start: {error}"),
                Some(REMAKE.into()),
            )];
        }
    };
    found.iter().map(|package| told(package, name, runner.is_locked())).collect()
}

/// The exporter and what it needs.
const EXPORTER: [&str; 3] = ["parity-export", "numpy", "safetensors"];

const REMAKE: &str = "remove `.parity/references`; `cargo xtask regenerate-fixtures` makes it again";

fn told(package: &Package, name: &str, locked: bool) -> Check {
    let subject = format!("{name}: {}", package.name);
    let version = package.version.as_deref().unwrap_or("not installed, but there");
    match (&package.from, &package.home) {
        (None, _) => {
            let install = || format!("install it for that Python: `python3 -m pip install {}`", package.name);
            Check::wrong(subject, "cannot be imported", Some(if locked { REMAKE.into() } else { install() }))
        }
        (Some(from), Some(home)) if package.shadowed => Check::wrong(
            subject,
            format!("{version} is installed in `{}`, but imported from `{}`", home.display(), from.display()),
            Some("rename or remove what is in the way, or unset PYTHONPATH".into()),
        ),
        (Some(from), _) => {
            let editable = if package.editable { ", editable" } else { "" };
            Check::ok(subject, format!("{version}{editable}, from `{}`", from.display()))
        }
    }
}
