//! Replays: recipes evaluated in float64, as they are or with changes.

mod array;
mod attention;
mod binary;
mod complex;
mod convolution;
mod dequantize;
mod einsum;
mod error;
mod evaluate;
mod join;
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
pub use error::ReplayError;
pub use evaluate::evaluate;
pub use work::Work;
