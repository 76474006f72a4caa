//! The driver of this thread's taps, and the path of its open scopes.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use mlx_rs::{Array, error::Exception};

/// Receives the arrays of taps. mlx-parity's worker implements it; model code does not need it.
pub trait Driver {
    /// Returns the array that the port continues with. `name` is the tap's full name, with its scopes, and `place` is the
    /// call of `tap` in the port.
    ///
    /// # Errors
    /// Any error; `tap` returns it to the port.
    fn tap(
        &mut self,
        name: &str,
        array: Array,
        place: &'static Location<'static>,
    ) -> Result<Array, Exception>;
}

thread_local! {
    /// Whether `DRIVER` is set. A separate cell, so a tap without a driver reads only one `bool`.
    static DRIVEN: Cell<bool> = const { Cell::new(false) };
    static DRIVER: RefCell<Option<Box<dyn Driver>>> = const { RefCell::new(None) };
    static PATH: RefCell<String> = const { RefCell::new(String::new()) };
    /// Where each open scope starts in `PATH`.
    static STARTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Runs `port` with `driver` at its taps. Returns the port's result and the driver.
///
/// The driver receives only the taps of the calling thread. It is removed when `drive` returns or unwinds.
pub fn drive<T>(driver: Box<dyn Driver>, port: impl FnOnce() -> T) -> (T, Option<Box<dyn Driver>>) {
    struct Quiet;
    impl Drop for Quiet {
        fn drop(&mut self) {
            DRIVEN.set(false);
            PATH.take();
            STARTS.take();
            DRIVER.take();
        }
    }
    DRIVER.replace(Some(driver));
    DRIVEN.set(true);
    let quiet = Quiet;
    let result = port();
    let driver = DRIVER.take();
    drop(quiet);
    (result, driver)
}

#[inline]
pub(crate) fn is_driven() -> bool {
    DRIVEN.get()
}

pub(crate) fn observe(
    name: &str,
    array: Array,
    place: &'static Location<'static>,
) -> Result<Array, Exception> {
    // The driver is taken out while it runs. It can call code that contains taps, which then return their arrays.
    let Some(mut driver) = DRIVER.take() else { return Ok(array) };
    let full = PATH.with_borrow(|path| format!("{path}{name}"));
    let result = driver.tap(&full, array, place);
    DRIVER.replace(Some(driver));
    result
}

pub(crate) fn open(name: &str, index: Option<usize>) -> usize {
    PATH.with_borrow_mut(|path| {
        let outer = path.len();
        STARTS.with_borrow_mut(|starts| starts.push(outer));
        path.push_str(name);
        if let Some(index) = index {
            path.push_str(&format!(".{index}"));
        }
        path.push('.');
        outer
    })
}

pub(crate) fn close(outer: usize) {
    PATH.with_borrow_mut(|path| path.truncate(outer));
    // A guard that is dropped out of order also closes the scopes inside.
    STARTS.with_borrow_mut(|starts| starts.retain(|&start| start < outer));
}

/// Returns the scopes that are open on this thread, outermost first, such as `blocks.3`. Empty outside a parity run.
pub fn open_scopes() -> Vec<String> {
    let path = PATH.with_borrow(Clone::clone);
    let starts = STARTS.with_borrow(Clone::clone);
    let ends = starts.iter().copied().skip(1).chain([path.len()]);
    let scopes = starts.iter().zip(ends).filter_map(|(&start, end)| path.get(start..end));
    scopes.map(|scope| scope.trim_end_matches('.').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::{scope, tap};

    /// Stores the names and returns zero at every tap.
    struct Zero(Rc<RefCell<Vec<String>>>);

    impl Driver for Zero {
        fn tap(
            &mut self,
            name: &str,
            array: Array,
            place: &'static Location<'static>,
        ) -> Result<Array, Exception> {
            assert!(place.file().ends_with("driver.rs"), "the place is the caller of `tap`");
            self.0.borrow_mut().push(name.to_owned());
            let scopes = open_scopes().join(".");
            assert!(name.starts_with(&scopes) && !scopes.is_empty(), "{name} is in {scopes}");
            tap("inside", array)?;
            Ok(Array::from_f32(0.0))
        }
    }

    fn value(array: &Array) -> f32 {
        array.item_exact()
    }

    #[test]
    fn taps_are_named_by_their_scopes_and_return_the_drivers_array() {
        let names = Rc::new(RefCell::new(Vec::new()));
        let (result, driver) = drive(Box::new(Zero(names.clone())), || {
            let _model = scope("model", None);
            for i in 0..2 {
                let _block = scope("blocks", i);
                tap("norm", Array::from_f32(1.0))?;
            }
            tap("out", Array::from_f32(1.0))
        });
        assert_eq!(value(&result.unwrap()), 0.0);
        assert!(driver.is_some());
        assert!(open_scopes().is_empty());
        assert_eq!(*names.borrow(), ["model.blocks.0.norm", "model.blocks.1.norm", "model.out"]);
    }

    #[test]
    fn without_a_driver_a_tap_returns_its_array_unchanged() {
        let _scope = scope("blocks", 3);
        assert_eq!(value(&tap("x", Array::from_f32(7.0)).unwrap()), 7.0);
        assert_eq!(PATH.with_borrow(String::len), 0);
    }

    #[test]
    fn a_port_that_panics_leaves_no_driver() {
        let names = Rc::new(RefCell::new(Vec::new()));
        let driver = Box::new(Zero(names));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drive(driver, || {
                let _scope = scope("blocks", 0);
                panic!("on purpose")
            })
        }));
        assert!(caught.is_err() && !is_driven() && DRIVER.take().is_none());
        assert_eq!(value(&tap("x", Array::from_f32(7.0)).unwrap()), 7.0);
    }
}
