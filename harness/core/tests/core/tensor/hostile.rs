//! Broken and hostile tensor files: a clear error, bounded memory, never a panic.

use std::io::{Cursor, Write};

use mlx_parity_core::golden::Manifest;
use mlx_parity_core::tensor::{TensorError, TensorFile};
use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const FORMATS: [&str; 3] = ["a.npy", "a.npz", "a.safetensors"];

/// Opens a file and reads every tensor in it.
fn read_all(path: &str, bytes: &[u8]) -> Result<usize, TensorError> {
    let file = TensorFile::from_bytes(path, bytes.to_vec())?;
    let mut elements = 0;
    for name in file.names() {
        // A bad tensor does not affect the others, so each is tried.
        if let Ok(tensor) = file.get(name) {
            let mut last = vec![0; tensor.dtype().size().min(tensor.view().len() * 8)];
            if !tensor.is_empty() {
                tensor.view().gather(tensor.len() - 1, &mut last);
            }
            elements += tensor.len();
        }
    }
    Ok(elements)
}

fn npy(descr: &str, shape: &str, data: usize) -> Vec<u8> {
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn npz(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn error(path: &str, bytes: Vec<u8>, name: &str) -> TensorError {
    TensorFile::from_bytes(path, bytes).and_then(|file| file.get(name)).unwrap_err()
}

#[test]
fn members_with_path_tricks_are_refused() {
    let good = npy("<f4", "(2,)", 8);
    for name in
        ["../a.npy", "/a.npy", "a/../b.npy", "a\\b.npy", "./a.npy", "a//b.npy", "a\u{7}.npy", ".npy/.."]
    {
        let bytes = npz(&[("ok.npy", &good), (name, &good)], CompressionMethod::Stored);
        let error = error("a.npz", bytes, "ok");
        let words = error.to_string();
        assert!(words.contains("is not a plain relative path"), "{name}: {words}");
    }
    let bytes = npz(&[("readme.txt", b"hello")], CompressionMethod::Stored);
    assert!(error("a.npz", bytes, "readme").to_string().contains("member `readme.txt` is not an .npy file"));
}

#[test]
fn a_member_that_unpacks_to_more_than_its_header_needs_is_refused() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let long = npz(&[("a.npy", &npy("<f4", "(2,)", 1 << 20))], method);
        assert!(matches!(error("a.npz", long, "a"), TensorError::Longer { .. }), "{method}");
        let short = npz(&[("a.npy", &npy("<f4", "(1000000000,)", 64))], method);
        assert!(matches!(error("a.npz", short, "a"), TensorError::Truncated { .. }), "{method}");
        let right = npz(&[("a.npy", &npy("<f4", "(262144,)", 1 << 20))], method);
        assert_eq!(read_all("a.npz", &right).unwrap(), 1 << 18, "{method}");
    }
}

/// Sets the sizes of the only member to `size`, in the directory and before the data.
fn declare(bytes: &mut [u8], size: u32) {
    let directory = bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    bytes[directory + 24..][..4].copy_from_slice(&size.to_le_bytes());
    bytes[22..26].copy_from_slice(&size.to_le_bytes());
}

#[test]
fn a_member_that_lies_about_its_size_is_refused_before_it_is_unpacked() {
    let content = npy("<f4", "(1000,)", 4000);
    let packed = npz(&[("a.npy", &content)], CompressionMethod::Deflated);
    for (size, words) in [
        (u32::MAX - 1, "at most 1073741824 are allowed; store it uncompressed"),
        (1 << 29, "it cannot unpack to the 536870912 bytes it declares"),
        (content.len() as u32 + 1, "but its header declares"),
        (content.len() as u32 - 1, "larger than its declared uncompressed size"),
    ] {
        let mut bytes = packed.clone();
        declare(&mut bytes, size);
        let words_found = error("a.npz", bytes, "a").to_string();
        assert!(words_found.contains(words), "{size}: {words_found}");
    }
}

#[test]
fn damaged_archives_are_refused() {
    let content = npy("<f4", "(1000,)", 4000);
    let mut bytes = npz(&[("a.npy", &content)], CompressionMethod::Deflated);
    // A wrong checksum in the directory and before the data.
    let directory = bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    bytes[directory + 16] ^= 1;
    bytes[14] ^= 1;
    let words = error("a.npz", bytes, "a").to_string();
    assert!(words.contains("cannot be unpacked"), "{words}");

    let two = npz(&[("a.npy", &content), ("b.npy", &content)], CompressionMethod::Stored);
    // The second entry of the directory points at the first member.
    let mut overlapping = two.clone();
    let directory = two.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    overlapping[directory + 42..][..4].copy_from_slice(&0u32.to_le_bytes());
    let words = error("a.npz", overlapping, "b").to_string();
    assert!(words.contains("its members overlap"), "{words}");
    // Both entries have one name.
    let mut twice = two.clone();
    let name = directory + 46;
    assert_eq!(&twice[name..name + 5], b"b.npy");
    twice[name] = b'a';
    let words = error("a.npz", twice, "a").to_string();
    assert!(words.contains("two members have the same name"), "{words}");
    // An archive after other bytes.
    let words = error("a.npz", [b"#!/bin/sh\n", &two[..]].concat(), "a").to_string();
    assert!(words.contains("cannot be unpacked"), "{words}");
    for end in [0, 4, 30, two.len() / 2, two.len() - 1] {
        assert!(TensorFile::from_bytes("a.npz", two[..end].to_vec()).is_err(), "{end}");
    }
}

