//! The lines of source at a stop, read when the first stop needs them.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;

use super::super::source_files::source_files;
use mlx_parity_core::details::{Excerpt, Sources};
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::record::Location;

/// The sources of the port and of the reference.
pub(super) struct SourceLines {
    spec_root: PathBuf,
    fixtures: Option<Rc<FixtureSet>>,
    sources: OnceCell<Sources>,
}

impl SourceLines {
    pub(super) fn new(spec_root: PathBuf, fixtures: Option<Rc<FixtureSet>>) -> Self {
        Self { spec_root, fixtures, sources: OnceCell::new() }
    }

    fn sources(&self) -> &Sources {
        self.sources.get_or_init(|| source_files(&self.spec_root, self.fixtures.as_deref()))
    }

    pub(super) fn of_port(&self, place: &Location) -> Option<Excerpt> {
        self.sources().excerpt(&place.file, place.line)
    }

    pub(super) fn of_reference(&self, place: &str) -> Option<Excerpt> {
        self.sources().excerpt_at(place)
    }
}
