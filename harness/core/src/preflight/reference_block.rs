//! The block that identifies the reference of a set.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::files::hash::hex;
use crate::files::regular;
use crate::gate::Class;
use crate::run_folder::Obstacle;
use crate::spec::Reference;

/// Returns the parts of the reference that goldens depend on. With a second script, they include its path and the SHA-256
/// of its bytes: a set is stale when either script changes.
///
/// # Errors
/// When the second script cannot be read. It lies under `root`.
pub fn reference_block(reference: &Reference, root: &Path) -> Result<Value, Obstacle> {
    let mut block = reference.to_json();
    if let Some(also) = &reference.also {
        let path = root.join(also);
        let bytes = regular::read(&path, regular::TEXT).map_err(|error| Obstacle {
            class: Class::Missing,
            text: format!(
                "the second reference `{}` cannot be read: {error}; restore it, or remove `also` from the spec",
                path.display()
            ),
        })?;
        block["also"] = json!({"script": also, "sha256": hex(&Sha256::digest(bytes))});
    }
    Ok(block)
}
