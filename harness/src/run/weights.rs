//! Weights as a port sees them, and the audit of what it took.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mlx_rs::Array;
use mlx_rs::module::ModuleParameters;

use super::array::from_host;
use super::folder::Audit;
use super::port::RunError;
use crate::golden::FixtureSet;
use crate::near::did_you_mean;
use crate::spec::Weights;

/// The weights of a fixture set under the names that the port knows them by.
pub struct WeightSet {
    set: Rc<FixtureSet>,
    /// From the port's name to the name in the fixture.
    names: BTreeMap<String, String>,
    allow_missing: Vec<String>,
    expect: Vec<String>,
    ledger: RefCell<Ledger>,
}

#[derive(Default)]
struct Ledger {
    taken: BTreeSet<String>,
    missing: BTreeSet<String>,
    misshapen: BTreeMap<String, String>,
}

impl WeightSet {
    pub(super) fn new(declared: &Weights, set: Rc<FixtureSet>) -> Result<Self, RunError> {
        let mut names = BTreeMap::new();
        for file in &declared.files {
            if !set.weights().any(|entry| entry.file == *file) {
                return Err(RunError::NoWeightFile { file: file.clone() });
            }
        }
        for entry in set.weights().filter(|entry| declared.files.contains(&entry.file)) {
            let name = renamed(&entry.name, &declared.rename);
            if let Some(first) = names.insert(name.clone(), entry.name.clone()) {
                return Err(RunError::TwoWeights { name, first, second: entry.name.clone() });
            }
        }
        let (allow_missing, expect) = (declared.allow_missing.clone(), declared.expect.clone());
        Ok(Self { set, names, allow_missing, expect, ledger: RefCell::default() })
    }

    /// The weight of that name.
    ///
    /// # Errors
    /// When there is none, which the audit also says.
    pub fn get(&self, name: &str) -> Result<Array, RunError> {
        match self.find(name)? {
            Some(array) => Ok(array),
            None => {
                self.ledger.borrow_mut().missing.insert(name.to_owned());
                let near = did_you_mean(name, self.names.keys().map(String::as_str));
                Err(RunError::NoWeight { name: name.to_owned(), near })
            }
        }
    }

    /// The weight of that name if there is one, for parameters that a model may or may not have.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<Array>, RunError> {
        let Some(stored) = self.names.get(name) else { return Ok(None) };
        let array = from_host(&self.set.weight(stored)?.view())?;
        self.ledger.borrow_mut().taken.insert(name.to_owned());
        Ok(Some(array))
    }

    /// Every name, as the port knows it, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Gives every parameter of an mlx-rs module its weight, strictly: all must be there, with the parameter's shape.
    ///
    /// mlx-rs's own loading leaves what it does not find at its random start, and looks at no shape.
    ///
    /// # Errors
    /// On the first parameter without a weight that fits; the audit lists all of them.
    pub fn load_into(&self, module: &mut impl ModuleParameters) -> Result<(), RunError> {
        let mut first = None;
        let mut found = std::collections::HashMap::new();
        for (name, parameter) in module.parameters().flatten() {
            match self.fitting(&name, parameter.shape()) {
                Ok(Some(array)) => drop(found.insert(name, array)),
                Ok(None) => {}
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        match first {
            Some(error) => Err(error),
            None => {
                module.update_flattened(found);
                Ok(())
            }
        }
    }

    /// The weight for a parameter of that name and shape; none where the spec allows it to be missing.
    fn fitting(&self, name: &str, shape: &[i32]) -> Result<Option<Array>, RunError> {
        if !self.names.contains_key(name) && self.allow_missing.iter().any(|pattern| matches(pattern, name)) {
            return Ok(None);
        }
        let array = self.get(name)?;
        if array.shape() == shape {
            return Ok(Some(array));
        }
        let usize_shape = |shape: &[i32]| shape.iter().map(|&length| length as usize).collect();
        let (wanted, found) = (usize_shape(shape), usize_shape(array.shape()));
        let error = RunError::WeightShape { name: name.to_owned(), wanted, found };
        self.ledger.borrow_mut().misshapen.insert(name.to_owned(), error.to_string());
        Err(error)
    }

    pub(super) fn audit(&self) -> Audit {
        let ledger = self.ledger.borrow();
        let expected = self.expect.iter().filter(|name| !self.names.contains_key(*name));
        let missing: BTreeSet<&String> = ledger.missing.iter().chain(expected).collect();
        Audit {
            taken: ledger.taken.len(),
            missing: missing.into_iter().cloned().collect(),
            unused: self.names.keys().filter(|name| !ledger.taken.contains(*name)).cloned().collect(),
            misshapen: ledger.misshapen.values().cloned().collect(),
        }
    }
}

/// The port's name for a weight: every run of whole segments that a rule names is replaced, the longest rule first.
fn renamed(name: &str, rules: &BTreeMap<String, String>) -> String {
    let mut ordered: Vec<(Vec<&str>, &str)> =
        rules.iter().map(|(from, to)| (from.split('.').collect(), to.as_str())).collect();
    ordered.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    let mut rest: &[&str] = &name.split('.').collect::<Vec<_>>();
    let mut parts = Vec::new();
    while let [first, others @ ..] = rest {
        match ordered.iter().find(|(from, _)| rest.starts_with(from)) {
            Some((from, to)) => {
                parts.extend((!to.is_empty()).then_some(*to));
                rest = &rest[from.len()..];
            }
            None => {
                parts.push(*first);
                rest = others;
            }
        }
    }
    parts.join(".")
}

/// Whether `name` is what `pattern` says, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len()).filter(|&at| tail.is_char_boundary(at)).any(|at| matches(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_touch_whole_segments_only() {
        let rules: BTreeMap<String, String> = [("attn.proj", "attn.out"), ("proj", "p"), ("inner", "")]
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
            .into();
        for (name, wanted) in [
            ("blocks.0.attn.proj.weight", "blocks.0.attn.out.weight"),
            ("proj.weight", "p.weight"),
            ("proj_in.weight", "proj_in.weight"),
            ("proj", "p"),
            ("proj.proj.weight", "p.p.weight"),
            ("q.inner.weight", "q.weight"),
        ] {
            assert_eq!(renamed(name, &rules), wanted);
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(matches("blocks.*.bias", "blocks.3.attn.bias"));
        assert!(matches("*", "x") && matches("a*", "a"));
        assert!(!matches("blocks.*.bias", "blocks.3.weight") && !matches("bias", "x.bias"));
    }
}
