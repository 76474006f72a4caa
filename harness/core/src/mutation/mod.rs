//! Mutations: automatic changes of a tap's tensor, and which checkpoint notices each of them.

mod kind;
mod log;
mod noticed;
mod results;

pub use kind::MutationKind;
pub use log::{MutationEvent, MutationLog};
pub use noticed::{Mutation, MutationResult, Noticed};
pub use results::{MutationResults, MutationScore};
