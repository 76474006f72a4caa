//! What the build script asks Cargo to watch.

use std::fs;
use std::path::Path;

#[test]
fn cargo_watches_no_file_that_is_missing() {
    // Cargo would build again at every command. It keeps the lines of the script beside its folder.
    let printed = fs::read_to_string(Path::new(env!("OUT_DIR")).with_file_name("output")).unwrap();
    let watched: Vec<&str> =
        printed.lines().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed=")).collect();
    assert!(!watched.is_empty(), "{printed}");
    for file in watched {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists(), "{file} is missing");
    }
}
