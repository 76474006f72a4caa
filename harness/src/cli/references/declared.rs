//! Which environment a script says it needs, and which there are.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::ReferencesError;

const MARK: &str = "# parity:";

/// The environment that a script asks for with a line `# parity: environment = "torch"`; none when it asks for none.
pub(crate) fn environment_of(script: &Path) -> Result<Option<String>, ReferencesError> {
    let text =
        fs::read(script).map_err(|source| ReferencesError::Read { path: script.to_owned(), source })?;
    declared(&String::from_utf8_lossy(&text)).map_err(|(line, found, said)| ReferencesError::Line {
        script: script.to_owned(),
        line,
        found,
        said,
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
        let said: Said = toml::from_str(rest.trim()).map_err(|error| wrong(error.message().to_owned()))?;
        if found.replace(said.environment).is_some() {
            return Err(wrong("it is there twice".into()));
        }
    }
    Ok(found)
}

/// The groups that a project of references has, in order of their names.
pub(crate) fn groups(folder: &Path) -> Result<Vec<String>, ReferencesError> {
    #[derive(Deserialize)]
    struct Project {
        #[serde(default, rename = "dependency-groups")]
        groups: std::collections::BTreeMap<String, toml::Value>,
    }
    let path = folder.join("pyproject.toml");
    let text =
        fs::read_to_string(&path).map_err(|source| ReferencesError::Read { path: path.clone(), source })?;
    let project: Project =
        toml::from_str(&text).map_err(|source| ReferencesError::Toml { path, source: Box::new(source) })?;
    Ok(project.groups.into_keys().collect())
}

#[cfg(test)]
mod tests {
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
            ("# parity: environment = torch\n", 1, "torch"),
            ("\n# parity: envronment = \"torch\"\n", 2, "unknown field `envronment`"),
            ("# parity:\n", 1, "missing field `environment`"),
            ("# parity: environment = \"a\"\n# parity: environment = \"b\"\n", 2, "twice"),
        ] {
            let (found, _, said) = declared(text).unwrap_err();
            assert_eq!(found, line);
            assert!(said.contains(words), "{said}");
        }
    }
}
