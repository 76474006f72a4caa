//! The tensors of a session by the names that expressions use.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use mlx_parity_core::calculate::Tensors;
use mlx_parity_core::compare::examine;
use mlx_parity_core::debug::{Variable, VariableKind};
use mlx_parity_core::gate::Rule;
use mlx_parity_core::golden::{FixtureSet, Role, as_compared};
use mlx_parity_core::record::TensorInfo;
use mlx_parity_core::run_folder::Folder;
use mlx_parity_core::spec::{Spec, hit_name};
use mlx_parity_core::tensor::{Tensor, TensorFile};
use mlx_parity_core::text::error_chain;
use mlx_parity_core::weights::WeightIndex;

/// The most taps that are listed and can be named. Older ones are forgotten first.
const MOST_TAPS: usize = 20_000;
/// How many bytes of inputs and weights are read for the statistics of one list.
const MOST_READ_BYTES: u64 = 256 << 20;

/// A tap that the port has passed.
pub(super) struct SeenTap {
    pub(super) name: String,
    pub(super) hit: u64,
    pub(super) variable: Variable,
    /// Why its tensor cannot be read, if it cannot.
    pub(super) not_kept: Option<String>,
}

/// Everything in a session that has a name, except for the tensors of the current tap.
pub(super) struct SessionTensors {
    spec: Rc<Spec>,
    fixtures: Option<Rc<FixtureSet>>,
    folder: Folder,
    /// The port's name of each weight, and its name in the fixture set.
    weights: Vec<(String, String)>,
    seen: RefCell<Vec<SeenTap>>,
    /// The place of each hit in `seen`.
    places: RefCell<HashMap<String, usize>>,
}

impl SessionTensors {
    pub(super) fn new(spec: Rc<Spec>, fixtures: Option<Rc<FixtureSet>>, folder: Folder) -> Self {
        let index = match (&spec.weights, &fixtures) {
            (Some(declared), Some(set)) => WeightIndex::of(declared, set).ok(),
            _ => None,
        };
        let weights = index.map(|index| {
            index.weights().map(|(name, entry)| (name.to_owned(), entry.name.clone())).collect()
        });
        let weights = weights.unwrap_or_default();
        Self { spec, fixtures, folder, weights, seen: RefCell::default(), places: RefCell::default() }
    }

    /// Adds a tap that the port has reached.
    pub(super) fn see(&self, tap: SeenTap) {
        let (mut seen, mut places) = (self.seen.borrow_mut(), self.places.borrow_mut());
        if seen.len() >= MOST_TAPS {
            seen.drain(..MOST_TAPS / 2);
            *places = seen.iter().enumerate().map(|(at, tap)| (tap.variable.name.clone(), at)).collect();
        }
        places.insert(tap.variable.name.clone(), seen.len());
        seen.push(tap);
    }

    /// The tensor of this hit has been kept.
    pub(super) fn kept(&self, name: &str) {
        let place = self.places.borrow().get(name).copied();
        let mut seen = self.seen.borrow_mut();
        if let Some(tap) = place.and_then(|place| seen.get_mut(place)) {
            tap.not_kept = None;
        }
    }

    /// The names of all taps so far, and of all declared checkpoints.
    pub(super) fn taps(&self) -> Vec<String> {
        let declared = self.spec.checkpoints.iter().map(|checkpoint| checkpoint.name.clone());
        let mut names: Vec<String> = declared.collect();
        let known: HashSet<String> = names.iter().cloned().collect();
        let seen = self.seen.borrow();
        let mut others: Vec<String> =
            seen.iter().map(|tap| tap.name.clone()).filter(|name| !known.contains(name)).collect();
        others.sort_unstable();
        others.dedup();
        names.extend(others);
        names
    }

    /// Whether the port has passed this hit.
    pub(super) fn has_passed(&self, name: &str) -> bool {
        self.places.borrow().contains_key(name)
    }

    /// Goldens of the taps so far that passed: the inputs of later stages.
    pub(super) fn passed(&self) -> Vec<String> {
        let is_green = |tap: &&SeenTap| tap.variable.status == Some(mlx_parity_core::record::Status::Pass);
        self.seen.borrow().iter().filter(is_green).map(|tap| tap.variable.name.clone()).collect()
    }

    fn entries(&self, role: Role) -> Vec<String> {
        let entries =
            self.fixtures.as_ref().map(|set| set.entries(role).map(|entry| entry.name.clone()).collect());
        entries.unwrap_or_default()
    }

    /// Inputs, weights and taps, in this order, at most `most`, and how many are left out. Of many, the latest taps stay.
    pub(super) fn variables(&self, most: usize, wanted: impl Fn(&str) -> bool) -> (Vec<Variable>, usize) {
        let inputs = self.spec.inputs.iter().filter(|name| wanted(name));
        let weights = self.weights.iter().map(|(name, _)| name).filter(|name| wanted(name));
        let seen = self.seen.borrow();
        let taps: Vec<&Variable> =
            seen.iter().map(|tap| &tap.variable).filter(|tap| wanted(&tap.name)).collect();
        let mut stored: Vec<(VariableKind, &String)> =
            inputs.map(|name| (VariableKind::Input, name)).collect();
        stored.extend(weights.map(|name| (VariableKind::Weight, name)));
        let all = stored.len() + taps.len();
        // Taps get at least half of the list.
        stored.truncate(most.saturating_sub(taps.len().min(most / 2)));
        let shown = taps.len().min(most - stored.len());
        let mut bytes = MOST_READ_BYTES;
        let mut found: Vec<Variable> =
            stored.iter().filter_map(|(kind, name)| self.stored(*kind, name, &mut bytes)).collect();
        found.extend(taps[taps.len() - shown..].iter().map(|tap| (*tap).clone()));
        let left_out = all - found.len();
        (found, left_out)
    }

