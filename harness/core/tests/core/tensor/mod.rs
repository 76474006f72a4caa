//! Tensor files: sound ones, broken ones and hostile ones.

mod files;
mod hostile;
