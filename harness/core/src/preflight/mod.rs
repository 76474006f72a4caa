//! Checks before a run: the fixtures of each spec, and the specs and fixtures as a whole.

mod discovery;
mod external;
mod fixtures;
mod missing;
mod positions;
mod reference_block;

pub use discovery::{DISCOVERY, discovery, fixture_sets};
pub use external::{external_records, open_external, with_external};
pub use fixtures::look_at_fixtures;
pub use missing::missing;
pub use positions::wrong_positions;
pub use reference_block::reference_block;
