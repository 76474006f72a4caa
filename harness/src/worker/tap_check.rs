//! The check of one tap: finds its golden, brings it into the port's layout and dtype, and compares both.

mod values;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use mlx_rs::{Device, DeviceType};

use super::array::{ArrayError, from_host};
use super::cause_search::{CauseSearch, FailingHit};
use super::checked::Checked;
use super::choice_check::ChoiceCheck;
use super::named_dims::NamedDims;
use super::twin_check::{TwinCheck, TwinHit};
use mlx_parity_core::compare::{self, Comparison, TopRows};
use mlx_parity_core::diagnose::Diagnosis;
use mlx_parity_core::gate::{Class, Gate, Phase};
use mlx_parity_core::golden::{FixtureSet, Golden, SlotMatch, as_compared, in_port_layout};
use mlx_parity_core::record;
use mlx_parity_core::run_folder::Job;
use mlx_parity_core::spec::Inject;
use mlx_parity_core::spec::{Checkpoint, Spec, hit_name};
use mlx_parity_core::tensor::{self, Dtype, Tensor};
use mlx_parity_core::text::error_chain;
use values::is_of_values;

const NO_OTHER_RUN: &str = "the run that it is compared with does not exist";

/// Checks the taps of one run against the spec and the goldens.
pub(super) struct TapCheck {
    spec: Rc<Spec>,
    fixtures: Option<Rc<FixtureSet>>,
    /// Checkpoints above this level are not checked.
    level: u8,
    dims: NamedDims,
    /// Checkpoints that a later checkpoint is compared with, or whose positions order its slots.
    compared_with: HashSet<String>,
    /// Actuals of these checkpoints, by hit; `None` for an actual that was not evaluated.
    kept: HashMap<String, Option<Tensor>>,
    inject: Inject,
    /// Number of failures whose error was kept in detail.
    detailed: usize,
    causes: CauseSearch,
    choices: ChoiceCheck,
    /// For a twin, the run that it is compared with.
    twin: Option<TwinCheck>,
    /// Whether a systematic error below the gate fails: on a CPU, where right ports were counted.
    judge_systematic: bool,
}

impl TapCheck {
    pub(super) fn new(spec: Rc<Spec>, fixtures: Option<Rc<FixtureSet>>, job: &Job) -> Self {
        let others = |checkpoint: &Checkpoint| {
            let positions = checkpoint.positions.as_ref().map(|positions| positions.tap.clone());
            [checkpoint.against.clone(), positions]
        };
        let compared_with = spec.checkpoints.iter().flat_map(others).flatten().collect();
        let (dims, kept, inject) = (NamedDims::default(), HashMap::new(), job.inject.clone());
        let level = job.level;
        let causes = CauseSearch::new(Rc::clone(&spec), fixtures.clone(), job);
        let device = Device::try_default().and_then(|device| device.get_type());
        let judge_systematic = matches!(device, Ok(DeviceType::Cpu));
        let twin = TwinCheck::of(&spec, fixtures.clone(), job);
        Self {
            judge_systematic,
            twin,
            spec,
            fixtures,
            level,
            dims,
            compared_with,
            kept,
            inject,
            detailed: 0,
            causes,
            choices: ChoiceCheck::default(),
        }
    }

