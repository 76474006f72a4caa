//! Which environment a script says it needs, and which there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::ReferencesError;
use crate::regular;

const MARK: &str = "# parity:";

/// The environment that a script asks for with a line `# parity: environment = "torch"`; of one that asks for none, that
/// of the project in `folder`: `environment` in `[tool.parity]` of its `pyproject.toml`, or none.
pub(crate) fn environment_of(script: &Path, folder: &Path) -> Result<Option<String>, ReferencesError> {
    let text = regular::read(script, regular::TEXT)
        .map_err(|source| ReferencesError::Read { path: script.to_owned(), source })?;
    let named = declared(&String::from_utf8_lossy(&text)).map_err(|(line, found, said)| {
        ReferencesError::Line { script: script.to_owned(), line, found, said }
    })?;
    Ok(match named {
        Some(named) => Some(named),
        None => Manifest::read(folder)?.tool.parity.environment,
    })
}

fn declared(text: &str) -> Result<Option<String>, (usize, String, String)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Said {
        environment: String,
    }
    let mut found = None;
    for (index, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix(MARK) else { continue };
        let wrong = |said: String| (index + 1, line.to_owned(), said);
        let said: Said = toml::from_str(rest.trim()).map_err(|error| {
            // What TOML takes a bare word for helps nobody.
            let known = error.message().contains(" field");
            wrong(if known { error.message().to_owned() } else { "the name must be in quotes".into() })
        })?;
        if found.replace(said.environment).is_some() {
            return Err(wrong("it is there twice".into()));
        }
    }
    Ok(found)
}

/// The groups that a project of references has, in order of their names.
pub(crate) fn groups(folder: &Path) -> Result<Vec<String>, ReferencesError> {
    Ok(Manifest::read(folder)?.groups.into_keys().collect())
}

/// The packages that a project names for a group, those for every group first; without what they need themselves.
pub(crate) fn declared_packages(folder: &Path, group: Option<&str>) -> Result<Vec<String>, ReferencesError> {
    let manifest = Manifest::read(folder)?;
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
                Entry::Package(text) => found.extend(package(text)),
                Entry::Include { group } => open.push(group),
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

/// What is read of a project of references.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    project: Project,
    #[serde(default, rename = "dependency-groups")]
    groups: BTreeMap<String, Vec<Entry>>,
    #[serde(default)]
    tool: Tool,
}

#[derive(Default, Deserialize)]
struct Tool {
    #[serde(default)]
    parity: Settings,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    environment: Option<String>,
}

#[derive(Default, Deserialize)]
struct Project {
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Package(String),
    Include {
        #[serde(rename = "include-group")]
        group: String,
    },
}

impl Manifest {
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
    fn what_is_not_understood_is_an_error_with_its_line() {
        for (text, line, words) in [
            ("# parity: environment = torch\n", 1, "must be in quotes"),
            ("\n# parity: envronment = \"torch\"\n", 2, "unknown field `envronment`"),
            ("# parity:\n", 1, "missing field `environment`"),
            ("# parity: environment = \"a\"\n# parity: environment = \"b\"\n", 2, "twice"),
        ] {
            let (found, _, said) = declared(text).unwrap_err();
            assert_eq!(found, line);
            assert!(said.contains(words), "{said}");
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
