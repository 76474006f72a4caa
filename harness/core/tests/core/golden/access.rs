//! What a set hands out by name, and which folders, links and files are part of it.

use std::fs;

use mlx_parity_core::gate::Class;
use mlx_parity_core::golden::{ChecksumMemory, FixtureError, FixtureSet, Role};
use mlx_parity_core::tensor::Dtype;

use super::{Fixture, SCRIPT, SET, reference};

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
    assert!(error.to_string().contains("hidden.npy` is a link that leaves its folder"), "{error}");

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
