//! Who is listening on this thread, and under which scopes.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use mlx_rs::{Array, error::Exception};

/// What mlx-parity's worker does at a tap.
pub trait Driver {
    /// Sees the array of the tap with this full name and decides what the port goes on with.
    ///
    /// # Errors
    /// Whatever should reach the port as the error of its tap.
    fn tap(
        &mut self,
        name: &str,
        array: Array,
        place: &'static Location<'static>,
    ) -> Result<Array, Exception>;
}

thread_local! {
    /// Kept apart from the driver so that an undriven tap reads one plain cell.
    static DRIVEN: Cell<bool> = const { Cell::new(false) };
    static DRIVER: RefCell<Option<Box<dyn Driver>>> = const { RefCell::new(None) };
    static PATH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `port` with `driver` at its taps, and gives the driver back with what the port returned.
///
/// Only taps on the calling thread are seen. The driver is gone again when this returns or unwinds.
pub fn drive<T>(driver: Box<dyn Driver>, port: impl FnOnce() -> T) -> (T, Option<Box<dyn Driver>>) {
    struct Quiet;
    impl Drop for Quiet {
        fn drop(&mut self) {
            DRIVEN.set(false);
            PATH.take();
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
    // Taken out while it works: code that the driver calls may itself contain taps, which then see nobody.
    let Some(mut driver) = DRIVER.take() else { return Ok(array) };
    let full = PATH.with_borrow(|path| format!("{path}{name}"));
    let result = driver.tap(&full, array, place);
    DRIVER.replace(Some(driver));
    result
}

pub(crate) fn open(name: &str, index: Option<usize>) -> usize {
    PATH.with_borrow_mut(|path| {
        let outer = path.len();
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
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::{scope, tap};

    /// Remembers names and answers every tap with zero.
    struct Zero(Rc<RefCell<Vec<String>>>);

    impl Driver for Zero {
        fn tap(
            &mut self,
            name: &str,
            array: Array,
            place: &'static Location<'static>,
        ) -> Result<Array, Exception> {
            assert!(place.file().ends_with("driver.rs"), "the place is the port's line, not ours");
            self.0.borrow_mut().push(name.to_owned());
            tap("inside", array)?;
            Ok(Array::from_f32(0.0))
        }
    }

    fn value(array: &Array) -> f32 {
        array.item_exact()
    }

    #[test]
    fn taps_are_named_by_their_scopes_and_answered_by_the_driver() {
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
        assert_eq!(*names.borrow(), ["model.blocks.0.norm", "model.blocks.1.norm", "model.out"]);
    }

    #[test]
    fn without_a_driver_an_array_comes_back_as_it_was() {
        let _scope = scope("blocks", 3);
        assert_eq!(value(&tap("x", Array::from_f32(7.0)).unwrap()), 7.0);
        assert_eq!(PATH.with_borrow(String::len), 0);
    }

    #[test]
    fn a_port_that_panics_leaves_no_driver_behind() {
        let names = Rc::new(RefCell::new(Vec::new()));
        let driver = Box::new(Zero(names));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drive(driver, || {
                let _scope = scope("blocks", 0);
                panic!("planted")
            })
        }));
        assert!(caught.is_err() && !is_driven() && DRIVER.take().is_none());
        assert_eq!(value(&tap("x", Array::from_f32(7.0)).unwrap()), 7.0);
    }
}
