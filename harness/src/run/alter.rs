//! Faults planted at taps: what a tap holds is changed before anybody looks at it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use mlx_rs::{Array, error::Exception};

/// The alterations of one run, shared by the port that asks for them and the driver that makes them.
#[derive(Clone, Default)]
pub(super) struct Alterations(Rc<RefCell<BTreeMap<String, Alteration>>>);

type Change = dyn Fn(Array) -> Result<Array, Exception>;

struct Alteration {
    change: Rc<Change>,
    met: Rc<Cell<bool>>,
}

impl Alterations {
    /// A name has one alteration: a port that runs again on the same `Run` asks again.
    pub(super) fn insert(&self, name: &str, change: impl Fn(Array) -> Result<Array, Exception> + 'static) {
        let alteration = Alteration { change: Rc::new(change), met: Rc::default() };
        self.0.borrow_mut().insert(name.to_owned(), alteration);
    }

    /// What the tap of that name is to hold in the place of `array`.
    pub(super) fn apply(&self, name: &str, array: Array) -> Result<Array, Exception> {
        // Let go of the list before the change runs: it may ask for alterations further on.
        let found = self.0.borrow().get(name).map(|found| (Rc::clone(&found.change), Rc::clone(&found.met)));
        let Some((change, met)) = found else { return Ok(array) };
        met.set(true);
        change(array).map_err(|error| Exception::custom(format!("altering `{name}`: {}", error.what())))
    }

    /// Why a run that came to its end is not the one that was asked for, if it is not.
    pub(super) fn unmet(&self) -> Option<String> {
        let list = self.0.borrow();
        let unmet: Vec<String> =
            list.iter().filter(|(_, found)| !found.met.get()).map(|(name, _)| format!("`{name}`")).collect();
        let count = if unmet.len() == 1 { "a tap" } else { "taps" };
        (!unmet.is_empty())
            .then(|| format!("the port alters {count} that it never met: {}", unmet.join(", ")))
    }
}
