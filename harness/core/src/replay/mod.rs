//! Replays: recipes evaluated in float64, as they are or with changes.

mod array;
mod attention;
mod binary;
mod change;
mod complex;
mod convolution;
mod dequantize;
mod einsum;
mod error;
mod evaluate;
mod graph;
mod join;
mod leaves;
mod lookup;
mod matrix;
mod normalize;
mod pick;
mod pool;
mod rank;
mod reduce;
mod rows;
mod strided;
mod unary;
mod upsample;
mod walk;
mod window;
mod work;

pub use array::Array;
pub use change::{Change, NewNode, NewOperand};
pub use error::ReplayError;
pub use evaluate::evaluate;
pub use graph::Replay;
pub use leaves::{Leaves, SetLeaves};
pub use work::Work;
