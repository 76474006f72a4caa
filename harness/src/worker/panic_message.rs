//! The message of a panic, and where the port panicked.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{set_hook, take_hook};

use super::source_place::shown_place;

thread_local! {
    /// Where the latest panic of this thread happened.
    static LATEST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes [`panic_text`] know where a panic happens. Panics are printed as before.
pub(super) fn note_places() {
    let print = take_hook();
    set_hook(Box::new(move |info| {
        let place = info.location().and_then(|place| shown_place(place.file(), place.line()));
        let _ = LATEST.try_with(|latest| *latest.borrow_mut() = place);
        print(info);
    }));
}

/// Returns where and with which text the port panicked: `panicked at src/model.rs:76: index out of bounds`.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message");
    let text = super::array::mlx_message(text);
    match LATEST.with(|latest| latest.borrow_mut().take()) {
        Some(place) => format!("panicked at {place}: {text}"),
        None => format!("panicked: {text}"),
    }
}
