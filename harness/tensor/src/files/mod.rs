//! Files on disk: opening only regular ones, replacing them in one step, noticing changes.

pub mod atomic;
pub mod hash;
pub mod identity;
pub mod regular;
pub mod size;
