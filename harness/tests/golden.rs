//! For every way in which a fixture set can be wrong: the fault is planted, and exactly its class and words come back.
#![allow(clippy::unwrap_used, reason = "a helper that cannot set a test up fails it")]

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mlx_parity::Class;
use mlx_parity::golden::{ChecksumMemory, FileIdentity, FixtureError, FixtureSet, Role, Trust, made_by_key};
use mlx_parity::tensor::{Dtype, TensorView, write_npy};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

const SCRIPT: &[u8] = b"print('reference')\n";
const SET: &str = "gated_mlp/block";

/// A sound set in a folder of its own: goldens in safetensors, an input in npy, weights in npz.
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

fn sha(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_sound_set_hands_out_what_it_has() {
    let fixture = Fixture::new();
    let set = fixture.open().unwrap();
    assert_eq!(fixture.verify().len(), 0);
    set.check_fresh(&reference(), SCRIPT).unwrap();
    let golden = set.golden("norm1").unwrap();
    assert_eq!((golden.tensor.shape(), golden.sequence), (&[2, 3][..], 0));
    assert_eq!(golden.floor.unwrap().max, 1e-7);
    assert_eq!(golden.place.as_deref(), Some("x.py:Mlp.norm1"));
    assert_eq!(set.golden("norm1@1").unwrap().sequence, 1);
    assert_eq!(set.input("hidden").unwrap().dtype(), Dtype::Int32);
    assert_eq!(set.weight("w").unwrap().view().row_major_bytes(), Some(&[7, 8, 9][..]));
    assert_eq!(set.weights().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["w"]);
    assert_eq!(set.entries(Role::Golden).count(), 2);
    assert_eq!(set.manifest().provenance["python"], "3.11");
}

#[test]
fn every_fault_has_its_class_and_words() {
    type Fault = (&'static str, fn(&Fixture), Class, &'static str);
    const REGENERATE: &str = "run `cargo xtask regenerate-fixtures gated_mlp/block`";
    const PULL: &str = "run `git lfs pull`";
    const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let faults: &[Fault] = &[
        (
            "no folder",
            |f| fs::remove_dir_all(f.folder()).unwrap(),
            Class::Missing,
            "there are no fixtures at `",
        ),
        (
            "a file for a folder",
            |f| {
                fs::remove_dir_all(f.folder()).unwrap();
                fs::write(f.folder(), "").unwrap();
            },
            Class::Missing,
            "there are no fixtures at `",
        ),
        (
            "no manifest",
            |f| fs::remove_file(f.path("manifest.json")).unwrap(),
            Class::Missing,
            "there is no manifest at `",
        ),
        (
            "manifest is no JSON",
            |f| f.edit("manifest.json", |b| b.truncate(30)),
            Class::Corrupt,
            "manifest.json` cannot be used",
        ),
        (
            "manifest is a pointer",
            |f| fs::write(f.path("manifest.json"), POINTER).unwrap(),
            Class::Missing,
            "manifest.json` is a Git LFS pointer",
        ),
        (
            "manifest contradicts itself",
            |f| f.edit_manifest("/tensors/1/sequence", json!(0)),
            Class::Corrupt,
            "manifest.json` cannot be used",
        ),
        (
            "no file",
            |f| fs::remove_file(f.path("hidden.npy")).unwrap(),
            Class::Missing,
            "hidden.npy` is missing",
        ),
        (
            "truncated",
            |f| f.edit("goldens.safetensors", |b| b.truncate(b.len() - 1)),
            Class::Corrupt,
            "goldens.safetensors` is truncated",
        ),
        (
            "one bit",
            |f| f.edit("goldens.safetensors", |b| *b.last_mut().unwrap() ^= 1),
            Class::Corrupt,
            "`norm1@1` of `",
        ),
        ("one bit in the npz", |f| flip(f, "weights.npz", &[7, 8, 9]), Class::Corrupt, "has SHA-256 "),
        (
            "broken header",
            |f| f.edit("goldens.safetensors", |b| b[8] = b'['),
            Class::Corrupt,
            "goldens.safetensors` is corrupt",
        ),
        (
            "pointer",
            |f| fs::write(f.path("weights.npz"), POINTER).unwrap(),
            Class::Missing,
            "weights.npz` is a Git LFS pointer",
        ),
        (
            "other dtype",
            |f| f.edit_manifest("/tensors/2/dtype", json!("uint32")),
            Class::Corrupt,
            "hidden.npy` is int32, but the manifest says uint32",
        ),
        (
            "other shape",
            |f| f.edit_manifest("/tensors/0/shape", json!([3, 2])),
            Class::Corrupt,
            "goldens.safetensors` has shape [2, 3], but the manifest says [3, 2]",
        ),
        (
            "tensor not listed",
            |f| drop_tensor(f, 1),
            Class::Corrupt,
            "goldens.safetensors` holds `norm1@1`, which is not in the manifest",
        ),
        (
            "file not listed",
            |f| fs::write(f.path("old.npz"), "").unwrap(),
            Class::Corrupt,
            "old.npz` is not in the manifest; move it out of the folder of `",
        ),
        (
            "file in a folder not listed",
            |f| {
                fs::create_dir(f.path("deep")).unwrap();
                fs::write(f.path("deep/old.npz"), "").unwrap();
            },
            Class::Corrupt,
            "old.npz` is not in the manifest",
        ),
    ];
    for (fault, plant, class, words) in faults {
        let fixture = Fixture::new();
        plant(&fixture);
        let problems = fixture.verify();
        assert_eq!(problems.len(), 1, "{fault}: {problems:?}");
        let text = problems[0].to_string();
        assert_eq!(problems[0].class(), *class, "{fault}: {text}");
        assert!(text.contains(words), "{fault}: {text}");
        // Nobody but who put it there knows where a foreign file belongs.
        if !text.contains("; move it out of the folder of `") {
            let command = if text.contains("LFS") { PULL } else { REGENERATE };
            assert!(text.ends_with(command), "{fault}: {text}");
        }
    }
}

fn flip(fixture: &Fixture, file: &str, data: &[u8]) {
    fixture.edit(file, |bytes| {
        let at = bytes.windows(data.len()).position(|window| window == data).unwrap();
        bytes[at] ^= 1;
    });
}

fn drop_tensor(fixture: &Fixture, index: usize) {
    let text = fs::read(fixture.path("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&text).unwrap();
    manifest["tensors"].as_array_mut().unwrap().remove(index);
    fixture.write_manifest(&manifest);
}

#[test]
fn a_tensor_that_is_not_in_its_file_is_missing() {
    let fixture = Fixture::new();
    fixture.edit_manifest("/tensors/3/key", json!("proj.bias"));
    let problems = fixture.verify();
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{texts:?}");
    assert_eq!((problems[0].class(), problems[1].class()), (Class::Missing, Class::Corrupt));
    assert!(texts[0].starts_with("tensor `proj.bias` is missing from `"), "{texts:?}");
    assert!(texts[1].contains("holds `proj.weight`, which is not in the manifest"), "{texts:?}");
}

#[test]
fn all_problems_are_found_at_once() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path("hidden.npy")).unwrap();
    fixture.edit("goldens.safetensors", |bytes| {
        let end = bytes.len();
        bytes[end - 1] ^= 1;
        bytes[end - 25] ^= 1;
    });
    fs::write(fixture.path("notes.txt"), "").unwrap();
    let problems = fixture.verify();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(matches!(problems[0], FixtureError::Checksum { .. }));
    assert!(matches!(problems[1], FixtureError::Checksum { .. }));
    assert!(matches!(problems[2], FixtureError::NoFile { .. }));
    assert!(matches!(problems[3], FixtureError::ExtraFile { .. }));
}

#[test]
fn a_later_format_asks_for_an_update_and_a_cause_is_in_the_chain() {
    let fixture = Fixture::new();
    fixture.edit_manifest("/format", json!(2));
    let error = fixture.open().unwrap_err();
    assert_eq!(error.class(), Class::Corrupt);
    assert!(error.to_string().ends_with("cannot be used; update mlx-parity"), "{error}");
    assert_eq!(error.source().unwrap().to_string(), "its format is 2, this mlx-parity reads up to 1");
}

#[test]
fn a_stale_set_says_what_changed() {
    let set = Fixture::new();
    let set = set.open().unwrap();
    let mut params = reference();
    params["params"]["dim"] = json!(4);
    let mut without = reference();
    without.as_object_mut().unwrap().remove("source");
    for (reference, script, words) in [
        (reference(), &b"print('other')\n"[..], "the content of `exporter/references/x.py` changed"),
        (params, SCRIPT, "`params` of the reference block changed"),
        (without, SCRIPT, "`source` of the reference block changed"),
    ] {
        let error = set.check_fresh(&reference, script).unwrap_err();
        assert_eq!(error.class(), Class::Stale);
        assert_eq!(
            error.to_string(),
            format!(
                "fixtures `{SET}` are stale: {words} since they were made; \
                 run `cargo xtask regenerate-fixtures {SET}`"
            )
        );
    }
}

#[test]
fn a_name_that_is_not_listed_offers_near_ones() {
    let fixture = Fixture::new();
    let set = fixture.open().unwrap();
    let error = set.golden("nrom1").unwrap_err();
    assert_eq!(error.class(), Class::Missing);
    assert_eq!(
        error.to_string(),
        "fixtures `gated_mlp/block` have no golden `nrom1`, did you mean `norm1`; \
         run `cargo xtask regenerate-fixtures gated_mlp/block`"
    );
    assert!(set.input("norm1").is_err(), "a golden is no input");
    assert!(set.weight("hidden").is_err(), "an input is no weight");
}

#[test]
fn a_folder_that_leaves_the_root_is_refused() {
    let fixture = Fixture::new();
    let root = fixture.root.path().join("fixtures");
    for folder in
        ["../fixtures/gated_mlp/block", "/etc", "", ".", "gated_mlp//block", "gated_mlp/../x", "a\\b"]
    {
        let error = FixtureSet::open(&root, folder).unwrap_err();
        assert!(matches!(error, FixtureError::Outside { .. }), "{folder}: {error}");
        assert_eq!(error.class(), Class::Spec);
    }
    assert!(matches!(FixtureSet::open(&root.join("none"), SET), Err(FixtureError::NoSet { .. })));
}

#[cfg(unix)]
#[test]
fn links_that_lead_out_are_refused_and_others_are_not() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::new();
    let root = fixture.root.path().join("fixtures");
    let outside = fixture.root.path().join("outside");
    fs::rename(fixture.folder(), &outside).unwrap();
    symlink(&outside, fixture.folder()).unwrap();
    assert!(matches!(FixtureSet::open(&root, SET), Err(FixtureError::Outside { .. })));

    let fixture = Fixture::new();
    let moved = fixture.root.path().join("hidden.npy");
    fs::rename(fixture.path("hidden.npy"), &moved).unwrap();
    symlink(&moved, fixture.path("hidden.npy")).unwrap();
    let error = fixture.open().unwrap().input("hidden").unwrap_err();
    assert_eq!(error.class(), Class::Corrupt);
    assert!(error.to_string().contains("hidden.npy` leads out of its folder"), "{error}");

    let fixture = Fixture::new();
    let link = fixture.root.path().join("link");
    symlink(fixture.root.path().join("fixtures"), &link).unwrap();
    assert!(FixtureSet::open(&link, SET).unwrap().verify(&mut ChecksumMemory::default()).is_empty());
}