    /// Returns the index of the checkpoint `name` in the spec, or `None` if it is undeclared or above the run's level.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        let index = self.spec.checkpoints.position(name)?;
        (self.spec.checkpoints[index].level <= self.level).then_some(index)
    }

    /// Returns whether this checkpoint affects the results of later ones: its golden is injected, or a later checkpoint
    /// is compared with it.
    pub(super) fn matters_later(&self, name: &str) -> bool {
        let checkpoint = self.spec.checkpoint(name);
        let counterpart = checkpoint.and_then(|checkpoint| checkpoint.counterpart.as_ref());
        self.compared_with.contains(name)
            || checkpoint.is_some_and(|checkpoint| checkpoint.weights.is_some())
            || self.inject.takes(&self.spec, name)
            || counterpart.is_some_and(|counterpart| counterpart.along.is_some())
    }

    /// Checks shape, dtype and values of one hit. `hit` counts from 0.
    pub(super) fn check(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Checked {
        let info = (&actual.view()).into();
        match self.check_info(checkpoint, hit, &info) {
            Some(checked) => {
                self.keep(checkpoint, hit, Some(actual));
                checked
            }
            None => self.check_values(checkpoint, hit, actual),
        }
    }

    /// Checks shape and dtype of one hit before the array is evaluated. Returns `None` if both are right and the values
    /// decide. Call it once per hit.
    ///
    /// An array with a wrong shape can be far larger than the right one, and evaluating it could crash the worker.
    pub(super) fn check_info(
        &mut self,
        checkpoint: &Checkpoint,
        hit: u64,
        found: &record::TensorInfo,
    ) -> Option<Checked> {
        let shape = self.dims.check_shape(checkpoint, &found.shape);
        let mut checked = self.compare_info(checkpoint, hit, found);
        // The actual must also have the declared shape and dtype. A setup error comes first, then shape, then dtype.
        let class = checked.as_ref().and_then(|checked| checked.outcome.class);
        let form_decides = class.is_none_or(|class| class.phase() >= Phase::Form);
        let declared = if let Err(problem) = shape
            && form_decides
        {
            Some((Class::Shape, problem))
        } else if let Some(declared) = checkpoint.dtype.filter(|&declared| declared != found.dtype)
            && form_decides
            && class != Some(Class::Shape)
        {
            Some((
                Class::Dtype,
                format!("the spec declares {declared}, but the port produced {}", found.dtype),
            ))
        } else {
            None
        };
        if let Some((class, detail)) = declared {
            let outcome = Comparison::failed(class, detail);
            checked = Some(match checked {
                Some(checked) => Checked { outcome, ..checked },
                // The actual matches the golden but not the declaration, or the checkpoint has no golden.
                None => self.with_golden(checkpoint, hit, outcome),
            });
        }
        if checked.is_some() {
            self.keep(checkpoint, hit, None);
        }
        checked
    }

    /// Checks the values of a hit whose shape and dtype are right.
    pub(super) fn check_values(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Checked {
        let checked = self.compare(checkpoint, hit, actual);
        self.keep(checkpoint, hit, Some(actual));
        checked
    }

    /// Returns whether a failure of this checkpoint would be diagnosed.
    pub(super) fn explains(&self, checkpoint: &Checkpoint) -> bool {
        self.causes.is_left() && checkpoint.gated && checkpoint.needs_golden()
    }

    /// Returns the diagnosis of an evaluated actual with a wrong shape.
    pub(super) fn explain(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Diagnosis {
        self.compare(checkpoint, hit, actual).diagnosis
    }

    /// Stores an actual if a later checkpoint is compared with it. `actual` is `None` if it was not evaluated.
    pub(super) fn keep(&mut self, checkpoint: &Checkpoint, hit: u64, actual: Option<&Tensor>) {
        if self.compared_with.contains(&checkpoint.name) {
            self.kept.insert(hit_name(&checkpoint.name, hit).into_owned(), actual.cloned());
        }
    }

    fn compare_info(
        &mut self,
        checkpoint: &Checkpoint,
        hit: u64,
        found: &record::TensorInfo,
    ) -> Option<Checked> {
        let mut rule = checkpoint.rule();
        let actual = (found.dtype, &found.shape[..]);
        if let Some(other) = &checkpoint.against {
            return match self.kept.get(&*hit_name(other, hit)) {
                Some(Some(expected)) => {
                    let outcome =
                        compare::compare_forms((expected.dtype(), expected.shape()), actual, &rule)?;
                    Some(Checked { expected: Some((&expected.view()).into()), ..outcome.into() })
                }
                Some(None) => {
                    let problem = format!("it is compared with `{other}`, whose shape or dtype is wrong");
                    Some(Checked::failed(Class::Unreached, problem))
                }
                None => Some(Checked::failed(Class::Unreached, reached_too_late(other))),
            };
        }
        if let Some(hit) = TwinHit::of(checkpoint, hit) {
            return match &self.twin {
                Some(twin) => twin.compare_forms(hit, found, &rule),
                None => Some(Checked::failed(Class::Missing, NO_OTHER_RUN.to_owned())),
            };
        }
        if !checkpoint.needs_golden() {
            return None;
        }
        let (golden, info) = match self.golden(checkpoint, hit) {
            Ok(found) => found,
            Err(checked) => return Some(*checked),
        };
        rule.floor = golden.floor;
        rule.is_local = golden.floor_block.is_some();
        // The slots of a cache may be more than the golden's, and some of them empty.
        let slots = checkpoint.positions.as_ref();
        let matched = slots.map(|slots| SlotMatch::matched_shape(slots.axis, &info.shape, &found.shape));
        let actual = matched.as_ref().map_or(actual, |shape| (found.dtype, &shape[..]));
        // `info` has the form of the port's tensor, whatever the golden holds.
        rule.gate = rule.gate.map(Gate::between_runs);
        let outcome = compare::compare_forms((info.dtype, &info.shape), actual, &rule)?;
        Some(self.with_golden(checkpoint, hit, outcome))
    }

    /// Returns the golden of a hit, and its dtype and shape after the spec's `squeeze`, `layout` and `cast`. A golden of
    /// the most probable ids has those of the logits that it was made from.
    fn golden(
        &self,
        checkpoint: &Checkpoint,
        hit: u64,
    ) -> Result<(Golden, record::TensorInfo), Box<Checked>> {
        let failed = |class, text| Box::new(Checked::failed(class, text));
        let Some(fixtures) = &self.fixtures else {
            return Err(failed(Class::Missing, "the spec has no fixtures".to_owned()));
        };
        let golden = fixtures.golden(&hit_name(&checkpoint.name, hit));
        let golden = golden.map_err(|error| failed(error.class(), error_chain(&error)))?;
        if let Some(top) = checkpoint.gate.as_ref().and_then(Gate::top) {
            let rows =
                TopRows::new(&golden.tensor.view(), top).map_err(|problem| failed(Class::Spec, problem));
            let dtype = checkpoint.dtype.unwrap_or(Dtype::Float32);
            let info = record::TensorInfo { dtype, shape: rows?.whole_shape() };
            return Ok((golden, info));
        }
        let view = in_port_layout(golden.tensor.view(), checkpoint);
        let mut info: record::TensorInfo = (&view.map_err(|problem| failed(Class::Spec, problem))?).into();
        info.dtype = checkpoint.cast.unwrap_or(info.dtype);
        if let Some(declared) = checkpoint.dtype.filter(|&declared| declared != info.dtype) {
            let problem = format!("the spec declares {declared}, but the golden is {}", info.dtype);
            return Err(failed(Class::Spec, problem));
        }
        Ok((golden, info))
    }

    /// Returns the check of a hit whose values were not compared, with the facts about its golden. If the golden is
    /// injected, the port continues with it.
    pub(super) fn with_golden(&self, checkpoint: &Checkpoint, hit: u64, outcome: Comparison) -> Checked {
        if !checkpoint.needs_golden() {
            return outcome.into();
        }
        let (golden, info) = match self.golden(checkpoint, hit) {
            Ok(found) => found,
            Err(checked) => return *checked,
        };
        // Without the positions of the port's slots, the golden's rows have no place in its cache.
        let inject = self.inject.takes(&self.spec, &checkpoint.name) && checkpoint.positions.is_none();
        let injected = inject.then(|| {
            let view = in_port_layout(golden.tensor.view(), checkpoint).map_err(ArrayError::Mlx)?;
            match checkpoint.cast.map(|dtype| tensor::cast(&view, dtype)) {
                Some(cast) => from_host(&cast.map_err(|error| ArrayError::Mlx(error.to_string()))?.view()),
                None => from_host(&view),
            }
        });
        Checked {
            expected: Some(info),
            floor: golden.floor,
            floor_block: golden.floor_block.clone(),
            injected,
            sequence: Some(golden.sequence),
            place: golden.place.clone(),
            ..outcome.into()
        }
    }

    /// Searches the causes of a failing hit that a person asks for, with the work that a whole run may do.
    ///
    /// # Errors
    /// Why there is nothing to compare with, in words.
    pub(super) fn diagnose_now(
        &self,
        checkpoint: &Checkpoint,
        hit: u64,
        actual: &Tensor,
        passed: Vec<String>,
    ) -> Result<Diagnosis, String> {
        if !checkpoint.needs_golden() {
            return Err("the checkpoint has no golden".to_owned());
        }
        if !is_of_values(checkpoint) {
            return Err("causes are searched in values, and this checkpoint is judged as choices".to_owned());
        }
        let fixtures = self.fixtures.as_ref().ok_or("the spec has no fixtures")?;
        let golden =
            fixtures.golden(&hit_name(&checkpoint.name, hit)).map_err(|error| error_chain(&error))?;
        let mut rule = checkpoint.rule();
        rule.floor = golden.floor;
        rule.is_local = golden.floor_block.is_some();
        rule.judge_systematic = self.judge_systematic;
        let expected = as_compared(&golden.tensor, checkpoint)?;
        let (golden, expected, actual) = (&golden, expected.view(), actual.view());
        let failing = FailingHit { checkpoint, hit, golden, expected, actual, rule: &rule };
        Ok(self.causes.asked_for(&failing, passed))
    }
}

fn reached_too_late(other: &str) -> String {
    format!("it is compared with `{other}`, which the port had not reached")
}
