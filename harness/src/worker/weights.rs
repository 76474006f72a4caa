//! The weights of a spec under the port's names, and the audit of which weights the port used.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::module::ModuleParameters;

use super::array::{ArrayError, dtype_of, from_host};
use super::clock::Clock;
use super::error::RunError;
use super::random::reset_draws;
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::renames::rename_rules;
use mlx_parity_core::run_folder::{Audit, WeightSize};
use mlx_parity_core::spec::Weights;
use mlx_parity_core::tensor::{Dtype, Tensor};
use mlx_parity_core::text::suggest::did_you_mean;
use mlx_parity_core::weights::{WeightIndex, WeightProblems};

/// The weights of a fixture set, under the names that the port uses.
///
/// It records every weight that the port reads, and every name that does not exist. The trial `<spec>::weights` reports
/// missing and unused weights.
pub struct WeightSet {
    set: Rc<FixtureSet>,
    /// From the port's name to the name in the fixture.
    names: BTreeMap<String, String>,
    allow_missing: Vec<String>,
    expect: Vec<String>,
    frozen: Vec<String>,
    /// Problems of the weight files, which do not depend on the port.
    problems: WeightProblems,
    ledger: RefCell<Ledger>,
    /// Whether these are the tensors of adapters.
    is_adapter: bool,
    /// Whether the port gets zeros in place of the tensors.
    zeroed: Cell<bool>,
    /// The port's clock, paused while a weight is read.
    clock: Clock,
}

/// The port's requests so far.
#[derive(Default)]
struct Ledger {
    taken: BTreeSet<String>,
    missing: BTreeSet<String>,
    misshapen: BTreeMap<String, String>,
    mistyped: BTreeMap<String, String>,
    trained: BTreeMap<String, String>,
    /// Whether the port ended a training step.
    has_stepped: bool,
}

impl WeightSet {
    /// Indexes the weights of a spec. Parameters of the names in `adapters` need no weight.
    pub(super) fn new(
        declared: &Weights,
        set: Rc<FixtureSet>,
        clock: Clock,
        adapters: Option<&Self>,
    ) -> Result<Self, RunError> {
        let index = WeightIndex::of(declared, &set)?;
        let names = index.weights().map(|(name, entry)| (name.to_owned(), entry.name.clone())).collect();
        let problems = index.problems(declared);
        let (mut allow_missing, expect) = (declared.allow_missing.clone(), declared.expect.clone());
        if let Some(adapters) = adapters {
            allow_missing.extend(adapters.names().map(str::to_owned));
            allow_missing.extend(ADAPTER_NAMES.map(str::to_owned));
        }
        let frozen = declared.frozen.clone();
        Ok(Self {
            set,
            names,
            allow_missing,
            expect,
            frozen,
            problems,
            ledger: RefCell::default(),
            is_adapter: false,
            zeroed: Cell::new(false),
            clock,
        })
    }

    /// Indexes the tensors of adapters.
    pub(super) fn of_adapters(
        declared: &Weights,
        set: Rc<FixtureSet>,
        clock: Clock,
    ) -> Result<Self, RunError> {
        Ok(Self { is_adapter: true, ..Self::new(declared, set, clock, None)? })
    }

    /// Hands out zeros in place of the tensors, or the tensors again.
    pub(super) fn set_zeroed(&self, zeroed: bool) {
        self.zeroed.set(zeroed);
    }

    /// Returns the weight `name` with the dtype and the shape in the fixture.
    ///
    /// # Errors
    /// [`RunError::NoWeight`] if the weight does not exist; the trial `<spec>::weights` then reports it as missing. Other
    /// errors if it cannot be read.
    pub fn get(&self, name: &str) -> Result<Array, RunError> {
        match self.find(name)? {
            Some(array) => Ok(array),
            None => {
                let mut ledger = self.ledger.borrow_mut();
                ledger.missing.insert(name.to_owned());
                // The search for similar names is slow if every name of a large model is wrong.
                let offers = ledger.missing.len() <= 20;
                let names = self.names.keys().map(String::as_str).filter(|_| offers);
                let near = did_you_mean(name, names);
                let name = name.to_owned();
                Err(if self.is_adapter {
                    RunError::NoAdapterWeight { name, near }
                } else {
                    RunError::NoWeight { name, near }
                })
            }
        }
    }

