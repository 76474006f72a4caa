//! `new-spec --from`: a spec, and a port to fill in, from what a reference script records.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::files::{SpecPaths, left_to_do, module, write};
use super::left_out::{left_out, usable};
use super::spec_text::SpecSource;
use super::taps::taps;
use super::{Arguments, NewSpecError};
use crate::references::Environments;
use crate::regenerate::{Listing, ListingRequest, RegenerateError, default_memory};
use crate::{CliError, Project, say};
use mlx_parity_core::files::regular::{TEXT, read_text};
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::spec::{Policies, Specs, bounds, parse_spec};

/// Runs the listing of the script, and writes the spec and the port.
pub(super) fn run(project: &Project, arguments: &Arguments, script: &Path) -> Result<(), CliError> {
    let script = from_root(project, script)?;
    let paths = SpecPaths::new(
        project,
        &arguments.name,
        arguments.port_dir.as_deref(),
        arguments.script_dir.as_deref(),
    )?
    .with_script(PathBuf::from(&script));
    super::check_free(project, [&paths.spec].into_iter())?;
    let listing = list(project, arguments, &script)?;
    let policies = Specs::load(&project.spec_root()).policies;
    let source = SpecSource {
        model: &paths.model,
        component: &paths.component,
        script: &script,
        listing: &listing,
        has_exact: policies.named.contains_key("exact"),
    };
    let lines = source.lines();
    if lines.is_empty() {
        return Err(NewSpecError::NoGoldens { script }.into());
    }
    let text = source.text();
    check(project, &paths, &text, &policies)?;
    let port = paths.port_text(
        project,
        &format!("        // The taps, in call order:\n{}", commented(&taps(&lines, ""))),
    );
    let has_port = std::fs::symlink_metadata(project.root().join(&paths.port)).is_ok();
    let mut files = vec![(paths.spec.clone(), text.clone())];
    if has_port {
        say(&format!("kept {}, which exists\n", paths.port.display()));
    } else {
        files.push((paths.port.clone(), port));
    }
    let all = [(paths, text)];
    files.extend(module(project, &all));
    super::check_free(project, files.iter().map(|(path, _)| path))?;
    for (path, text) in &files {
        write(project, path, text)?;
        say(&format!("wrote {}\n", path.display()));
    }
    let count: usize = usable(&listing.goldens).0.len();
    say(&format!("{} in {}\n", counted(count, "golden"), counted(lines.len(), "line")));
    let (_, left) = usable(&listing.goldens);
    for line in left_out(&left) {
        say(&format!("left out: {line}\n"));
    }
    for message in &listing.unmatched {
        say(&format!("recorded nothing: {message}; correct the name in `{script}`\n"));
    }
    say(&format!("\ntaps of the port, in call order:\n{}", taps(&lines, "  ")));
    say(&left_to_do(project, &all));
    Ok(())
}

/// Lists the script with the params of the arguments, under a limit of memory.
fn list(project: &Project, arguments: &Arguments, script: &str) -> Result<Listing, CliError> {
    let params = params(arguments)?;
    let mut environments = Environments::new(project, arguments.yes);
    let runner = environments.of(&project.root().join(script))?;
    let request = ListingRequest {
        script,
        source: None,
        params: &params,
        env: &[],
        external: None,
        timeout: bounds::DEFAULT_SCRIPT_TIMEOUT,
        memory: arguments.memory.unwrap_or_else(default_memory),
    };
    request.run(project, &runner).map_err(|error: RegenerateError| error.into())
}

/// The params of `--params`, and those of `--param` over them. A value is JSON, or else text.
fn params(arguments: &Arguments) -> Result<Map<String, Value>, NewSpecError> {
    let mut params = Map::new();
    if let Some(path) = &arguments.params {
        let text =
            read_text(path, TEXT).map_err(|source| NewSpecError::Read { path: path.clone(), source })?;
        params = serde_json::from_str(&text)
            .map_err(|source| NewSpecError::Params { path: path.clone(), source })?;
    }
    for text in &arguments.param {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| NewSpecError::Param { found: text.clone() })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        params.insert(name.to_owned(), value);
    }
    Ok(params)
}

/// Returns the path of the script from the project's root, as specs write it.
fn from_root(project: &Project, script: &Path) -> Result<String, NewSpecError> {
    let missing = |source| NewSpecError::Read { path: script.to_owned(), source };
    let full =
        script.canonicalize().or_else(|_| project.root().join(script).canonicalize()).map_err(missing)?;
    let root = project.root().canonicalize().map_err(missing)?;
    let outside = || NewSpecError::Outside { path: script.to_owned() };
    let path = full.strip_prefix(&root).map_err(|_| outside())?;
    let parts: Option<Vec<&str>> = path
        .components()
        .map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        })
        .collect();
    parts.map(|parts| parts.join("/")).ok_or_else(outside)
}

/// Makes sure that the text is a spec, so that a mistake here never becomes a broken file.
fn check(project: &Project, paths: &SpecPaths, text: &str, policies: &Policies) -> Result<(), NewSpecError> {
    let id = format!("{}/{}", paths.model, paths.component);
    parse_spec(&id, &project.root().join(&paths.spec), text, policies)
        .map(drop)
        .map_err(|error| NewSpecError::Unusable { problem: error.to_string() })
}

fn commented(text: &str) -> String {
    text.lines().map(|line| format!("        //   {line}\n")).collect()
}
