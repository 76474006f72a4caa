//! The files of the tutorial's crate. The learner changes two of them, the port and the spec, which have a version per
//! change.

use std::fs;
use std::path::Path;

use super::error::TutorialError;
use super::source::dependencies;
use crate::init::CrateSource;
use mlx_parity_core::files::atomic::write_atomically;

/// The port, from the tutorial's folder.
pub(super) const PORT: &str = "src/lib.rs";
/// The spec.
pub(super) const SPEC: &str = "parity-specs/gated_mlp/block.yaml";
/// The accepted statistics, which the learner's own command writes.
pub(super) const SNAPSHOT: &str = "tests/snapshots/gated_mlp__block.snap";

/// The mistake, and the line without it.
const WRONG_EPS: &str = ".eps(1e-5)";
const RIGHT_EPS: &str = ".eps(1e-6)";
/// The line of the port that gets a tap.
const WITHOUT_TAP: &str = "let gated = gate.multiply(&up)?;";
const WITH_TAP: &str = "let gated = tap(\"gated\", gate.multiply(&up)?)?;";
/// The checkpoint that the learner declares, before the last one.
const GATED: &str = "  - {name: gated, dtype: float32, shape: [1, tokens, hidden], noise: 8}\n";
const OUT: &str = "  - {name: out,";
/// The gate that lets mistakes through, and the one that does not.
const LOOSE: &str = "rtol: 2e-2, atol: 1e-3, why: as in an old test";
const TIGHT: &str = "noise: 8";

/// What the learner has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// The port has the reference's eps.
    pub(super) eps: bool,
    /// The port taps `gated`, and the spec declares it.
    pub(super) gated: bool,
    /// The gate of `out` is tight.
    pub(super) gate: bool,
}

impl Changes {
    /// All changes: the files after the last step.
    pub(super) const FINISHED: Self = Self { eps: true, gated: true, gate: true };

    /// The port with these changes.
    pub(super) fn port(self) -> String {
        let text = include_str!("crate/port.rs");
        let text = if self.eps { text.replacen(WRONG_EPS, RIGHT_EPS, 1) } else { text.to_owned() };
        if self.gated { text.replacen(WITHOUT_TAP, WITH_TAP, 1) } else { text }
    }

    /// The spec with these changes.
    pub(super) fn spec(self) -> String {
        let text = include_str!("crate/spec.yaml");
        let text = if self.gated { text.replacen(OUT, &format!("{GATED}{OUT}"), 1) } else { text.to_owned() };
        if self.gate { text.replacen(LOOSE, TIGHT, 1) } else { text }
    }

    /// Every combination of changes.
    fn all() -> impl Iterator<Item = Self> {
        (0..8).map(|bits| Self { eps: bits & 1 != 0, gated: bits & 2 != 0, gate: bits & 4 != 0 })
    }
}

/// Returns whether `text` is one of the tutorial's own versions of the port or the spec.
pub(super) fn is_own_version(text: &str) -> bool {
    Changes::all().any(|changes| text == changes.port() || text == changes.spec())
}

/// Returns every file of the crate, from the folder: its path and its bytes. `mlx` is the Cargo configuration of a
/// finished set-up of MLX elsewhere; without it, the crate has its own set-up.
pub(super) fn all(
    changes: Changes,
    source: &CrateSource,
    mlx: Option<&Path>,
) -> Result<Vec<(&'static str, Vec<u8>)>, TutorialError> {
    macro_rules! fixture {
        ($name:literal) => {
            (
                concat!("fixtures/gated_mlp/block/", $name),
                include_bytes!(concat!("crate/fixtures/", $name)).to_vec(),
            )
        };
    }
    Ok(vec![
        ("Cargo.toml", manifest(source, mlx.is_some()).into_bytes()),
        (".cargo/config.toml", configuration(mlx)?.into_bytes()),
        (".gitignore", b"/target\n/.parity\n".to_vec()),
        (PORT, changes.port().into_bytes()),
        ("tests/parity.rs", include_bytes!("crate/suite.rs").to_vec()),
        (SPEC, changes.spec().into_bytes()),
        ("exporter/references/gated_mlp_block.py", include_bytes!("crate/reference.py").to_vec()),
        fixture!("goldens.safetensors"),
        fixture!("inputs.safetensors"),
        fixture!("manifest.json"),
        fixture!("recipes.json"),
        fixture!("weights.safetensors"),
    ])
}

