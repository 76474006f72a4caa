//! Files that change: which checksums are remembered, and what is noticed while a set is in use.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::{ChecksumMemory, FileIdentity, FixtureError, Trust};
use serde_json::{Value, json};

use super::Fixture;

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn trusting(kept: &Path) -> ChecksumMemory {
    ChecksumMemory::load(kept, Trust::Remembered)
}

/// Verifies until the memory has every file. Files that changed within the last two seconds are not remembered yet.
fn remember(fixture: &Fixture, kept: &Path) {
    let is_kept = |file: &str| fs::read_to_string(kept).is_ok_and(|text| text.contains(file));
    while !["goldens.safetensors", "hidden.npy", "weights.npz"].iter().all(|file| is_kept(file)) {
        let mut memory = trusting(kept);
        assert!(fixture.open().unwrap().verify(&mut memory).is_empty());
        memory.save().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Gives the changed file the checksum of the old one in the memory, so that only hashing can notice the change.
fn vouch_for(kept: &Path, file: &Path) {
    let mut memory: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    let real = file.canonicalize().unwrap();
    memory["files"][real.to_str().unwrap()]["identity"] =
        serde_json::to_value(FileIdentity::at(&real).unwrap()).unwrap();
    fs::write(kept, memory.to_string()).unwrap();
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn what_was_verified_is_not_hashed_again_until_it_changes() {
    let fixture = Fixture::new();
    let kept = fixture.root.path().join("memory.json");
    let golden = fixture.path("goldens.safetensors");
    set_time(&golden, 1_000_000);
    remember(&fixture, &kept);

    // Other content with the same size and the same time of modification, written in place, then as another file.
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

    // A file whose identity is in the memory is not hashed, unless nothing is trusted.
    vouch_for(&kept, &golden);
    let set = fixture.open().unwrap();
    assert!(set.verify(&mut trusting(&kept)).is_empty());
    assert_eq!(set.verify(&mut ChecksumMemory::load(&kept, Trust::Nothing)).len(), 1);
    assert_eq!(set.verify(&mut ChecksumMemory::default()).len(), 1);

    // With another checksum in the manifest, or a damaged memory, the file is hashed.
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
