//! The progress of a command that takes more than a second: each step and its time.

use std::fmt::Display;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Prints the steps of one command to stderr. While a step runs, a terminal shows a spinner.
pub(crate) struct Steps {
    started: Instant,
}

impl Steps {
    pub(crate) fn start(title: impl Display) -> Self {
        eprintln!("{title}");
        Self { started: Instant::now() }
    }

    /// Runs `work` and returns its result, then prints `label` with the time that it took, or `failed`.
    pub(crate) fn step<T, E>(&self, label: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let started = Instant::now();
        let spinner = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg}  {elapsed}") {
            spinner.set_style(style);
        }
        spinner.set_message(label.to_owned());
        spinner.enable_steady_tick(Duration::from_millis(100));
        let result = work();
        spinner.finish_and_clear();
        match &result {
            Ok(_) => eprintln!("  {label:<44} {:>6.1} s", started.elapsed().as_secs_f64()),
            Err(_) => eprintln!("  {label:<44} failed"),
        }
        result
    }

    /// Returns the seconds since the first step started.
    pub(crate) fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
