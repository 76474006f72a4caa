//! Recipes: the operations by which a reference made its goldens, as stored in a fixture set.

mod form;
mod function;
mod graph;
mod op;
mod product;

pub use form::{Form, PadMode, Slice, Upsampling};
pub use function::{Binary, Reduction, Unary};
pub use graph::{Node, Operand, Place, Recipe};
pub use op::{Complex, Leaf, Lookup, Op, Pooling, Ranked};
pub use product::{Mask, Normalizer, Product};
