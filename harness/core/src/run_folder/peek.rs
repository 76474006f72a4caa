//! What `PARITY_PEEK` asked for: `peeks.jsonl`, one line per hit of a tap.

use serde::{Deserialize, Serialize};

use crate::compare::Stats;
use crate::record::{Location, TensorInfo};

/// The name of the file in the folder of the spec.
pub const PEEKS: &str = "peeks.jsonl";

/// How many hits of one spec are described. One more line in the file means that more hits matched.
pub const MOST_PEEKS: usize = 100;

/// The tensor at one hit of a tap, declared or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peek {
    /// The tap's full name.
    pub tap: String,
    /// The number of this hit of the tap, from 0.
    pub hit: u64,
    /// The dtype and the shape.
    pub tensor: TensorInfo,
    /// The statistics and the first elements; absent if the tensor was not evaluated.
    pub stats: Option<Stats>,
    /// Why the tensor was not evaluated.
    pub problem: Option<String>,
    /// The tap's place in the port's source.
    pub location: Location,
}
