//! The specs of a bench: per fault, the original spec with the port of the fault and the same fixtures.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use mlx_parity_core::spec::{POLICIES, Spec};

/// The folder for the specs of faults, so that no spec has its run folder inside that of another.
const FAULTS: &str = "fault";

/// Why the specs could not be written.
#[derive(Debug, Error)]
pub(crate) enum WriteError {
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write `{path}`")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("`{path}` has no line that begins with `port:`, which the bench replaces")]
    NoPort { path: PathBuf },
}

/// The id of the spec for a fault. The fault of a twin has a spec with all twins: `fault/qwen3/variants/eps+padded`.
pub(super) fn id_of(spec: &Spec, fault: &str) -> String {
    match spec.id.split_once('+') {
        Some((main, twin)) => format!("{FAULTS}/{main}/{fault}+{twin}"),
        None => format!("{FAULTS}/{}/{fault}", spec.id),
    }
}

/// The part of an id or of a port's name that stands for the main run, without the twin.
fn main_of(name: &str) -> &str {
    name.split_once('+').map_or(name, |(main, _)| main)
}

/// Writes each spec and the specs of its faults below `to`, with the policies of `from`.
pub(super) fn write(from: &Path, to: &Path, specs: &[(&Spec, Vec<&str>)]) -> Result<(), WriteError> {
    let policies = from.join(POLICIES);
    if policies.is_file() {
        put(&to.join(POLICIES), &read(&policies)?)?;
    }
    for (spec, faults) in specs {
        let text = read(&spec.path)?;
        let as_id = |id: &str| to.join(format!("{}.yaml", main_of(id)));
        let port = main_of(&spec.port);
        put(&as_id(&spec.id), &with_port(&text, spec, port)?)?;
        for fault in faults {
            let text = with_port(&text, spec, &format!("{port}/{fault}"))?;
            put(&as_id(&id_of(spec, fault)), &text)?;
        }
    }
    Ok(())
}

/// The text of a spec with another port. It names its fixtures, because their default depends on the id.
fn with_port(text: &str, spec: &Spec, port: &str) -> Result<String, WriteError> {
    let mut is_there = false;
    let mut lines = String::new();
    for line in text.lines() {
        if line.starts_with("fixtures:") {
            continue;
        }
        if line.starts_with("port:") {
            is_there = true;
            // A JSON string is also a YAML string.
            let [port, fixtures] =
                [port, &spec.fixtures].map(|text| serde_json::Value::from(text).to_string());
            lines.push_str(&format!("port: {port}\nfixtures: {fixtures}\n"));
            continue;
        }
        lines.push_str(line);
        lines.push('\n');
    }
    is_there.then_some(lines).ok_or_else(|| WriteError::NoPort { path: spec.path.clone() })
}

fn read(path: &Path) -> Result<String, WriteError> {
    mlx_parity_core::files::regular::read_text(path, mlx_parity_core::files::regular::TEXT)
        .map_err(|source| WriteError::Read { path: path.to_owned(), source })
}

fn put(path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |source| WriteError::Write { path: path.to_owned(), source };
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::spec::Specs;

    const SPEC: &str = "version: 1\nport: m::b # the port\nreference: {script: r.py}\ncheckpoints:\n  \
        - {name: a, dtype: float32, policy: fp32}\n";
    const FP32: &str = "version: 1\npolicies: {fp32: {rtol: 1e-5, atol: 1e-5, dtypes: [float32]}}\n";

    #[test]
    fn a_fault_has_the_spec_with_another_port() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("specs"), root.path().join("bench"));
        put(&from.join(POLICIES), FP32).unwrap();
        put(&from.join("m/b.yaml"), SPEC).unwrap();
        let twin = SPEC.replace("checkpoints", "fixtures: m/b\ncheckpoints");
        put(&from.join("m/twin.yaml"), &twin).unwrap();
        let specs = Specs::load(&from).specs;
        let rows: Vec<_> = specs.iter().map(|spec| (spec, vec!["eps"])).collect();
        write(&from, &to, &rows).unwrap();

        let Specs { specs, broken, .. } = Specs::load(&to);
        assert_eq!(broken, []);
        let found: Vec<_> =
            specs.iter().map(|s| (s.id.as_str(), s.port.as_str(), s.fixtures.as_str())).collect();
        assert_eq!(
            found,
            [
                ("fault/m/b/eps", "m::b/eps", "m/b"),
                ("fault/m/twin/eps", "m::b/eps", "m/b"),
                ("m/b", "m::b", "m/b"),
                ("m/twin", "m::b", "m/b"),
            ]
        );
    }
}
