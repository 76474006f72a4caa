//! Checks before a run: the fixtures of each spec, and the specs and fixtures as a whole.

mod discovery;
mod fixtures;
mod missing;
mod positions;

pub use discovery::{DISCOVERY, discovery, fixture_sets};
pub use fixtures::look_at_fixtures;
pub use missing::missing;
pub use positions::wrong_positions;
