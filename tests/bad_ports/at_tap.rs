//! Faults at a tap: the array that a wrong stage would hold there, computed from the right one.

use std::cell::RefCell;
use std::rc::Rc;

use mlx_parity::{PortResult, Run, Suite};
use mlx_rs::Array;
use mlx_rs::error::Exception;

/// The fault's name, its tap, the other arrays that it needs, and the function that computes the wrong array.
///
/// An array that it needs is the name of an earlier tap, `weights/<name>` or `inputs/<name>`.
pub(crate) type TapFault = (&'static str, &'static str, &'static [&'static str], Change);

/// From the array of the tap, and the other arrays in the order of their names.
pub(crate) type Change = fn(&Array, &[Array]) -> Result<Array, Exception>;

/// Registers a port `<port>/<fault>` per fault: `right` with that fault.
pub(crate) fn add_faults(
    suite: Suite,
    port: &str,
    right: fn(&Run) -> PortResult,
    faults: &'static [TapFault],
) -> Suite {
    faults.iter().fold(suite, |suite, (fault, at, from, change)| {
        suite.port(format!("{port}/{fault}"), move |run| {
            change_tap(run, at, from, *change)?;
            right(run)
        })
    })
}

fn change_tap(run: &Run, at: &'static str, from: &'static [&'static str], change: Change) -> PortResult {
    let taken: Rc<RefCell<Vec<Option<Array>>>> = Rc::new(RefCell::new(vec![None; from.len()]));
    for (place, name) in from.iter().enumerate() {
        if let Some(name) = name.strip_prefix("weights/") {
            taken.borrow_mut()[place] = Some(run.weights()?.get(name)?);
        } else if let Some(name) = name.strip_prefix("inputs/") {
            taken.borrow_mut()[place] = Some(run.input(name)?);
        } else {
            let taken = Rc::clone(&taken);
            run.plant_fault(name, move |array| {
                taken.borrow_mut()[place] = Some(array.clone());
                Ok(array)
            });
        }
    }
    run.plant_fault(at, move |array| {
        let taken: Option<Vec<Array>> = taken.borrow().iter().cloned().collect();
        let taken = taken.ok_or_else(|| Exception::custom("an array that the fault needs comes later"))?;
        change(&array, &taken)
    });
    Ok(())
}
