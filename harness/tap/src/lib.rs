//! The two calls that a model's own code makes to be observed by mlx-parity.
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
//! Outside a parity run both cost a thread-local read, so they can stay in code that ships.

mod driver;

use std::panic::Location;

use mlx_rs::{Array, error::Exception};

pub use driver::{Driver, drive};

/// Names `array` as the checkpoint `name` inside the open [`scope`]s, and hands it back.
///
/// In a parity run the array is evaluated, compared and recorded before this returns; under injection the golden
/// comes back in its place. Without one, the array comes back untouched and still lazy.
///
/// # Errors
/// When the array cannot be evaluated. The error is MLX's own.
#[track_caller]
pub fn tap(name: &str, array: Array) -> Result<Array, Exception> {
    if driver::is_driven() { driver::observe(name, array, Location::caller()) } else { Ok(array) }
}

/// Opens a scope: until the guard is dropped, taps on this thread are named `name.index.…`, or `name.…` when the
/// index is `None`. Scopes nest.
#[must_use = "the scope is closed when the guard is dropped"]
pub fn scope(name: &str, index: impl Into<Option<usize>>) -> Scope {
    Scope { outer: driver::is_driven().then(|| driver::open(name, index.into())) }
}

/// Closes its [`scope`] when dropped.
#[derive(Debug)]
pub struct Scope {
    /// How long the path of scopes was before this one; nothing when no run drives this thread.
    outer: Option<usize>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(outer) = self.outer {
            driver::close(outer);
        }
    }
}