    /// Returns the weight `name`, or `None` if it does not exist. Use it for optional parameters.
    ///
    /// # Errors
    /// If the weight exists and cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<Array>, RunError> {
        let Some(stored) = self.names.get(name) else { return Ok(None) };
        let array = self.clock.pause(|| {
            let tensor = self.set.weight(stored)?;
            let tensor = if self.zeroed.get() { zeros_like(&tensor)? } else { tensor };
            Ok::<_, RunError>(from_host(&tensor.view())?)
        })?;
        self.ledger.borrow_mut().taken.insert(name.to_owned());
        // The weight replaces the random values that the layer drew when it was created.
        reset_draws().map_err(ArrayError::from)?;
        Ok(Some(array))
    }

    /// Returns the names of all weights, as the port uses them, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Sets every parameter of an mlx-rs module to the weight of the same name.
    ///
    /// Every parameter needs a weight, unless the spec lists it in `allow_missing`. The shapes must be equal. A
    /// floating-point parameter needs a floating-point weight, and takes the weight's dtype: mlx-rs creates layers in
    /// float32, so the parameter's own dtype does not matter. mlx-rs's own loading ignores missing weights and wrong
    /// shapes.
    ///
    /// mlx-rs names the weight of a quantised layer `up.inner.weight`. A file can also name it `up.weight`.
    ///
    /// If the spec has `adapters`, parameters with a part such as `lora_a` need no weight. The adapters of
    /// [`Run::adapters`](super::Run::adapters) set only these, and parameters whose name the adapters have.
    ///
    /// # Errors
    /// The error of the first parameter without a matching weight: [`RunError::NoWeight`], [`RunError::WeightShape`] or
    /// [`RunError::WeightDtype`]. The module then stays unchanged, and the trial `<spec>::weights` reports every such
    /// parameter.
    pub fn load_into(&self, module: &mut impl ModuleParameters) -> Result<(), RunError> {
        let mut first = None;
        let mut found = HashMap::new();
        let parameters = module.parameters().flatten();
        for (name, parameter) in &parameters {
            if self.is_adapter && !self.names.contains_key(&**name) && !looks_like_adapter(name) {
                continue;
            }
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
                Ok(reset_draws().map_err(ArrayError::from)?)
            }
        }
    }

    /// Returns the weight `stored` for the parameter `name`, or `None` if it is missing and the spec allows that.
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
            let text = format!("{stored}: the module parameter is {wanted}, but the weight is {found}");
            ledger.mistyped.insert(name.to_owned(), text);
            return Err(RunError::WeightDtype { name: name.to_owned(), wanted, found });
        }
        Ok(Some(array))
    }

    /// Notes a gradient that is not zero everywhere, if the spec declares its parameter as frozen.
    pub(super) fn note_gradient(&self, name: &str, gradient: &Array) -> Result<(), Exception> {
        if self.is_frozen(name) && gradient.any(None)?.item_exact() {
            self.note_trained(name, "it is frozen, but has a gradient");
        }
        Ok(())
    }

    /// Returns whether the spec declares the parameter as frozen, and notes it if it differs from its weight.
    pub(super) fn note_parameter(&self, name: &str, parameter: &Array) -> Result<bool, Exception> {
        self.ledger.borrow_mut().has_stepped = true;
        if !self.is_frozen(name) {
            return Ok(false);
        }
        let stored = self.names.get(name).and_then(|stored| self.set.weight(stored).ok());
        let Some(weight) = stored else { return Ok(true) };
        let weight = from_host(&weight.view()).map_err(|error| Exception::custom(error.to_string()))?;
        if !weight.eq_exact(parameter)? {
            self.note_trained(name, "it is frozen, but changed");
        }
        Ok(true)
    }

    fn is_frozen(&self, name: &str) -> bool {
        self.frozen.iter().any(|pattern| matches(pattern, name))
    }

    fn note_trained(&self, name: &str, how: &str) {
        self.ledger.borrow_mut().trained.entry(name.to_owned()).or_insert_with(|| format!("{name}: {how}"));
    }

    /// Returns the size of the weights that the port took.
    pub(super) fn size(&self) -> WeightSize {
        let ledger = self.ledger.borrow();
        let taken: BTreeSet<&str> =
            ledger.taken.iter().filter_map(|name| self.names.get(name)).map(String::as_str).collect();
        let mut size = WeightSize::default();
        for entry in self.set.weights().filter(|entry| taken.contains(entry.name.as_str())) {
            let elements = entry.shape.iter().fold(1u64, |all, &length| all.saturating_mul(length as u64));
            size.tensors += 1;
            size.parameters = size.parameters.saturating_add(elements);
            size.bytes = size.bytes.saturating_add(elements.saturating_mul(entry.dtype.size() as u64));
        }
        size
    }

    pub(super) fn audit(&self) -> Audit {
        let ledger = self.ledger.borrow();
        let expected = self.expect.iter().filter(|name| !self.names.contains_key(*name));
        let unmatched =
            self.frozen.iter().filter(|pattern| !self.names.keys().any(|name| matches(pattern, name)));
        let missing: BTreeSet<&String> = ledger.missing.iter().chain(expected).chain(unmatched).collect();
        let missing: Vec<String> = missing.into_iter().cloned().collect();
        let unused: Vec<String> =
            self.names.keys().filter(|name| !ledger.taken.contains(*name)).cloned().collect();
        let unseen = (!self.frozen.is_empty() && !ledger.has_stepped).then(|| UNSEEN.to_owned());
        Audit {
            taken: ledger.taken.iter().cloned().collect(),
            renames: rename_rules(&missing, &unused),
            missing,
            unused,
            misshapen: ledger.misshapen.values().cloned().collect(),
            mistyped: ledger.mistyped.values().chain(&self.problems.mistyped).cloned().collect(),
            siblings: self.problems.siblings.clone(),
            packing: self.problems.packing.clone(),
            trained: ledger.trained.values().cloned().chain(unseen).collect(),
        }
    }
}

