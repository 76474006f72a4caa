//! External weights of a set: their entries, what is refused, and which checksums are remembered.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mlx_parity_core::external::{ExternalError, ExternalFile};
use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::{
    ChecksumMemory, ExternalRecord, ExternalWeights, FixtureError, FixtureSet, Role, Trust,
};
use mlx_parity_core::spec::FileHashes;
use mlx_parity_core::tensor::Dtype;

use super::{Fixture, SET, sha};

/// Files of external weights beside a project.
struct Shards(tempfile::TempDir);

impl Shards {
    fn new(files: &[(&str, &str)]) -> Self {
        let shards = Self(tempfile::tempdir().unwrap());
        for (file, weight) in files {
            fs::write(shards.path(file), shard(weight)).unwrap();
            // Long ago, so that checksums are remembered.
            let past = SystemTime::now() - Duration::from_secs(3600);
            fs::File::options().write(true).open(shards.path(file)).unwrap().set_modified(past).unwrap();
        }
        shards
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn open(&self, files: &[&str]) -> Result<ExternalWeights, ExternalError> {
        let file = |name: &&str| ExternalFile { name: (*name).to_owned(), path: self.path(name) };
        ExternalWeights::open(&files.iter().map(file).collect::<Vec<_>>(), None)
    }
}

fn shard(weight: &str) -> Vec<u8> {
    let header = format!(r#"{{"{weight}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}}"#);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat()
}

#[test]
fn external_weights_are_weights_of_the_set() {
    let shards = Shards::new(&[("a.safetensors", "x"), ("b.safetensors", "y")]);
    let set = Fixture::new();
    let set =
        set.open().unwrap().with_external(shards.open(&["a.safetensors", "b.safetensors"]).unwrap()).unwrap();
    assert_eq!(set.weights().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["w", "x", "y"]);
    assert_eq!(set.entries(Role::Golden).count(), 2);
    let y = set.weight("y").unwrap();
    assert_eq!((y.dtype(), y.shape()), (Dtype::Float32, &[2][..]));
    assert!(set.verify(&mut ChecksumMemory::default()).is_empty(), "the set itself is as before");

    // A file that is replaced later is noticed.
    assert!(set.changed().is_empty());
    let other = shards.path("c.safetensors");
    fs::write(&other, shard("y")).unwrap();
    fs::rename(other, shards.path("b.safetensors")).unwrap();
    let changed = set.changed();
    assert_eq!(changed.len(), 1);
    assert!(changed[0].to_string().contains("b.safetensors` changed while it was in use"), "{}", changed[0]);
}

#[test]
fn only_the_verified_files_are_added() {
    let shards = Shards::new(&[("a.safetensors", "x")]);
    let fixture = Fixture::new();
    let open = || shards.open(&["a.safetensors"]).unwrap();
    let verified = fixture.open().unwrap().with_external(open()).unwrap().identities();
    let root = fixture.root.path().join("fixtures");
    let reopened = || FixtureSet::open_verified(&root, SET, verified.clone()).unwrap();
    assert!(reopened().with_external(open()).is_ok());
    fs::write(shards.path("b.safetensors"), shard("x")).unwrap();
    fs::rename(shards.path("b.safetensors"), shards.path("a.safetensors")).unwrap();
    assert!(matches!(reopened().with_external(open()), Err(FixtureError::Changed { .. })));
}

#[test]
fn a_weight_has_one_place() {
    let shards = Shards::new(&[("a.safetensors", "x"), ("b.safetensors", "x"), ("w.safetensors", "w")]);
    let error = shards.open(&["a.safetensors", "b.safetensors"]).unwrap_err();
    assert!(matches!(&error, ExternalError::TwoWeights { name, .. } if name == "x"), "{error}");
    let inside = Fixture::new().open().unwrap().with_external(shards.open(&["w.safetensors"]).unwrap());
    assert!(matches!(inside, Err(FixtureError::External(ExternalError::InSet { .. }))));
}

#[test]
#[ignore = "slow: waits until the file's times have settled; `.ci/run` runs it"]
fn a_file_is_hashed_once_and_a_wrong_checksum_is_remembered_too() {
    let shards = Shards::new(&[("a.safetensors", "x")]);
    let kept = shards.path("memory.json");
    let open = || shards.open(&["a.safetensors"]).unwrap();
    let right = sha(&shard("x"));
    // The time of change is now, whatever the time of modification says: nothing is remembered yet.
    let mut memory = ChecksumMemory::load(&kept, Trust::Remembered);
    assert_eq!(open().records(&mut memory).unwrap()[0].sha256, right);
    memory.save().unwrap();
    assert!(!fs::read_to_string(&kept).unwrap().contains(&right));
    std::thread::sleep(Duration::from_millis(2_100));
    assert_eq!(open().records(&mut memory).unwrap()[0].sha256, right);
    memory.save().unwrap();
    // Only a memory that is read again can give a checksum that the file does not have.
    let text = fs::read_to_string(&kept).unwrap();
    let wrong = "f".repeat(64);
    fs::write(&kept, text.replace(&right, &wrong)).unwrap();
    let mut memory = ChecksumMemory::load(&kept, Trust::Remembered);
    let declared = FileHashes::One(right.clone());
    let problems = open().verify(SET, Some(&declared), None, &mut memory);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].to_string().contains(&wrong), "{}", problems[0]);
    let mut distrusted = ChecksumMemory::load(&kept, Trust::Nothing);
    assert!(open().verify(SET, Some(&declared), None, &mut distrusted).is_empty());
}

