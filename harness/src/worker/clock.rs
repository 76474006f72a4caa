//! A clock that counts only the port's time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

/// Runs while the port computes. It is paused while the harness reads a tensor or checks a tap. Clones share one clock.
#[derive(Debug, Clone)]
pub(super) struct Clock(Rc<Cell<Instant>>);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Rc::new(Cell::new(Instant::now())))
    }

    /// Returns the port's milliseconds since the clock was started or restarted.
    pub(super) fn millis(&self) -> f64 {
        self.0.get().elapsed().as_secs_f64() * 1e3
    }

    /// Resets the clock to zero.
    pub(super) fn restart(&self) {
        self.0.set(Instant::now());
    }

    /// Runs `work` without counting its time, and returns its result.
    pub(super) fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.0.set(self.0.get() + started.elapsed());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn paused_time_does_not_count() {
        let clock = Clock::start();
        let shared = clock.clone();
        shared.pause(|| std::thread::sleep(Duration::from_millis(50)));
        let (paused, whole) = (clock.millis(), clock.0.get());
        assert!(whole <= Instant::now(), "a clock never runs ahead");
        std::thread::sleep(Duration::from_millis(20));
        assert!(clock.millis() >= paused + 20.0);
        clock.restart();
        assert!(clock.0.get() > whole);
    }
}