/// The names of parameters that adapters set, in mlx-rs and in files of others: `q.lora_a`, `q.lora_A.weight`, `q.lora.up`.
const ADAPTER_NAMES: [&str; 4] = ["lora_*", "*.lora_*", "lora.*", "*.lora.*"];

fn looks_like_adapter(name: &str) -> bool {
    ADAPTER_NAMES.iter().any(|pattern| matches(pattern, name))
}

/// Returns zeros of the same dtype and shape.
fn zeros_like(tensor: &Tensor) -> Result<Tensor, ArrayError> {
    let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
    Ok(Tensor::from_vec(dtype, shape, vec![0; tensor.len() * dtype.size()])?)
}

/// What the audit says if nothing compared the frozen parameters with their weights.
const UNSEEN: &str = "weights.frozen: the port never called `Run::parameters_after`, which compares them";

/// Returns Python's name for a parameter inside a quantised layer of mlx-rs: `up.weight` for `up.inner.weight` and
/// `up.bias` for `up.inner.bias`. A layer is quantised if it has both `scales` and `inner.weight`.
fn outer_name(name: &str, has: impl Fn(&str) -> bool) -> Option<String> {
    let (path, leaf) = name.rsplit_once('.').filter(|(_, leaf)| matches!(*leaf, "weight" | "bias"))?;
    let layer = path.strip_suffix("inner").filter(|layer| layer.is_empty() || layer.ends_with('.'))?;
    let quantized = has(&format!("{layer}scales")) && has(&format!("{layer}inner.weight"));
    quantized.then(|| format!("{layer}{leaf}"))
}

/// Returns the kind of a dtype: 1 for floats, 2 for complex numbers, 0 for others. Parameter and weight must have the
/// same kind.
fn kind(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Complex64 => 2,
        dtype => u8::from(dtype.is_float()),
    }
}

/// Returns whether `name` matches `pattern`, in which `*` matches any text.
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
    fn a_star_matches_any_text() {
        assert!(matches("blocks.*.bias", "blocks.3.attn.bias"));
        assert!(matches("*", "x") && matches("a*", "a"));
        assert!(!matches("blocks.*.bias", "blocks.3.weight") && !matches("bias", "x.bias"));
    }
}
