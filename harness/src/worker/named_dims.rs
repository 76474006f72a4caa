//! Declared shapes with named dims, which must have the same length wherever they stand.

use std::collections::HashMap;

use mlx_parity_core::spec::{Checkpoint, Dim};

/// The named dims of one run.
#[derive(Default)]
pub(super) struct NamedDims {
    /// Length of each named dim, and the checkpoint that bound it.
    bound: HashMap<String, (usize, String)>,
}

impl NamedDims {
    /// Compares the actual's shape with the declared shape. The first checkpoint with a named dim binds its length.
    pub(super) fn check_shape(&mut self, checkpoint: &Checkpoint, found: &[usize]) -> Result<(), String> {
        let Some(declared) = &checkpoint.shape else { return Ok(()) };
        let text = || {
            let dims: Vec<String> = declared.iter().map(Dim::to_string).collect();
            format!("the spec declares [{}], but the port produced {found:?}", dims.join(", "))
        };
        if declared.len() != found.len() {
            return Err(text());
        }
        for (dim, &length) in declared.iter().zip(found) {
            match dim {
                Dim::Fixed(wanted) if *wanted == length => {}
                Dim::Fixed(_) => return Err(text()),
                Dim::Named(name) => {
                    let (bound, place) =
                        self.bound.entry(name.clone()).or_insert_with(|| (length, checkpoint.name.clone()));
                    if *bound != length {
                        return Err(format!("{}, and `{name}` was {bound} at `{place}`", text()));
                    }
                }
            }
        }
        Ok(())
    }
}
