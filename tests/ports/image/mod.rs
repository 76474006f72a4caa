//! Front-ends of vision models: pictures resized, cropped, normalised, and cut into patches.

mod patches;
mod preprocess;
mod resize;

pub use patches::Patches;
pub use preprocess::{Config, Size, preprocess};
pub use resize::{Kernel, Resampler};
