//! Faults at taps: a fault changes the array of a tap before it is compared.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use mlx_rs::{Array, error::Exception};

/// The faults of one run, by tap. The port adds faults and the driver applies them, so clones share the list.
#[derive(Clone, Default)]
pub(super) struct TapFaults(Rc<RefCell<BTreeMap<String, TapFault>>>);

type PlantedChange = dyn Fn(Array) -> Result<Array, Exception>;

struct TapFault {
    change: Rc<PlantedChange>,
    reached: Rc<Cell<bool>>,
}

impl TapFaults {
    /// Adds a fault at a tap. A second fault at the same tap replaces the first, because a port can run twice on one
    /// `Run`.
    pub(super) fn insert(&self, name: &str, change: impl Fn(Array) -> Result<Array, Exception> + 'static) {
        let fault = TapFault { change: Rc::new(change), reached: Rc::default() };
        self.0.borrow_mut().insert(name.to_owned(), fault);
    }

    /// Returns `array`, changed by the fault at this tap if it has one.
    pub(super) fn apply(&self, name: &str, array: Array) -> Result<Array, Exception> {
        // The list is released before the change runs, since the change may add faults at later taps.
        let fault =
            self.0.borrow().get(name).map(|fault| (Rc::clone(&fault.change), Rc::clone(&fault.reached)));
        let Some((change, reached)) = fault else { return Ok(array) };
        reached.set(true);
        change(array)
            .map_err(|error| Exception::custom(format!("the fault at `{name}` failed: {}", error.what())))
    }

    /// Returns an error message that names the taps with a fault that the port never reached, or `None`.
    pub(super) fn unreached(&self) -> Option<String> {
        let list = self.0.borrow();
        let names: Vec<String> = list
            .iter()
            .filter(|(_, fault)| !fault.reached.get())
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let taps = if names.len() == 1 { "a fault at a tap" } else { "faults at taps" };
        (!names.is_empty())
            .then(|| format!("the port has {taps} that it never reached: {}", names.join(", ")))
    }
}
