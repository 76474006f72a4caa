//! The environment that a script names, and the environments that a project has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::ReferencesError;
use mlx_parity_core::files::regular;

const MARK: &str = "# parity:";

/// The environment that a script names with a line `# parity: environment = "torch"`. A script without such a line gets the
/// one that `environment` in `[tool.parity]` of the `pyproject.toml` in `folder` names, or none.
pub(crate) fn environment_of(script: &Path, folder: &Path) -> Result<Option<String>, ReferencesError> {
    let text = regular::read(script, regular::TEXT)
        .map_err(|source| ReferencesError::Read { path: script.to_owned(), source })?;
    let named = declared(&String::from_utf8_lossy(&text)).map_err(|(line, found, reason)| {
        ReferencesError::Line { script: script.to_owned(), line, found, reason }
    })?;
    Ok(match named {
        Some(named) => Some(named),
        None => PyProject::read(folder)?.tool.parity.environment,
    })
}

fn declared(text: &str) -> Result<Option<String>, (usize, String, String)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct EnvironmentLine {
        environment: String,
    }
    let mut found = None;
    for (index, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix(MARK) else { continue };
        let wrong = |reason: String| (index + 1, line.to_owned(), reason);
        let line_keys: EnvironmentLine = toml::from_str(rest.trim()).map_err(|error| {
            // TOML's own message about a word without quotes helps nobody.
            let known = error.message().contains(" field");
            wrong(if known { error.message().to_owned() } else { "the name must be in quotes".into() })
        })?;
        if found.replace(line_keys.environment).is_some() {
            return Err(wrong("it appears twice".into()));
        }
    }
    Ok(found)
}

/// The groups that a project of references has, in order of their names.
pub(crate) fn groups(folder: &Path) -> Result<Vec<String>, ReferencesError> {
    Ok(PyProject::read(folder)?.groups.into_keys().collect())
}

/// The packages that a project declares for a group, without their own dependencies; those for every group come first.
pub(crate) fn declared_packages(folder: &Path, group: Option<&str>) -> Result<Vec<String>, ReferencesError> {
    let manifest = PyProject::read(folder)?;
    let mut found: Vec<String> =
        manifest.project.dependencies.iter().filter_map(|text| package(text)).collect();
    let mut open: Vec<&str> = group.into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(group) = open.pop() {
        if !seen.insert(group) {
            continue;
        }
        for entry in manifest.groups.get(group).into_iter().flatten() {
            match entry {
                GroupEntry::Package(text) => found.extend(package(text)),
                GroupEntry::Include { group } => open.push(group),
            }
        }
    }
    let mut unique = Vec::new();
    found.into_iter().for_each(|name| {
        if !unique.contains(&name) {
            unique.push(name)
        }
    });
    Ok(unique)
}

/// The parts of `pyproject.toml` that are used here.
#[derive(Deserialize)]
struct PyProject {
    #[serde(default)]
    project: ProjectTable,
    #[serde(default, rename = "dependency-groups")]
    groups: BTreeMap<String, Vec<GroupEntry>>,
    #[serde(default)]
    tool: ToolTable,
}

#[derive(Default, Deserialize)]
struct ToolTable {
    #[serde(default)]
    parity: ParityTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParityTable {
    environment: Option<String>,
}

#[derive(Default, Deserialize)]
struct ProjectTable {
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GroupEntry {
    Package(String),
    Include {
        #[serde(rename = "include-group")]
        group: String,
    },
}

impl PyProject {
    fn read(folder: &Path) -> Result<Self, ReferencesError> {
        let path = folder.join("pyproject.toml");
        let text = regular::read_text(&path, regular::TEXT)
            .map_err(|source| ReferencesError::Read { path: path.clone(), source })?;
        toml::from_str(&text).map_err(|source| ReferencesError::Toml { path, source: Box::new(source) })
    }
}

/// The name in a requirement, unless it is for another system.
fn package(requirement: &str) -> Option<String> {
    let (wanted, marker) = requirement.split_once(';').unwrap_or((requirement, ""));
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    if marker.contains("sys_platform ==") && !marker.contains(&format!("'{system}'")) {
        return None;
    }
    let end = wanted.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).unwrap_or(wanted.len());
    (end > 0).then(|| wanted[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_script_names_its_environment_in_a_comment() {
        assert_eq!(declared("import torch\n"), Ok(None));
        assert_eq!(
            declared("\"\"\"A model.\"\"\"\n# parity: environment = \"torch\"\n"),
            Ok(Some("torch".into()))
        );
        assert_eq!(declared("    # parity: nothing at the start of a line\n"), Ok(None));
    }

    #[test]
    fn a_wrong_line_is_an_error_with_its_number() {
        for (text, line, words) in [
            ("# parity: environment = torch\n", 1, "must be in quotes"),
            ("\n# parity: envronment = \"torch\"\n", 2, "unknown field `envronment`"),
            ("# parity:\n", 1, "missing field `environment`"),
            ("# parity: environment = \"a\"\n# parity: environment = \"b\"\n", 2, "twice"),
        ] {
            let (found, _, reason) = declared(text).unwrap_err();
            assert_eq!(found, line);
            assert!(reason.contains(words), "{reason}");
        }
    }

    #[test]
    fn packages_come_with_the_groups_that_a_group_includes() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"
            [project]
            dependencies = ["parity-export"]
            [dependency-groups]
            numpy = ["numpy==2.4.6", "ml-dtypes>=0.6"]
            mlx = [{ include-group = "numpy" }, "mlx[cpu]==0.32.2; sys_platform == 'linux'", "mlx==0.32.2; sys_platform == 'darwin'",
                   "never; sys_platform == 'win32'"]
        "#;
        fs::write(folder.path().join("pyproject.toml"), text).unwrap();
        assert_eq!(groups(folder.path()).unwrap(), ["mlx", "numpy"]);
        assert_eq!(declared_packages(folder.path(), None).unwrap(), ["parity-export"]);
        let found = declared_packages(folder.path(), Some("mlx")).unwrap();
        assert_eq!(found, ["parity-export", "mlx", "numpy", "ml-dtypes"]);
    }

    #[test]
    fn a_project_names_the_environment_of_scripts_that_name_none() {
        let folder = tempfile::tempdir().unwrap();
        let (script, project) = (folder.path().join("a.py"), folder.path().join("pyproject.toml"));
        fs::write(&script, "import torch\n").unwrap();
        fs::write(&project, "").unwrap();
        assert_eq!(environment_of(&script, folder.path()).unwrap(), None);
        fs::write(&project, "[tool.parity]\nenvironment = \"torch\"\n").unwrap();
        assert_eq!(environment_of(&script, folder.path()).unwrap().as_deref(), Some("torch"));
        fs::write(&script, "# parity: environment = \"numpy\"\n").unwrap();
        assert_eq!(environment_of(&script, folder.path()).unwrap().as_deref(), Some("numpy"));
        fs::write(&project, "[tool.parity]\nenviroment = \"torch\"\n").unwrap();
        assert!(groups(folder.path()).unwrap_err().to_string().contains("unknown field `enviroment`"));
    }
}
