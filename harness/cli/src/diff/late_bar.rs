//! A progress bar that appears only if the work is slow.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

/// A bar that appears after a second, and disappears when this value is dropped.
pub(super) struct LateBar {
    message: &'static str,
    length: usize,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl LateBar {
    pub(super) fn new(message: &'static str, length: usize) -> Self {
        Self { message, length, started: Instant::now(), bar: None }
    }

    /// Shows that this many steps are done.
    pub(super) fn at(&mut self, position: usize) {
        if self.bar.is_none() && self.started.elapsed() > Duration::from_secs(1) {
            self.bar = Some(ProgressBar::new(self.length as u64).with_message(self.message));
        }
        self.bar.iter().for_each(|bar| bar.set_position(position as u64));
    }
}

impl Drop for LateBar {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