#[test]
fn each_difference_from_the_declared_and_the_recorded_files_has_its_words() {
    let shards = Shards::new(&[("a.safetensors", "x"), ("b.safetensors", "y")]);
    let both = || shards.open(&["a.safetensors", "b.safetensors"]).unwrap();
    let hash = |file: &str| sha(&fs::read(shards.path(file)).unwrap());
    let (a, b) = (hash("a.safetensors"), hash("b.safetensors"));
    let record =
        |name: &str, sha256: &str| ExternalRecord { name: name.into(), size: 8, sha256: sha256.into() };
    let recorded = [record("a.safetensors", &a), record("b.safetensors", &b)];
    let per_file = |files: &[(&str, &str)]| {
        FileHashes::PerFile(
            files.iter().map(|(file, hash)| ((*file).to_owned(), (*hash).to_owned())).collect(),
        )
    };
    let check =
        |declared: Option<FileHashes>, recorded: Option<&[ExternalRecord]>, wanted: &[(Class, &str)]| {
            let problems = both().verify(SET, declared.as_ref(), recorded, &mut ChecksumMemory::default());
            assert_eq!(problems.len(), wanted.len(), "{problems:?}");
            for (problem, (class, words)) in problems.iter().zip(wanted) {
                assert!(problem.class() == *class && problem.to_string().contains(words), "{problem}");
            }
        };
    check(Some(per_file(&[("a.safetensors", &a), ("b.safetensors", &b)])), None, &[]);
    check(None, Some(&recorded), &[]);
    check(None, None, &[(Class::Spec, "no checksum is known"), (Class::Spec, "no checksum is known")]);
    check(Some(per_file(&[("a.safetensors", &a)])), Some(&recorded), &[(Class::Spec, "b.safetensors")]);
    check(Some(FileHashes::One(a.clone())), None, &[(Class::Spec, "but 2 files match")]);
    check(
        Some(per_file(&[("a.safetensors", &a), ("b.safetensors", &b), ("c.safetensors", &b)])),
        None,
        &[(Class::Missing, "names `c.safetensors`, which is not among the files")],
    );
    check(
        Some(per_file(&[("a.safetensors", &b), ("b.safetensors", &b)])),
        None,
        &[(Class::Corrupt, "but the spec declares")],
    );
    check(None, Some(&recorded[..1]), &[(Class::Stale, "`b.safetensors` was not among the files then")]);
    let others = [recorded[0].clone(), record("b.safetensors", &a)];
    check(None, Some(&others), &[(Class::Stale, "`b.safetensors` had SHA-256")]);
    let gone = [recorded[0].clone(), recorded[1].clone(), record("c.safetensors", &a)];
    check(None, Some(&gone), &[(Class::Stale, "`c.safetensors` is not among the files now")]);
}
