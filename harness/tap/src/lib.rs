//! The two functions that model code calls so that mlx-parity can check it: [`tap`] names a tensor, [`scope`] opens a
//! level of names.
//!
//! ```
//! use mlx_parity_tap::{scope, tap};
//! use mlx_rs::{Array, error::Exception};
//!
//! fn forward(x: &Array) -> Result<Array, Exception> {
//!     let mut x = x.clone();
//!     for i in 0..2 {
//!         let _scope = scope("blocks", i);
//!         x = tap("out", x.square()?)?; // checkpoint `blocks.0.out`, then `blocks.1.out`
//!     }
//!     Ok(x)
//! }
//! # assert_eq!(forward(&Array::from_f32(3.0)).unwrap().item_exact::<f32>(), 81.0);
//! ```
//!
//! [`checked_index`], [`same_len`] and [`not_tiny`] report numbers that MLX would accept without an error.
//!
//! Outside a parity run, each call costs one read of a thread-local, so both can stay in released code.

mod checks;
mod driver;

use std::panic::Location;

use mlx_rs::{Array, error::Exception};

pub use checks::{TINY, checked_index, not_tiny, same_len};
pub use driver::{Driver, drive, open_scopes};

/// Names `array` as the checkpoint `name` inside the open [`scope`]s, and returns the array to continue with.
///
/// In a parity run, the array is evaluated, compared and recorded before `tap` returns. It returns the golden if the
/// golden is injected, and `array` otherwise. Outside a parity run, it returns `array` unchanged and still lazy.
///
/// # Errors
/// Only in a parity run: if the array cannot be evaluated, if the result cannot be recorded, or if no later checkpoint
/// is selected and the port should stop. Return the error with `?`.
#[track_caller]
pub fn tap(name: &str, array: Array) -> Result<Array, Exception> {
    if driver::is_driven() { driver::observe(name, array, Location::caller()) } else { Ok(array) }
}

/// Opens a scope and returns its guard. Until the guard is dropped, the names of taps on this thread start with
/// `name.index.`, or with `name.` if the index is `None`. Scopes nest.
#[must_use = "the scope is closed when the guard is dropped"]
pub fn scope(name: &str, index: impl Into<Option<usize>>) -> Scope {
    Scope { outer: driver::is_driven().then(|| driver::open(name, index.into())) }
}

/// The guard of a [`scope`], which closes the scope when dropped.
#[derive(Debug)]
pub struct Scope {
    /// Length of the path before this scope was opened; `None` outside a parity run.
    outer: Option<usize>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(outer) = self.outer {
            driver::close(outer);
        }
    }
}
