//! How long each stage takes once everything is warm: the port runs again, evaluated and clocked at its taps only.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::panic::Location;
use std::rc::Rc;

use mlx_parity_tap::Driver;
use mlx_rs::{Array, error::Exception};

use super::alter::Alterations;
use super::clock::Clock;
use super::story::Times;

/// The times of all warm runs so far.
#[derive(Clone, Default)]
pub(super) struct Laps(Rc<RefCell<BTreeMap<String, Vec<f64>>>>);

impl Laps {
    /// The median of each stage.
    pub(super) fn medians(&self) -> Times {
        let median = |mut laps: Vec<f64>| {
            laps.sort_by(f64::total_cmp);
            let middle = laps.len() / 2;
            if laps.len() % 2 == 1 { laps[middle] } else { 0.5 * (laps[middle - 1] + laps[middle]) }
        };
        self.0.take().into_iter().map(|(name, laps)| (name, median(laps))).collect()
    }
}

/// The driver of one warm run. A stage is what lies between two declared taps; one that is met more than once counts
/// with all its hits.
pub(super) struct Stopwatch {
    declared: Rc<HashSet<String>>,
    met: HashSet<String>,
    clock: Clock,
    laps: Laps,
    alterations: Alterations,
}

impl Stopwatch {
    pub(super) fn new(
        declared: Rc<HashSet<String>>,
        clock: Clock,
        laps: Laps,
        alterations: Alterations,
    ) -> Self {
        clock.restart();
        Self { declared, met: HashSet::new(), clock, laps, alterations }
    }
}

impl Driver for Stopwatch {
    fn tap(&mut self, name: &str, array: Array, _: &'static Location<'static>) -> Result<Array, Exception> {
        let array = self.alterations.apply(name, array)?;
        if self.declared.contains(name) {
            array.eval()?;
            let millis = self.clock.millis();
            let mut laps = self.laps.0.borrow_mut();
            let laps = laps.entry(name.to_owned()).or_default();
            match laps.last_mut().filter(|_| self.met.contains(name)) {
                Some(lap) => *lap += millis,
                None => laps.push(millis),
            }
            self.met.insert(name.to_owned());
            self.clock.restart();
        }
        Ok(array)
    }
}
