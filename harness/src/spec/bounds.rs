//! How large a spec may be. Past a bound there is an error, never a slow or a large run.

use std::time::Duration;

/// Bytes of a spec or policy file.
pub const FILE_BYTES: usize = 4 << 20;
/// Nesting of YAML lists and mappings.
pub const YAML_DEPTH: usize = 32;
/// YAML nodes of a file.
pub const YAML_NODES: usize = 200_000;
/// YAML nodes that aliases may repeat.
pub const YAML_REPEATED: usize = 20_000;
/// YAML anchors of a file, and aliases.
pub const YAML_ALIASES: usize = 1_000;
/// Checkpoints of a spec once its loops are expanded.
pub const CHECKPOINTS: usize = 100_000;
/// Combinations of axis values that a spec's `for` loops may have before `when` selects among them.
pub const COMBINATIONS: usize = 1_000_000;
/// Axes of one `for`.
pub const AXES: usize = 8;
/// Characters of a checkpoint, input, port or policy name.
pub const NAME: usize = 200;
/// Characters of any other text.
pub const TEXT: usize = 4_000;
/// Entries of `inputs`, `inject`, `requires`, and of the lists in `weights`.
pub const ENTRIES: usize = 100_000;
/// Axes of a tensor.
pub const RANK: usize = 16;
/// Characters of a `when` expression.
pub const WHEN: usize = 500;
/// Nesting of a `when` expression.
pub const WHEN_DEPTH: usize = 32;
/// Highest `level`.
pub const LEVEL: u8 = 9;
/// Highest `hits`.
pub const HITS: u32 = 1_000_000;
/// Time that a run of the port may take when the spec does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Time that a reference's script may take each time it runs, when the spec does not say. The slowest bundled one takes
/// less than a minute; real models are loaded from disk first.
pub const DEFAULT_SCRIPT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Longest `timeout`.
pub const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Multiples of the noise floor past which `why` is needed: right ports were measured to stay well within.
pub const NOISE: f64 = 8.0;
