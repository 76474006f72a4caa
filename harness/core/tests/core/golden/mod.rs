//! Fixture sets: a sound one in a temporary folder, for tests that read it, damage it or change it.

mod access;
mod changes;
mod external;
mod problems;
mod recipes;

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use mlx_parity_core::golden::{ChecksumMemory, FixtureError, FixtureSet, made_by_key};
use mlx_parity_core::tensor::{Dtype, TensorView, write_npy};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

const SCRIPT: &[u8] = b"print('reference')\n";
const SET: &str = "gated_mlp/block";

/// A sound set in a temporary folder: goldens in safetensors, an input in npy, weights in npz.
struct Fixture {
    root: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { root: tempfile::tempdir().unwrap() };
        let folder = fixture.folder();
        fs::create_dir_all(&folder).unwrap();
        let norm: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let hidden: Vec<u8> = (0..4i32).flat_map(i32::to_le_bytes).collect();
        fs::write(fixture.path("goldens.safetensors"), goldens(&norm)).unwrap();
        let turned: Vec<u8> = [0i32, 2, 1, 3].into_iter().flat_map(i32::to_be_bytes).collect();
        let view = TensorView::new(Dtype::Int32, &[2, 2], &turned).unwrap().fortran().big_endian();
        write_npy(fixture.path("hidden.npy"), &view).unwrap();
        let scratch = fixture.root.path().join("w.npy");
        write_npy(&scratch, &TensorView::new(Dtype::Uint8, &[3], &[7, 8, 9]).unwrap()).unwrap();
        let mut zip = zip::ZipWriter::new(File::create(fixture.path("weights.npz")).unwrap());
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file("proj.weight.npy", stored).unwrap();
        zip.write_all(&fs::read(&scratch).unwrap()).unwrap();
        zip.finish().unwrap();

        let key = made_by_key(&reference(), SCRIPT);
        fixture.write_manifest(&json!({
            "format": 1,
            "made_by": {"key": key, "script": "exporter/references/x.py", "source": "pkg:Mlp", "params": {"dim": 3}},
            "provenance": {"python": "3.11"},
            "tensors": [
                {"name": "norm1", "role": "golden", "file": "goldens.safetensors", "dtype": "float32", "shape": [2, 3],
                 "sha256": sha(&norm), "sequence": 0, "floor": {"max": 1e-7, "rms": 2e-8}, "place": "x.py:Mlp.norm1"},
                {"name": "norm1@1", "role": "golden", "file": "goldens.safetensors", "dtype": "float32",
                 "shape": [2, 3], "sha256": sha(&norm), "sequence": 1},
                {"name": "hidden", "role": "input", "file": "hidden.npy", "dtype": "int32", "shape": [2, 2],
                 "sha256": sha(&hidden)},
                {"name": "w", "role": "weight", "file": "weights.npz", "key": "proj.weight", "dtype": "uint8",
                 "shape": [3], "sha256": sha(&[7, 8, 9])}
            ]
        }));
        fixture
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("fixtures").join(SET)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder().join(file)
    }

    fn write_manifest(&self, manifest: &Value) {
        fs::write(self.path("manifest.json"), serde_json::to_vec_pretty(manifest).unwrap()).unwrap();
    }

    fn edit_manifest(&self, at: &str, value: Value) {
        let text = fs::read(self.path("manifest.json")).unwrap();
        let mut manifest: Value = serde_json::from_slice(&text).unwrap();
        *manifest.pointer_mut(at).unwrap() = value;
        self.write_manifest(&manifest);
    }

    fn edit(&self, file: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(file)).unwrap();
        edit(&mut bytes);
        fs::write(self.path(file), bytes).unwrap();
    }

    fn open(&self) -> Result<FixtureSet, FixtureError> {
        FixtureSet::open(&self.root.path().join("fixtures"), SET)
    }

    fn verify(&self) -> Vec<FixtureError> {
        match self.open() {
            Ok(set) => set.verify(&mut ChecksumMemory::default()),
            Err(error) => vec![error],
        }
    }
}

fn goldens(norm: &[u8]) -> Vec<u8> {
    let header = r#"{"norm1":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"norm1@1":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), norm, norm].concat()
}

fn reference() -> Value {
    json!({"script": "exporter/references/x.py", "source": "pkg:Mlp", "params": {"dim": 3}})
}

pub(super) fn sha(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