#[test]
fn a_file_cut_anywhere_or_longer_is_an_error() {
    let safetensors = {
        let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat()
    };
    for (path, whole) in [("a.npy", npy("<f4", "(2,)", 8)), ("a.safetensors", safetensors)] {
        assert_eq!(read_all(path, &whole).unwrap(), 2);
        for end in 0..whole.len() {
            let cut = TensorFile::from_bytes(path, whole[..end].to_vec()).unwrap_err();
            assert!(matches!(cut, TensorError::Truncated { .. }), "{path} {end}: {cut}");
        }
        let longer = TensorFile::from_bytes(path, [&whole[..], &[0]].concat()).unwrap_err();
        assert!(matches!(longer, TensorError::Longer { .. }), "{path}: {longer}");
    }
}

const MANIFEST: &str = r#"{"format": 1,
  "made_by": {"key": "0000000000000000000000000000000000000000000000000000000000000000", "script": "a.py"},
  "provenance": {"packages": {"numpy": "2.4.6"}},
  "tensors": [{"name": "norm1", "role": "golden", "file": "goldens.safetensors", "dtype": "float32", "shape": [2, 3],
    "sha256": "0000000000000000000000000000000000000000000000000000000000000000", "sequence": 0,
    "floor": {"max": 1e-7, "rms": 2e-8}, "place": "a.py:Block.norm1"}]}"#;

/// Valid files to start from.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    ["numpy_big_fortran.npy", "numpy_v2.npy", "numpy_stored.npz", "numpy_deflated.npz", "mlx_stored.npz"]
        .into_iter()
        .chain(["safetensors_all.safetensors", "mlx_all.safetensors"])
        .map(|file| {
            let path = FORMATS.into_iter().find(|f| file.ends_with(&f[1..])).unwrap();
            (path, std::fs::read(crate::data("tensor").join(file)).unwrap())
        })
        .collect()
}

/// Changes a file: sets a byte, or removes, repeats or overwrites a run of bytes.
fn mutate(bytes: &mut Vec<u8>, edits: &[(u8, prop::sample::Index, usize, u8)]) {
    for (kind, at, length, value) in edits {
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        let end = (at + length).min(bytes.len());
        match kind {
            0 => bytes[at] = *value,
            1 => drop(bytes.drain(at..end)),
            2 => {
                let run = bytes[at..end].to_vec();
                bytes.splice(at..at, run);
            }
            _ => bytes[at..end].fill(*value),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused(format in 0..3usize, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_all(FORMATS[format], &bytes);
        let _ = Manifest::parse(&bytes);
    }

    #[test]
    fn any_npy_dictionary_is_read_or_refused(version in 1..=3u8, dict in "[{}()\\[\\]'\",: 0-9<>|a-zA-Z_+.-]{0,120}") {
        let mut bytes = [&b"\x93NUMPY"[..], &[version, 0]].concat();
        match version {
            1 => bytes.extend((dict.len() as u16).to_le_bytes()),
            _ => bytes.extend((dict.len() as u32).to_le_bytes()),
        }
        bytes.extend(dict.bytes());
        let _ = read_all("a.npy", &bytes);
    }

    #[test]
    fn any_shape_is_read_or_refused(dims in prop::collection::vec(any::<u64>(), 0..5), fortran: bool, data in 0..64usize) {
        let shape: String = dims.iter().map(|dim| format!("{dim}, ")).collect();
        let mut bytes = npy("<u2", &format!("({shape})"), data);
        if fortran {
            let at = bytes.windows(5).position(|w| w == b"False").unwrap();
            bytes.splice(at..at + 5, *b"True ");
        }
        if let Ok(elements) = read_all("a.npy", &bytes) {
            prop_assert_eq!(elements * 2, data);
        }
        let list: Vec<String> = dims.iter().map(u64::to_string).collect();
        let header = format!(r#"{{"a":{{"dtype":"U16","shape":[{}],"data_offsets":[0,{data}]}}}}"#, list.join(","));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat();
        if let Ok(elements) = read_all("a.safetensors", &bytes) {
            prop_assert_eq!(elements * 2, data);
        }
    }

    #[test]
    fn changed_manifests_are_read_or_refused(
        edits in prop::collection::vec((0..4u8, any::<prop::sample::Index>(), 1..40usize, any::<u8>()), 1..6),
    ) {
        let mut text = MANIFEST.as_bytes().to_vec();
        prop_assert!(Manifest::parse(&text).is_ok());
        mutate(&mut text, &edits);
        let _ = Manifest::parse(&text);
    }

    #[test]
    fn changed_files_are_read_or_refused(
        seed in 0..7usize,
        edits in prop::collection::vec((0..4u8, any::<prop::sample::Index>(), 1..40usize, any::<u8>()), 1..6),
    ) {
        let (path, mut bytes) = seeds().swap_remove(seed);
        mutate(&mut bytes, &edits);
        let _ = read_all(path, &bytes);
    }
}
