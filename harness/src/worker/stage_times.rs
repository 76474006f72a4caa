//! The time per stage in warm runs. The port runs again, and each declared tap is only evaluated and timed.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::panic::Location;
use std::rc::Rc;

use mlx_parity_tap::Driver;
use mlx_rs::{Array, error::Exception};

use super::clock::Clock;
use super::plant_fault::TapFaults;
use mlx_parity_core::results::Times;

/// The milliseconds per stage of all warm runs so far. Clones share the list.
#[derive(Clone, Default)]
pub(super) struct StageTimes(Rc<RefCell<BTreeMap<String, Vec<f64>>>>);

impl StageTimes {
    /// Returns the median time per stage, and clears the list.
    pub(super) fn medians(&self) -> Times {
        self.0.take().into_iter().map(|(name, times)| (name, median(times))).collect()
    }
}

/// The median; 0 of no times.
pub(super) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    match times.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => times[middle],
        _ => 0.5 * (times[middle - 1] + times[middle]),
    }
}

/// The driver of one warm run. A stage is the computation between two declared taps. The time of a stage is the sum over
/// all its hits.
pub(super) struct StageTimer {
    declared: Rc<HashSet<String>>,
    /// Taps that this run has reached.
    reached: HashSet<String>,
    clock: Clock,
    times: StageTimes,
    faults: TapFaults,
}

impl StageTimer {
    pub(super) fn new(
        declared: Rc<HashSet<String>>,
        clock: Clock,
        times: StageTimes,
        faults: TapFaults,
    ) -> Self {
        clock.restart();
        Self { declared, reached: HashSet::new(), clock, times, faults }
    }
}

impl Driver for StageTimer {
    fn tap(&mut self, name: &str, array: Array, _: &'static Location<'static>) -> Result<Array, Exception> {
        let array = self.faults.apply(name, array)?;
        if self.declared.contains(name) {
            array.eval()?;
            let millis = self.clock.millis();
            let mut times = self.times.0.borrow_mut();
            let times = times.entry(name.to_owned()).or_default();
            match times.last_mut().filter(|_| self.reached.contains(name)) {
                Some(time) => *time += millis,
                None => times.push(millis),
            }
            self.reached.insert(name.to_owned());
            self.clock.restart();
        }
        Ok(array)
    }
}
