//! The spec that a command is asked to work on.

use thiserror::Error;

use super::Project;
use super::error::CommandError;
use mlx_parity_core::spec::{Spec, SpecError, Specs};
use mlx_parity_core::text::program::program;
use mlx_parity_core::text::suggest::did_you_mean;

/// Why the spec was not found.
#[derive(Debug, Error)]
pub(crate) enum FindSpecError {
    #[error("spec `{id}` does not exist{near}")]
    Missing { id: String, near: String },
    #[error("{0}")]
    Broken(Box<SpecError>),
}

impl CommandError for FindSpecError {
    fn next(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(format!("see the specs with `{} list`", program())),
            Self::Broken(_) => None,
        }
    }
}

/// Returns the spec with this id.
pub(crate) fn find_spec(project: &Project, id: &str) -> Result<Spec, FindSpecError> {
    find(Specs::load(&project.spec_root()), id)
}

/// Returns the spec or the twin with this id, which a suite can run.
pub(crate) fn find_run(project: &Project, id: &str) -> Result<Spec, FindSpecError> {
    let mut found = Specs::load(&project.spec_root());
    let twins: Vec<Spec> = found.specs.iter().flat_map(Spec::twin_specs).collect();
    found.specs.extend(twins);
    find(found, id)
}

fn find(Specs { specs, broken, .. }: Specs, id: &str) -> Result<Spec, FindSpecError> {
    if let Some(error) = broken.into_iter().find(|error| error.id == id) {
        return Err(FindSpecError::Broken(Box::new(error)));
    }
    let near = did_you_mean(id, specs.iter().map(|spec| spec.id.as_str()));
    let found = specs.into_iter().find(|spec| spec.id == id);
    found.ok_or_else(|| FindSpecError::Missing { id: id.to_owned(), near })
}
