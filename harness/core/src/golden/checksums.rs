//! Checksums of tensors, computed on all cores.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};

use crate::files::hash::hex;
use crate::tensor::{TensorView, for_each_chunk};

/// Below this many bytes, one thread is done before others have started.
const WORTH_THREADS: u64 = 4 << 20;

/// The hex SHA-256 of the elements as row-major, little-endian bytes.
pub(super) fn sha256(view: &TensorView<'_>) -> String {
    let mut hash = Sha256::new();
    let done: Result<(), Infallible> = for_each_chunk(view, |part| {
        hash.update(part);
        Ok(())
    });
    match done {
        Ok(()) => hex(&hash.finalize()),
    }
}

/// Calls `work` on every item, on all cores if the items have enough bytes, and returns the results in the order of the items.
///
/// One item is one thread's work. The largest items come first, so that no thread starts a long one when the others are done.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    bytes: impl Fn(&T) -> u64,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let sizes: Vec<u64> = items.iter().map(bytes).collect();
    let total = sizes.iter().fold(0u64, |total, &size| total.saturating_add(size));
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = if total < WORTH_THREADS { 1 } else { cores().min(items.len()) };
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(sizes[index]));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let run = || {
        let mut results = Vec::new();
        while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            results.push((index, work(&items[index])));
        }
        done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).append(&mut results);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let mut results = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_unstable_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tensor::Dtype;

    proptest! {
        #[test]
        fn threads_hash_what_one_thread_hashes(
            tensors in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40),
            larger in any::<bool>(),
        ) {
            let scale = if larger { WORTH_THREADS } else { 1 };
            let hash = |bytes: &Vec<u8>| {
                TensorView::new(Dtype::Uint8, &[bytes.len()], bytes).map(|view| sha256(&view)).unwrap()
            };
            let expected: Vec<String> = tensors.iter().map(|bytes| hex(&Sha256::digest(bytes))).collect();
            let found = in_parallel(&tensors, |bytes| bytes.len() as u64 * scale, hash);
            prop_assert_eq!(found, expected);
        }
    }
}
