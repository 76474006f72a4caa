//! Dividing tensors into spans for threads, and spans into blocks. Results do not depend on the number of threads.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::BLOCK;
use super::element::Element;
use crate::tensor::TensorView;

/// The fewest elements that one thread takes at a time.
const SPAN: usize = 256 * BLOCK;
/// The most spans of a tensor, which limits the memory for their results.
const MOST_SPANS: usize = 4096;

/// The elements of a view, block by block.
pub(super) struct Blocks<'v, 'a, T> {
    view: &'v TensorView<'a>,
    direct: Option<&'a [T]>,
}

impl<'v, 'a, T: Element> Blocks<'v, 'a, T> {
    pub(super) fn new(view: &'v TensorView<'a>) -> Self {
        let direct = view.row_major_bytes().and_then(|bytes| bytemuck::try_cast_slice(bytes).ok());
        Self { view, direct }
    }

    /// The elements in `range`: borrowed when they are in order and aligned, else copied to `buffer`.
    pub(super) fn get<'b>(&'b self, range: Range<usize>, buffer: &'b mut Vec<T>) -> &'b [T] {
        match self.direct {
            Some(elements) => &elements[range],
            None => {
                buffer.resize(range.len(), T::zeroed());
                self.view.gather(range.start, bytemuck::cast_slice_mut(buffer));
                buffer
            }
        }
    }
}

/// Divides `len` elements into spans and calls `work` on each, with one `state` per thread. Returns the results in the
/// order of the elements, and the states.
///
/// The spans depend on `len` alone, and each thread takes them in increasing order.
pub(super) fn spans<S: Send, R: Send>(
    len: usize,
    threads: NonZeroUsize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Range<usize>) -> R + Sync,
) -> (Vec<R>, Vec<S>) {
    let span = len.div_ceil(MOST_SPANS).next_multiple_of(BLOCK).max(SPAN);
    let count = len.div_ceil(span);
    let range = |index: usize| index * span..(index * span + span).min(len);
    let threads = threads.get().min(count);
    if threads <= 1 {
        let mut state = state();
        let results = (0..count).map(|index| work(&mut state, range(index))).collect();
        return (results, vec![state]);
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::with_capacity(count), Vec::with_capacity(threads)));
    let run = || {
        let mut state = state();
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            results.push((index, work(&mut state, range(index))));
        }
        let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        done.0.append(&mut results);
        done.1.push(state);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let (mut results, states) = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_unstable_by_key(|&(index, _)| index);
    (results.into_iter().map(|(_, result)| result).collect(), states)
}

/// The blocks of a span.
pub(super) fn blocks(span: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = span.end;
    span.step_by(BLOCK).map(move |start| start..(start + BLOCK).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_cover_every_element_once_and_in_order() {
        for len in [0, 1, BLOCK, SPAN, SPAN + 1, 9 * SPAN + 5, MOST_SPANS * SPAN * 3 + 7] {
            for threads in [1, 2, 5] {
                let (results, states) = spans(
                    len,
                    NonZeroUsize::new(threads).unwrap(),
                    || 0,
                    |taken, range| {
                        *taken += 1;
                        range
                    },
                );
                assert!(results.len() <= MOST_SPANS);
                assert_eq!(states.into_iter().sum::<usize>(), results.len());
                assert_eq!(
                    results.iter().fold(0, |at, range| if range.start == at { range.end } else { 0 }),
                    len
                );
                assert!(results.iter().all(|range| range.start % BLOCK == 0));
            }
        }
        assert_eq!(
            blocks(BLOCK..2 * BLOCK + 3).collect::<Vec<_>>(),
            [BLOCK..2 * BLOCK, 2 * BLOCK..2 * BLOCK + 3]
        );
    }
}