fn manifest(source: &CrateSource, has_mlx: bool) -> String {
    let dependencies = dependencies(source);
    // MLX is set up elsewhere, so commands need not.
    let setup = if has_mlx { "\n[workspace.metadata.parity]\nsetup = false\n" } else { "" };
    format!(
        "[package]\n\
         name = \"parity-tutorial\"\n\
         version = \"0.0.0\"\n\
         edition = \"2024\"\n\
         publish = false\n\n\
         # Without `harness = false`, the suite would never start.\n\
         [[test]]\n\
         name = \"parity\"\n\
         harness = false\n\n\
         {dependencies}\n\
         # Shorter builds. A crate with large goldens also optimises mlx-parity-tensor.\n\
         [profile.dev]\n\
         debug = \"line-tables-only\"\n\
         lto = \"off\"\n\n\
         [profile.dev.build-override]\n\
         debug = \"line-tables-only\"\n\n\
         # A workspace of its own, wherever its folder is.\n\
         [workspace]\n{setup}"
    )
}

fn configuration(mlx: Option<&Path>) -> Result<String, TutorialError> {
    let (about, path) = match mlx {
        Some(elsewhere) => ("MLX of another checkout, for Linux.", unicode(elsewhere)?),
        None => {
            ("On Linux, set-up builds MLX and writes this file.", "../.parity/mlx/config.toml".to_owned())
        }
    };
    Ok(format!(
        "# {about}\n\
         include = [{{ path = {}, optional = true }}]\n\n\
         [env]\n\
         # Without this, the matrix units of some chips round float32 to TF32.\n\
         MLX_ENABLE_TF32 = \"0\"\n",
        toml::Value::String(path)
    ))
}

fn unicode(path: &Path) -> Result<String, TutorialError> {
    path.to_str().map(str::to_owned).ok_or_else(|| TutorialError::Unicode { path: path.to_owned() })
}

/// Replaces a file, and makes its folder.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), TutorialError> {
    let failed = |source| TutorialError::write(path, source);
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    write_atomically(path, |out| out.write_all(bytes)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_change_is_made_exactly_once() {
        let (port, spec) = (Changes::default().port(), Changes::default().spec());
        for (text, part) in [(&port, WRONG_EPS), (&port, WITHOUT_TAP), (&spec, OUT), (&spec, LOOSE)] {
            assert_eq!(text.matches(part).count(), 1, "{part}");
        }
        let ports: BTreeSet<String> = Changes::all().map(Changes::port).collect();
        let specs: BTreeSet<String> = Changes::all().map(Changes::spec).collect();
        assert_eq!((ports.len(), specs.len()), (4, 4));
        assert!(ports.iter().chain(&specs).all(|text| is_own_version(text)));
        assert!(!is_own_version(&format!("{port}\n")));
    }

    #[test]
    fn the_finished_files_have_no_mistake_and_three_tight_checkpoints() {
        let changes = Changes::FINISHED;
        insta::assert_snapshot!("finished_spec", changes.spec());
        let port = changes.port();
        assert!(port.contains(RIGHT_EPS) && port.contains(WITH_TAP) && !port.contains(WRONG_EPS), "{port}");
    }

    #[test]
    fn manifest_and_configuration_are_valid_toml() {
        let source = CrateSource::Path("/a/b".into());
        for mlx in [None, Some(Path::new("/a/\"b\"/.parity/mlx/config.toml"))] {
            let files = all(Changes::default(), &source, mlx).unwrap();
            let text = |name: &str| {
                let (_, bytes) = files.iter().find(|(path, _)| *path == name).unwrap();
                String::from_utf8(bytes.clone()).unwrap()
            };
            let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
            let setup = manifest["workspace"].get("metadata").map(|table| table["parity"]["setup"].as_bool());
            assert_eq!(setup, mlx.map(|_| Some(false)));
            let config: toml::Table = text(".cargo/config.toml").parse().unwrap();
            let included = config["include"][0]["path"].as_str().unwrap();
            assert_eq!(Path::new(included), mlx.unwrap_or(Path::new("../.parity/mlx/config.toml")));
        }
    }
}
