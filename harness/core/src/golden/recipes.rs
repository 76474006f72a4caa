//! The recipe of a fixture set.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::entry::{RecipesFile, Role};
use super::error::FixtureError;
use super::set::{FixtureSet, real_file};
use crate::files::hash::hex;
use crate::files::regular;
use crate::recipe::{Leaf, MAX_BYTES, Op, Recipe, RecipeError};
use crate::tensor::is_lfs_pointer;

impl FixtureSet {
    /// The operations by which the reference made the goldens; `None` if the set has no recipe.
    ///
    /// The file is hashed on every call, and its names are compared with the manifest's.
    ///
    /// # Errors
    ///
    /// When the file is missing, differs from its checksum, or is not a recipe for the tensors of this set.
    pub fn recipe(&self) -> Result<Option<Recipe>, FixtureError> {
        let Some(listed) = &self.manifest().recipes else { return Ok(None) };
        let text = self.recipe_text(listed)?;
        let (set, path) = (self.name().to_owned(), self.path(&listed.file));
        let recipe = Recipe::parse(&text).and_then(|recipe| {
            self.check_names(&recipe)?;
            Ok(recipe)
        });
        match recipe {
            Ok(recipe) => Ok(Some(recipe)),
            Err(source) => Err(FixtureError::Recipe { set, path, source: source.into() }),
        }
    }

    fn recipe_text(&self, listed: &RecipesFile) -> Result<Vec<u8>, FixtureError> {
        let path = self.path(&listed.file);
        real_file(self.name(), &path, self.real_folder())?;
        let set = self.name().to_owned();
        let mut text = Vec::new();
        // One byte more than is allowed, so that a longer file is recognised.
        let read = regular::open(&path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
        match read {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(FixtureError::NoFile { set, path });
            }
            Err(source) => return Err(FixtureError::Read { set, path, source }),
            Ok(_) => {}
        }
        if is_lfs_pointer(&text) {
            return Err(FixtureError::LfsPointer { set, path });
        }
        if text.len() as u64 > MAX_BYTES {
            let source = RecipeError::TooLong { found: text.len() as u64 }.into();
            return Err(FixtureError::Recipe { set, path, source });
        }
        let found = hex(&Sha256::digest(&text));
        if found != listed.sha256 {
            let expected = listed.sha256.as_str().into();
            return Err(FixtureError::FileChecksum { set, path, expected, found: found.into() });
        }
        Ok(text)
    }

    /// Checks that the recipe knows every golden, and the set every leaf.
    fn check_names(&self, recipe: &Recipe) -> Result<(), RecipeError> {
        let bad = |problem| Err(RecipeError::Manifest(problem));
        for golden in self.entries(Role::Golden) {
            let name = &golden.name;
            if !recipe.goldens.contains_key(name) && !recipe.missing.contains_key(name) {
                return bad(format!("golden `{name}` is neither in `goldens` nor in `missing`"));
            }
        }
        for name in recipe.goldens.keys().chain(recipe.missing.keys()) {
            if !self.lists(Role::Golden, name) {
                return bad(format!("golden `{}` is not in the manifest", name.escape_debug()));
            }
        }
        for (index, node) in recipe.nodes.iter().enumerate() {
            let (role, name) = match &node.op {
                Op::Leaf(Leaf::Input { name }) => (Role::Input, name),
                Op::Leaf(Leaf::Weight { name }) => (Role::Weight, name),
                Op::Leaf(Leaf::Constant { name }) => (Role::Constant, name),
                _ => continue,
            };
            // Without the external weights at hand, their names are unknown.
            let is_elsewhere = role == Role::Weight
                && self.manifest().external_weights.is_some()
                && self.external().is_none();
            if !is_elsewhere && !self.lists(role, name) {
                let (role, name) = (role.name(), name.escape_debug());
                return bad(format!("node {index} is the {role} `{name}`, which is not in the manifest"));
            }
        }
        Ok(())
    }
}
