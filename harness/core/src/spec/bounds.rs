//! The limits of a spec. A spec past a limit is an error; it never becomes a slow or large run.

use std::time::Duration;

/// Most bytes of a spec or policy file.
pub const FILE_BYTES: usize = 4 << 20;
/// Deepest nesting of YAML lists and mappings.
pub const YAML_DEPTH: usize = 32;
/// Most YAML nodes of a file.
pub const YAML_NODES: usize = 200_000;
/// Most YAML nodes that aliases repeat.
pub const YAML_REPEATED: usize = 20_000;
/// Most YAML anchors of a file, and most aliases.
pub const YAML_ALIASES: usize = 1_000;
/// Most checkpoints of a spec after its loops are expanded.
pub const CHECKPOINTS: usize = 100_000;
/// Most combinations of axis values in a spec's `for` loops, before `when` selects among them.
pub const COMBINATIONS: usize = 1_000_000;
/// Most axes of one `for`.
pub const AXES: usize = 8;
/// Most characters of a checkpoint, input, port or policy name.
pub const NAME: usize = 200;
/// Most characters of any other text.
pub const TEXT: usize = 4_000;
/// Most entries of `inputs`, `inject`, `requires`, and of the lists in `weights`.
pub const ENTRIES: usize = 100_000;
/// Most axes of a tensor.
pub const RANK: usize = 16;
/// Most characters of a `when` expression.
pub const WHEN: usize = 500;
/// Deepest nesting of a `when` expression.
pub const WHEN_DEPTH: usize = 32;
/// Highest `level`.
pub const LEVEL: u8 = 9;
/// Highest `hits`.
pub const HITS: u32 = 1_000_000;
/// Time limit of a run of the port when the spec has no `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Time limit of each run of a reference's script when the spec has no `timeout`. The slowest bundled script takes less
/// than a minute; scripts for real models load these from disk first.
pub const DEFAULT_SCRIPT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Longest `timeout`.
pub const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Multiples of the floor past which `why` is needed: correct ports were measured to stay well below.
pub const NOISE: f64 = crate::gate::USUAL_NOISE;