    /// An input or a weight, with its statistics while `bytes` lasts.
    fn stored(&self, kind: VariableKind, name: &str, bytes: &mut u64) -> Option<Variable> {
        let full =
            if kind == VariableKind::Input { format!("input.{name}") } else { format!("weight.{name}") };
        let tensor = self.read(&full).ok()?;
        let form: TensorInfo = (&tensor.view()).into();
        let size = (tensor.len() * form.dtype.size()) as u64;
        let mut stats = None;
        if size <= *bytes {
            *bytes -= size;
            stats = examine(&tensor.view(), &Rule::default()).metrics.map(|metrics| metrics.actual);
        }
        let name = if self.is_tap(name) { full } else { name.to_owned() };
        Some(Variable { name, kind, tensor: form, stats, status: None })
    }

    fn is_tap(&self, name: &str) -> bool {
        self.spec.checkpoint(name).is_some() || self.has_passed(name)
    }

    /// All names of expressions.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for tap in self.seen.borrow().iter() {
            names.push(tap.variable.name.clone());
            names.push(format!("actual.{}", tap.variable.name));
        }
        names.extend(self.entries(Role::Golden).into_iter().map(|name| format!("golden.{name}")));
        let inputs = self.spec.inputs.iter().map(|name| ("input", name));
        let weights = self.weights.iter().map(|(name, _)| ("weight", name));
        for (kind, name) in inputs.chain(weights) {
            names.push(format!("{kind}.{name}"));
            if !self.is_tap(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Reads a tensor by its name.
    pub(super) fn read(&self, name: &str) -> Result<Tensor, String> {
        if let Some(name) = name.strip_prefix("golden.") {
            return self.golden(name);
        }
        if let Some(tap) = name.strip_prefix("actual.")
            && self.has_passed(tap)
        {
            return self.actual(tap);
        }
        if self.has_passed(name) {
            return self.actual(name);
        }
        let set = self.fixtures.as_ref().ok_or("the spec has no fixtures")?;
        let message = |error: mlx_parity_core::golden::FixtureError| error_chain(&error);
        let input = name.strip_prefix("input.").unwrap_or(name);
        if self.spec.inputs.iter().any(|known| known == input) && !name.starts_with("weight.") {
            return set.input(input).map_err(message);
        }
        let weight = name.strip_prefix("weight.").unwrap_or(name);
        match self.weights.iter().find(|(known, _)| known == weight) {
            Some((_, stored)) => set.weight(stored).map_err(message),
            None => Err("there is no such tensor".to_owned()),
        }
    }

    /// The golden of a hit as it is compared: after `squeeze`, `layout` and `cast`.
    pub(super) fn golden(&self, name: &str) -> Result<Tensor, String> {
        let checkpoint = self.spec.checkpoint(name.split('@').next().unwrap_or(name));
        if let Some(other) = checkpoint.and_then(|checkpoint| checkpoint.against.as_ref()) {
            let hit = name.split_once('@').and_then(|(_, hit)| hit.parse().ok()).unwrap_or(0);
            return self.actual(&hit_name(other, hit));
        }
        let set = self.fixtures.as_ref().ok_or("the spec has no fixtures")?;
        let golden = set.golden(name).map_err(|error| error_chain(&error))?;
        let Some(checkpoint) = checkpoint else { return Ok(golden.tensor) };
        as_compared(&golden.tensor, checkpoint)
    }

    /// The actual of a hit that the port has passed, from its file.
    fn actual(&self, name: &str) -> Result<Tensor, String> {
        let seen = self.seen.borrow();
        let place = self.places.borrow().get(name).copied();
        let tap = place.and_then(|place| seen.get(place)).ok_or("the port has not reached it")?;
        if let Some(why) = &tap.not_kept {
            return Err(why.clone());
        }
        let path = self.folder.actual(&tap.name, tap.hit);
        let file = TensorFile::open(&path).map_err(|error| error_chain(&error))?;
        let key = file.names().next().unwrap_or_default().to_owned();
        file.get(&key).map_err(|error| error_chain(&error))
    }
}

/// The tensors at a stop: those of the current tap, and all others.
pub(super) struct StopTensors {
    pub(super) known: Rc<SessionTensors>,
    pub(super) actual: Option<Tensor>,
    pub(super) golden: Option<Tensor>,
}

impl Tensors for StopTensors {
    fn names(&self) -> Vec<String> {
        let own = [("actual", &self.actual), ("golden", &self.golden)];
        let own = own.into_iter().filter(|(_, tensor)| tensor.is_some()).map(|(name, _)| name.to_owned());
        own.chain(self.known.names()).collect()
    }

    fn tensor(&self, name: &str) -> Result<Tensor, String> {
        match (name, &self.actual, &self.golden) {
            ("actual", Some(tensor), _) | ("golden", _, Some(tensor)) => Ok(tensor.clone()),
            _ => self.known.read(name),
        }
    }
}
