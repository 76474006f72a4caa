//! Specs: how they are found, read, refused and described.

mod errors;
mod hostile;
mod large;
mod load;
mod model;
mod schema;
