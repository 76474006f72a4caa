//! Faults that are planted at a tap: what a mistaken stage would hold, from what the right one holds.

use std::cell::RefCell;
use std::rc::Rc;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use mlx_rs::error::Exception;

/// The fault's name, the tap that it is at, what else it takes, and what it makes of the tap's own array and of those.
///
/// What else it takes is a tap that is met before, `weights/<name>` or `inputs/<name>`.
pub(crate) type Planted = (&'static str, &'static str, &'static [&'static str], Change);

/// From what the tap holds, and what else was asked for.
pub(crate) type Change = fn(&Array, &[Array]) -> Result<Array, Exception>;

/// Registers `<port>/<fault>` for each of them, which is `right` with that fault.
pub(crate) fn plant(
    suite: Suite,
    port: &str,
    right: fn(&Run) -> PortResult,
    faults: &'static [Planted],
) -> Suite {
    faults.iter().fold(suite, |suite, (fault, at, from, change)| {
        suite.port(format!("{port}/{fault}"), move |run| {
            alter(run, at, from, *change)?;
            right(run)
        })
    })
}

fn alter(run: &Run, at: &'static str, from: &'static [&'static str], change: Change) -> PortResult {
    let taken: Rc<RefCell<Vec<Option<Array>>>> = Rc::new(RefCell::new(vec![None; from.len()]));
    for (place, name) in from.iter().enumerate() {
        if let Some(name) = name.strip_prefix("weights/") {
            taken.borrow_mut()[place] = Some(run.weights()?.get(name)?);
        } else if let Some(name) = name.strip_prefix("inputs/") {
            taken.borrow_mut()[place] = Some(run.input(name)?);
        } else {
            let taken = Rc::clone(&taken);
            run.alter(name, move |array| {
                taken.borrow_mut()[place] = Some(array.clone());
                Ok(array)
            });
        }
    }
    run.alter(at, move |array| {
        let taken: Option<Vec<Array>> = taken.borrow().iter().cloned().collect();
        let taken = taken.ok_or_else(|| Exception::custom("what it takes comes later"))?;
        change(&array, &taken)
    });
    Ok(())
}
