//! Weights as a port sees them, and the audit of what it took.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use mlx_rs::Array;
use mlx_rs::module::ModuleParameters;

use super::array::{ArrayError, dtype_of, from_host};
use super::catalogue::{Catalogue, Faults};
use super::clock::Clock;
use super::folder::Audit;
use super::port::RunError;
use super::random::forget_draws;
use crate::golden::FixtureSet;
use crate::near::did_you_mean;
use crate::spec::Weights;
use crate::tensor::Dtype;

/// The weights of a fixture set under the names that the port knows them by.
pub struct WeightSet {
    set: Rc<FixtureSet>,
    /// From the port's name to the name in the fixture.
    names: BTreeMap<String, String>,
    allow_missing: Vec<String>,
    expect: Vec<String>,
    /// What is wrong with the files, whatever the port does.
    faults: Faults,
    ledger: RefCell<Ledger>,
    /// Stands still while a weight is read.
    clock: Clock,
}

#[derive(Default)]
struct Ledger {
    taken: BTreeSet<String>,
    missing: BTreeSet<String>,
    misshapen: BTreeMap<String, String>,
    mistyped: BTreeMap<String, String>,
}

impl WeightSet {
    pub(super) fn new(declared: &Weights, set: Rc<FixtureSet>, clock: Clock) -> Result<Self, RunError> {
        let catalogue = Catalogue::of(declared, &set)?;
        let names = catalogue.weights().map(|(name, entry)| (name.to_owned(), entry.name.clone())).collect();
        let faults = catalogue.faults(declared);
        let (allow_missing, expect) = (declared.allow_missing.clone(), declared.expect.clone());
        Ok(Self { set, names, allow_missing, expect, faults, ledger: RefCell::default(), clock })
    }

    /// The weight of that name.
    ///
    /// # Errors
    /// When there is none, which the audit also says.
    pub fn get(&self, name: &str) -> Result<Array, RunError> {
        match self.find(name)? {
            Some(array) => Ok(array),
            None => {
                let mut ledger = self.ledger.borrow_mut();
                ledger.missing.insert(name.to_owned());
                // Looking for near names takes a while where a whole model is called otherwise.
                let offers = ledger.missing.len() <= 20;
                let names = self.names.keys().map(String::as_str).filter(|_| offers);
                let near = did_you_mean(name, names);
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
        let array = self.clock.pause(|| Ok::<_, RunError>(from_host(&self.set.weight(stored)?.view())?))?;
        self.ledger.borrow_mut().taken.insert(name.to_owned());
        // What the layer drew when it was made is now replaced.
        forget_draws().map_err(ArrayError::from)?;
        Ok(Some(array))
    }

    /// Every name, as the port knows it, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Gives every parameter of an mlx-rs module its weight, strictly: all must be there, with the parameter's shape,
    /// and a floating-point parameter takes a floating-point weight. Which kind of float is the files' to say: mlx-rs
    /// makes layers in float32, whatever they are loaded with.
    ///
    /// mlx-rs's own loading leaves what it does not find at its random start, and looks at no shape. Where it has
    /// quantised layers, which keep `up.weight` as `up.inner.weight`, files that say `up.weight` are taken as they are.
    ///
    /// # Errors
    /// On the first parameter without a weight that fits; the audit lists all of them.
    pub fn load_into(&self, module: &mut impl ModuleParameters) -> Result<(), RunError> {
        let mut first = None;
        let mut found = HashMap::new();
        let parameters = module.parameters().flatten();
        for (name, parameter) in &parameters {
            let outer = outer_name(name, |other| parameters.contains_key(other));
            let stored = outer.filter(|_| !self.names.contains_key(&**name));
            match self.fitting(name, stored.as_deref().unwrap_or(name), parameter) {
                Ok(Some(array)) => drop(found.insert(Rc::clone(name), array)),
                Ok(None) => {}
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        match first {
            Some(error) => Err(error),
            None => {
                module.update_flattened(found);
                Ok(forget_draws().map_err(ArrayError::from)?)
            }
        }
    }

    /// The weight called `stored` for the parameter called `name`; none where the spec allows it to be missing.
    fn fitting(&self, name: &str, stored: &str, parameter: &Array) -> Result<Option<Array>, RunError> {
        let allowed = |name: &str| self.allow_missing.iter().any(|pattern| matches(pattern, name));
        if !self.names.contains_key(stored) && (allowed(name) || allowed(stored)) {
            return Ok(None);
        }
        let array = self.get(stored)?;
        let mut ledger = self.ledger.borrow_mut();
        if array.shape() != parameter.shape() {
            let shape = |array: &Array| array.shape().iter().map(|&length| length as usize).collect();
            let (wanted, found) = (shape(parameter), shape(&array));
            let error = RunError::WeightShape { name: name.to_owned(), wanted, found };
            ledger.misshapen.insert(name.to_owned(), error.to_string());
            return Err(error);
        }
        let (wanted, found) = (dtype_of(parameter), dtype_of(&array));
        if kind(wanted) != kind(found) {
            let text = format!("{stored}: the module's parameter is {wanted}, but the weight is {found}");
            ledger.mistyped.insert(name.to_owned(), text);
            return Err(RunError::WeightDtype { name: name.to_owned(), wanted, found });
        }
        Ok(Some(array))
    }

    pub(super) fn audit(&self) -> Audit {
        let ledger = self.ledger.borrow();
        let expected = self.expect.iter().filter(|name| !self.names.contains_key(*name));
        let missing: BTreeSet<&String> = ledger.missing.iter().chain(expected).collect();
        Audit {
            taken: ledger.taken.iter().cloned().collect(),
            missing: missing.into_iter().cloned().collect(),
            unused: self.names.keys().filter(|name| !ledger.taken.contains(*name)).cloned().collect(),
            misshapen: ledger.misshapen.values().cloned().collect(),
            mistyped: ledger.mistyped.values().chain(&self.faults.mistyped).cloned().collect(),
            siblings: self.faults.siblings.clone(),
            packing: self.faults.packing.clone(),
        }
    }
}

/// What Python calls a parameter that mlx-rs keeps inside a quantised layer: `up.weight` for `up.inner.weight` and
/// `up.bias` for `up.inner.bias`. A layer is quantised when it has scales beside the inner weight.
fn outer_name(name: &str, has: impl Fn(&str) -> bool) -> Option<String> {
    let (path, leaf) = name.rsplit_once('.').filter(|(_, leaf)| matches!(*leaf, "weight" | "bias"))?;
    let layer = path.strip_suffix("inner").filter(|layer| layer.is_empty() || layer.ends_with('.'))?;
    let quantized = has(&format!("{layer}scales")) && has(&format!("{layer}inner.weight"));
    quantized.then(|| format!("{layer}{leaf}"))
}

/// Whether a dtype is of the floats, the complex numbers or the rest: between these nothing is converted.
fn kind(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Complex64 => 2,
        dtype => u8::from(dtype.is_float()),
    }
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
    fn a_star_stands_for_any_text() {
        assert!(matches("blocks.*.bias", "blocks.3.attn.bias"));
        assert!(matches("*", "x") && matches("a*", "a"));
        assert!(!matches("blocks.*.bias", "blocks.3.weight") && !matches("bias", "x.bias"));
    }
}
