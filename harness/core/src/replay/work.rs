//! Limits on the steps and the memory of replays.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::error::ReplayError;

/// Steps per element that is read or written. A multiply-add of a matrix product costs one step.
///
/// With these factors, a step takes about the same time in every operation. They are rough, but the same on every machine.
const PER_ELEMENT: u64 = 16;
/// Steps per element of a function such as `exp`.
const PER_FUNCTION: u64 = 64;

/// The steps and the memory that replays may still use. Both are checked before anything is computed or allocated.
///
/// Every machine counts the same steps, so that the same replay succeeds or fails everywhere.
#[derive(Debug)]
pub struct Work {
    steps: AtomicU64,
    memory: Arc<MemoryLeft>,
}

/// The bytes that are left for values. A value gives its bytes back when it is dropped.
#[derive(Debug)]
struct MemoryLeft {
    left: AtomicU64,
}

/// The numbers of one array.
#[derive(Debug)]
pub(super) struct Buffer {
    values: Vec<f64>,
    /// The bytes to give back, and where to; `None` for numbers that were not counted.
    counted: Option<(u64, Arc<MemoryLeft>)>,
}

impl Work {
    /// Allows `steps` steps in total, and `bytes` bytes of memory at any time.
    ///
    /// A multiply-add of a matrix product is one step. An element of any other operation is 16 steps or more. An element
    /// that is only read or copied is fewer. A second is enough for 1e9 to 1e10 steps.
    pub fn new(steps: u64, bytes: u64) -> Self {
        Self { steps: AtomicU64::new(steps), memory: Arc::new(MemoryLeft { left: AtomicU64::new(bytes) }) }
    }

    /// Shares this memory, but has its own number of steps.
    #[must_use]
    pub fn with_steps(&self, steps: u64) -> Self {
        Self { steps: AtomicU64::new(steps), memory: Arc::clone(&self.memory) }
    }

    /// Calls `run`, which may use at most `steps` of the steps that are left.
    pub fn within<T>(&self, steps: u64, run: impl FnOnce() -> T) -> T {
        let before = self.steps_left();
        let given = before.min(steps);
        self.steps.store(given, Relaxed);
        let result = run();
        self.steps.store(before - given + self.steps_left(), Relaxed);
        result
    }

    /// Allows `bytes` bytes of memory. Values that exist already are not counted.
    pub fn set_memory(&self, bytes: u64) {
        self.memory.left.store(bytes, Relaxed);
    }

    /// Steps that are left.
    pub fn steps_left(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    /// Bytes of memory that are left.
    pub fn bytes_left(&self) -> u64 {
        self.memory.left.load(Relaxed)
    }

    /// Spends steps.
    ///
    /// # Errors
    ///
    /// When fewer steps are left. These are then spent, too.
    pub fn spend(&self, steps: u64) -> Result<(), ReplayError> {
        let taken = self.steps.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(steps));
        match taken {
            Ok(_) => Ok(()),
            Err(_) => {
                self.steps.store(0, Relaxed);
                Err(ReplayError::Work)
            }
        }
    }

    /// Counts elements that are read or written.
    pub(super) fn elements(&self, count: usize) -> Result<(), ReplayError> {
        self.spend((count as u64).saturating_mul(PER_ELEMENT).max(PER_ELEMENT))
    }

    /// Counts evaluations of functions such as `exp`.
    pub(super) fn functions(&self, count: usize) -> Result<(), ReplayError> {
        self.spend((count as u64).saturating_mul(PER_FUNCTION).max(PER_FUNCTION))
    }

    /// Counts the multiply-adds of matrix products: the product of the factors.
    pub(super) fn products(&self, factors: &[usize]) -> Result<(), ReplayError> {
        self.spend(factors.iter().fold(1, |all: u64, &factor| all.saturating_mul(factor as u64)))
    }

    /// An empty buffer with room for `length` numbers.
    pub(super) fn buffer(&self, length: usize) -> Result<Buffer, ReplayError> {
        let wanted = (length as u64).saturating_mul(size_of::<f64>() as u64);
        let taken = self.memory.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(wanted));
        if let Err(left) = taken {
            return Err(ReplayError::Memory { wanted, left });
        }
        let mut buffer = Buffer { values: Vec::new(), counted: Some((wanted, Arc::clone(&self.memory))) };
        match buffer.values.try_reserve_exact(length) {
            Ok(()) => Ok(buffer),
            Err(_) => Err(ReplayError::Memory { wanted, left: 0 }),
        }
    }

    /// A buffer of `length` numbers.
    pub(super) fn filled(&self, length: usize, value: f64) -> Result<Buffer, ReplayError> {
        let mut buffer = self.buffer(length)?;
        buffer.values.resize(length, value);
        Ok(buffer)
    }

    /// A buffer of the items. There must be `length` items.
    pub(super) fn collect(
        &self,
        length: usize,
        items: impl IntoIterator<Item = f64>,
    ) -> Result<Buffer, ReplayError> {
        let mut buffer = self.buffer(length)?;
        buffer.values.extend(items);
        debug_assert_eq!(buffer.values.len(), length);
        Ok(buffer)
    }
}

impl Buffer {
    /// Numbers that are not counted.
    pub(super) fn uncounted(values: Vec<f64>) -> Self {
        Self { values, counted: None }
    }

    /// Adds a number.
    pub(super) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    /// Adds numbers.
    pub(super) fn extend(&mut self, values: impl IntoIterator<Item = f64>) {
        self.values.extend(values);
    }

    /// Adds numbers.
    pub(super) fn extend_from_slice(&mut self, values: &[f64]) {
        self.values.extend_from_slice(values);
    }
}

impl Deref for Buffer {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.values
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((bytes, memory)) = &self.counted {
            memory.left.fetch_add(*bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_spent_once_and_memory_comes_back() {
        let work = Work::new(100, 64);
        work.elements(2).unwrap();
        work.products(&[2, 3, 4]).unwrap();
        assert_eq!(work.steps_left(), 100 - 32 - 24);
        assert_eq!(work.functions(1).unwrap_err(), ReplayError::Work);
        assert_eq!(work.steps_left(), 0);
        let buffer = work.filled(5, 1.0).unwrap();
        assert_eq!(work.bytes_left(), 24);
        assert_eq!(work.buffer(4).unwrap_err(), ReplayError::Memory { wanted: 32, left: 24 });
        drop(buffer);
        assert_eq!(work.bytes_left(), 64);
    }

    #[test]
    fn no_number_overflows() {
        let work = Work::new(u64::MAX, u64::MAX);
        assert!(work.buffer(usize::MAX / 16).is_err());
        assert_eq!(work.bytes_left(), u64::MAX);
        assert!(Work::new(1 << 62, 0).products(&[usize::MAX, usize::MAX]).is_err());
        assert!(Work::new(1 << 62, 0).elements(usize::MAX).is_err());
    }
}