#[test]
fn hidden_files_and_sets_below_are_left_alone() {
    let fixture = Fixture::new();
    fs::write(fixture.path(".DS_Store"), "").unwrap();
    fs::create_dir(fixture.path("attention")).unwrap();
    fs::write(fixture.path("attention/manifest.json"), "{}").unwrap();
    fs::write(fixture.path("attention/goldens.npz"), "").unwrap();
    assert_eq!(fixture.verify().len(), 0);
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn trusting(kept: &Path) -> ChecksumMemory {
    ChecksumMemory::load(kept, Trust::Remembered)
}

/// Verifies until the memory has every file: those that changed within the last two seconds are not remembered yet.
fn remember(fixture: &Fixture, kept: &Path) {
    let is_kept = |file: &str| fs::read_to_string(kept).is_ok_and(|text| text.contains(file));
    while !["goldens.safetensors", "hidden.npy", "weights.npz"].iter().all(|file| is_kept(file)) {
        let mut memory = trusting(kept);
        assert!(fixture.open().unwrap().verify(&mut memory).is_empty());
        memory.save().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What only a reader that does not hash can overlook: the memory of the file as it was, for the file as it is.
fn vouch_for(kept: &Path, file: &Path) {
    let mut memory: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    let real = file.canonicalize().unwrap();
    memory["files"][real.to_str().unwrap()]["identity"] =
        serde_json::to_value(FileIdentity::at(&real).unwrap()).unwrap();
    fs::write(kept, memory.to_string()).unwrap();
}

#[test]
fn what_was_verified_is_not_hashed_again_until_it_changes() {
    let fixture = Fixture::new();
    let kept = fixture.root.path().join("memory.json");
    let golden = fixture.path("goldens.safetensors");
    set_time(&golden, 1_000_000);
    remember(&fixture, &kept);

    // Other content of the same size and with the same time of modification: written in place, then as another file.
    let hash = |what: &str| {
        set_time(&golden, 1_000_000);
        let problems = fixture.open().unwrap().verify(&mut trusting(&kept));
        assert!(matches!(problems[..], [FixtureError::Checksum { .. }]), "{what}: {problems:?}");
    };
    fixture.edit("goldens.safetensors", |bytes| *bytes.last_mut().unwrap() ^= 1);
    hash("in place");
    let other = fixture.root.path().join("other");
    fs::copy(&golden, &other).unwrap();
    fs::rename(&other, &golden).unwrap();
    hash("another file");

    // The memory is what saves the hashing: one that vouches for the damaged file is believed, unless nothing is.
    vouch_for(&kept, &golden);
    let set = fixture.open().unwrap();
    assert!(set.verify(&mut trusting(&kept)).is_empty());
    assert_eq!(set.verify(&mut ChecksumMemory::load(&kept, Trust::Nothing)).len(), 1);
    assert_eq!(set.verify(&mut ChecksumMemory::default()).len(), 1);

    // Another claim of the manifest, or a damaged memory: it is hashed and found.
    fixture.edit_manifest("/tensors/0/sha256", json!("0".repeat(64)));
    let problems = fixture.open().unwrap().verify(&mut trusting(&kept));
    assert_eq!(problems.len(), 2, "{problems:?}");
    fs::write(&kept, "{\"format\":2,").unwrap();
    assert_eq!(set.verify(&mut trusting(&kept)).len(), 1);
}

#[test]
fn a_file_that_changes_while_it_is_in_use_is_noticed() {
    let fixture = Fixture::new();
    let set = fixture.open().unwrap();
    assert!(set.verify(&mut ChecksumMemory::default()).is_empty());
    assert_eq!(set.identities().len(), 4, "{:?}", set.identities());
    assert!(set.changed().is_empty());
    let golden = fixture.path("goldens.safetensors");
    let bytes = fs::read(&golden).unwrap();
    fs::remove_file(&golden).unwrap();
    assert_eq!(set.changed().len(), 1);
    // The old file is still mapped, so the new one cannot have its inode.
    fs::write(&golden, bytes).unwrap();
    let changed = set.changed();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].class(), Class::Corrupt);
    assert!(
        changed[0].to_string().contains("goldens.safetensors` changed while it was in use"),
        "{changed:?}"
    );
    let manifest = fixture.path("manifest.json");
    fs::copy(&manifest, fixture.root.path().join("same")).unwrap();
    fs::rename(fixture.root.path().join("same"), &manifest).unwrap();
    assert_eq!(set.changed().len(), 2);
}

#[test]
fn a_wrong_file_is_never_remembered() {
    let fixture = Fixture::new();
    let golden = fixture.path("goldens.safetensors");
    fixture.edit("goldens.safetensors", |bytes| *bytes.last_mut().unwrap() ^= 1);
    set_time(&golden, 1_000_000);
    let mut memory = ChecksumMemory::default();
    let set = fixture.open().unwrap();
    assert_eq!(set.verify(&mut memory).len(), 1);
    assert_eq!(set.verify(&mut memory).len(), 1);
}
