//! Comparing takes at most 64 MiB beside the mapped files, however large they are.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mlx_parity_core::compare::compare;
use mlx_parity_core::gate::{Gate, Rule};
use mlx_parity_core::tensor::TensorFile;

const MIB: u64 = 1 << 20;
/// The limit that the crate promises.
const MOST: u64 = 64 * MIB;

/// Writes a file of `size` bytes of zeros, which take no space on disk, with a one in the middle.
fn sparse(path: &Path, descr: &str, size: u64, one: &[u8]) {
    let count = size / one.len() as u64;
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}");
    header.extend(std::iter::repeat_n(' ', 117 - header.len()));
    header.push('\n');
    let mut file = File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00\x76\x00").unwrap();
    file.write_all(header.as_bytes()).unwrap();
    assert_eq!(file.stream_position().unwrap(), 128);
    file.set_len(128 + size).unwrap();
    file.seek(SeekFrom::Start(128 + size / 2)).unwrap();
    file.write_all(one).unwrap();
}

/// Bytes of anonymous memory, which no file backs.
fn anonymous() -> u64 {
    crate::memory("RssAnon:")
}

/// Returns the result of `work`, and by how much anonymous memory grew at most meanwhile.
fn most_memory<T: Send>(work: impl FnOnce() -> T + Send) -> (T, u64) {
    let (before, done) = (anonymous(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = anonymous().max(most);
                std::thread::sleep(Duration::from_micros(500));
            }
            most
        });
        // The watch also ends when the work panics.
        let worked = scope.spawn(work).join();
        done.store(true, Ordering::Relaxed);
        (worked.unwrap(), watch.join().unwrap().saturating_sub(before))
    })
}

#[track_caller]
fn check(descr: &str, size: u64, one: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let (golden, actual) = (folder.path().join("golden.npy"), folder.path().join("actual.npy"));
    sparse(&golden, descr, size, one);
    sparse(&actual, descr, size, &vec![0; one.len()]);
    let rule =
        Rule { gate: Some(Gate::Tolerance { rtol: 1e-3, atol: 1e-3, policy: None }), ..Rule::default() };
    let (outcome, most) = most_memory(|| {
        let [golden, actual] = [(&golden, "golden"), (&actual, "actual")]
            .map(|(path, name)| TensorFile::open(path).unwrap().get(name).unwrap());
        compare(&golden.view(), &actual.view(), &rule)
    });
    let difference = outcome.metrics.unwrap().difference.unwrap();
    assert_eq!((difference.mismatched, difference.max_abs), (Some(1), 1.0), "all of it was read");
    println!("{descr}, 2 x {} MiB: {:.1} MiB", size / MIB, most as f64 / MIB as f64);
    assert!(most < MOST, "{descr}: {most} bytes");
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn large_files_take_no_memory_of_their_own() {
    let _alone = crate::measure_alone();
    let (bytes, most) = most_memory(|| {
        let bytes = vec![1u8; 2 * MOST as usize];
        std::thread::sleep(Duration::from_millis(20));
        bytes
    });
    assert!(most >= MOST && bytes.len() as u64 > MOST, "memory that is taken is measured: {most}");
    drop(bytes);

    check("<f4", 512 * MIB, &1f32.to_le_bytes());
    check("<f2", 256 * MIB, &0x3c00u16.to_le_bytes());
    // Big-endian elements are copied, one block at a time.
    check(">f8", 256 * MIB, &1f64.to_be_bytes());
}
