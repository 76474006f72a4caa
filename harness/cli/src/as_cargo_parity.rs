//! How an xtask acts as `cargo parity` in another project.

/// The first argument with which an xtask works as `cargo parity`, on the project around the current folder. The tutorial,
/// whose folder is a project of its own, starts itself like this.
pub(crate) const AS_CARGO_PARITY: &str = "as-cargo-parity";
