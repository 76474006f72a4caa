//! Recipes: the operations by which a reference made its goldens, as stored in a fixture set.

mod attributes;
mod decode;
mod form;
mod function;
mod graph;
mod op;
mod operands;
mod product;
mod read;

pub use form::{Form, PadMode, Resampling, Slice, Upsampling};
pub use function::{Binary, Reduction, Unary};
pub use graph::{Node, Operand, Place, Recipe};
pub use op::{Complex, Leaf, Lookup, Op, Pooling, Ranked};
pub use operands::Operands;
pub use product::{Mask, Normalizer, Product};
pub use read::{FORMAT, MAX_BYTES, RecipeError};

#[cfg(test)]
mod tests;
