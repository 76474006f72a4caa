//! Warm passes with a single evaluation: what the port takes without the harness.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

use mlx_parity_tap::Driver;
use mlx_rs::{Array, error::Exception};

use super::clock::Clock;
use super::plant_fault::TapFaults;

/// Milliseconds of all passes so far. Clones share the list.
#[derive(Clone, Default)]
pub(super) struct PassTimes(Rc<RefCell<Vec<f64>>>);

impl PassTimes {
    /// Returns the times, and clears the list.
    pub(super) fn take(&self) -> Vec<f64> {
        self.0.take()
    }
}

/// The driver of one pass. Only the last tap is evaluated, and with it all that it depends on.
pub(super) struct UntappedPass {
    /// The last tap of the checked pass, and its hit.
    last: (String, u64),
    hits: HashMap<String, u64>,
    clock: Clock,
    times: PassTimes,
    faults: TapFaults,
}

impl UntappedPass {
    pub(super) fn new(last: (String, u64), clock: Clock, times: PassTimes, faults: TapFaults) -> Self {
        clock.restart();
        Self { last, hits: HashMap::new(), clock, times, faults }
    }
}

impl Driver for UntappedPass {
    fn tap(&mut self, name: &str, array: Array, _: &'static Location<'static>) -> Result<Array, Exception> {
        let array = self.faults.apply(name, array)?;
        let count = self.hits.entry(name.to_owned()).or_insert(0);
        let hit = *count;
        *count += 1;
        if self.last.0 == name && self.last.1 == hit {
            array.eval()?;
            self.times.0.borrow_mut().push(self.clock.millis());
        }
        Ok(array)
    }
}
