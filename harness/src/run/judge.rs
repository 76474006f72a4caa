//! The verdict on one tap: which golden, made how into the port's shape and dtype, compared by which rule.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use mlx_rs::Array;

use super::array::{ArrayError, from_host};
use super::job::{Inject, Job};
use super::neighbours::Neighbours;
use super::picture::Picture;
use crate::Class;
use crate::compare::{self, Floor, Outcome, Rule};
use crate::diagnose::{Budget, Diagnosis, Scene, diagnose};
use crate::golden::FixtureSet;
use crate::record;
use crate::report::error_chain;
use crate::spec::{Checkpoint, Dim, Spec, Stage, hit_name};
use crate::tensor::{self, Tensor, TensorView};

/// Failures of one run that are looked into: the first is what people ask about.
const MOST_DIAGNOSES: usize = 3;

/// What came of one comparison.
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    /// What the actual was compared with, if it came to that.
    pub(super) expected: Option<record::Tensor>,
    pub(super) floor: Option<Floor>,
    /// The golden as the port has it, where it is injected.
    pub(super) injected: Option<Result<Array, ArrayError>>,
    /// The golden's place in the order of the reference.
    pub(super) sequence: Option<u64>,
    /// Both as pictures, at a stage that makes one.
    pub(super) picture: Option<Picture>,
    /// What kind of wrong it is, where that was looked into.
    pub(super) diagnosis: Diagnosis,
}

impl Judged {
    fn of(expected: &TensorView<'_>, actual: &Tensor, rule: &Rule) -> Self {
        let outcome = compare::compare(expected, &actual.view(), rule);
        Self {
            outcome,
            expected: Some(expected.into()),
            floor: rule.floor,
            injected: None,
            sequence: None,
            picture: None,
            diagnosis: Diagnosis::default(),
        }
    }

    fn failed(class: Class, detail: String) -> Self {
        Outcome { class: Some(class), detail, metrics: None }.into()
    }
}

impl From<Outcome> for Judged {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            expected: None,
            floor: None,
            injected: None,
            sequence: None,
            picture: None,
            diagnosis: Diagnosis::default(),
        }
    }
}

/// Judges the taps of one run against its spec and goldens.
pub(super) struct Judge {
    spec: Rc<Spec>,
    fixtures: Option<Rc<FixtureSet>>,
    /// Index in the spec of every checkpoint that is looked at.
    index: HashMap<String, usize>,
    /// Lengths that named dims were first met with, and where.
    dims: HashMap<String, (usize, String)>,
    /// Checkpoints that a later one is compared with, and what they held.
    compared_with: HashSet<String>,
    kept: HashMap<String, Tensor>,
    inject: Inject,
    /// How many more failures are looked into, and with how much work.
    diagnoses: usize,
    budget: Budget,
}

impl Judge {
    pub(super) fn new(spec: Rc<Spec>, fixtures: Option<Rc<FixtureSet>>, job: &Job) -> Self {
        let index = spec
            .checkpoints
            .iter()
            .enumerate()
            .filter(|(_, checkpoint)| checkpoint.level <= job.level)
            .map(|(index, checkpoint)| (checkpoint.name.clone(), index))
            .collect();
        let compared_with =
            spec.checkpoints.iter().filter_map(|checkpoint| checkpoint.against.clone()).collect();
        let (dims, kept, inject) = (HashMap::new(), HashMap::new(), job.inject.clone());
        // Only a stage that worked from golden inputs has an error of its own.
        let diagnoses = if job.inject == Inject::All { MOST_DIAGNOSES } else { 0 };
        let budget = Budget::of_a_run();
        Self { spec, fixtures, index, dims, compared_with, kept, inject, diagnoses, budget }
    }

    /// Where in the spec's list the checkpoint of that name is, if the spec asks for it at the level of the run.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Whether what this checkpoint holds changes what is said of later ones: its golden is injected, or it is compared
    /// with.
    pub(super) fn matters_later(&self, name: &str) -> bool {
        self.compared_with.contains(name) || self.inject.takes(&self.spec, name)
    }

    /// Compares what the tap of `checkpoint` held at its hit number `hit`, from 0.
    pub(super) fn judge(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Judged {
        let mut judged = self.compare(checkpoint, hit, actual);
        // What the spec declares is held against the actual too; the first check in the order of classes counts.
        let shape = self.check_shape(checkpoint, actual);
        let before = |limit| judged.outcome.class.is_none_or(|class| class >= limit);
        if let Err(problem) = shape
            && before(Class::Shape)
        {
            judged.outcome = Outcome { class: Some(Class::Shape), detail: problem, metrics: None };
        } else if let Some(declared) = checkpoint.dtype.filter(|&declared| declared != actual.dtype())
            && before(Class::Dtype)
        {
            let detail = format!("the spec declares {declared}, but the port produced {}", actual.dtype());
            judged.outcome = Outcome { class: Some(Class::Dtype), detail, ..judged.outcome };
        }
        let name = checkpoint.name.as_str();
        if self.compared_with.contains(name) {
            self.kept.insert(hit_name(name, hit).into_owned(), actual.clone());
        }
        judged
    }

    fn compare(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Judged {
        let mut rule = checkpoint.rule();
        if let Some(other) = &checkpoint.against {
            let Some(expected) = self.kept.get(&*hit_name(other, hit)) else {
                let problem = format!("`{other}`, which this is compared with, was not met before it");
                return Judged::failed(Class::Unreached, problem);
            };
            let picture = draw(checkpoint, &expected.view(), actual);
            let judged = Judged { picture, ..Judged::of(&expected.view(), actual, &rule) };
            return match checkpoint.at_least {
                Some(part) => Judged { outcome: judged.outcome.at_least(part), ..judged },
                None => judged,
            };
        }
        if !checkpoint.needs_golden() {
            return compare::examine(&actual.view(), &rule).into();
        }
        let Some(fixtures) = self.fixtures.clone() else {
            return Judged::failed(Class::Missing, "the spec has no fixtures".to_owned());
        };
        let golden = match fixtures.golden(&hit_name(&checkpoint.name, hit)) {
            Ok(golden) => golden,
            Err(error) => return Judged::failed(error.class(), error_chain(&error)),
        };
        rule.floor = golden.floor;
        let cast;
        let mut expected = match as_the_port_has_it(golden.tensor.view(), checkpoint) {
            Ok(expected) => expected,
            Err(problem) => return Judged::failed(Class::Spec, problem),
        };
        if let Some(dtype) = checkpoint.cast {
            match tensor::cast(&expected, dtype) {
                Ok(tensor) => cast = tensor,
                Err(error) => return Judged::failed(Class::Spec, format!("`cast`: {error}")),
            }
            expected = cast.view();
        }
        if let Some(declared) = checkpoint.dtype.filter(|&declared| declared != expected.dtype()) {
            let problem = format!("the spec declares {declared}, but the golden is {}", expected.dtype());
            return Judged::failed(Class::Spec, problem);
        }
        let judged = Judged::of(&expected, actual, &rule);
        let diagnosis = match judged.outcome.class {
            Some(Class::Shape | Class::Finite | Class::Value) if self.diagnoses > 0 && checkpoint.gated => {
                self.diagnoses -= 1;
                diagnose(&Scene {
                    name: &hit_name(&checkpoint.name, hit),
                    expected: expected.clone(),
                    actual: actual.view(),
                    rule: &rule,
                    others: &Neighbours::new(&self.spec, &fixtures, golden.sequence),
                    budget: &self.budget.share(),
                })
            }
            _ => Diagnosis::default(),
        };
        let picture = draw(checkpoint, &expected, actual);
        let inject = self.inject.takes(&self.spec, &checkpoint.name);
        Judged {
            injected: inject.then(|| from_host(&expected)),
            sequence: Some(golden.sequence),
            picture,
            diagnosis,
            ..judged
        }
    }

    /// Holds the actual's shape against the declared one; a named dim is bound where it is first met.
    fn check_shape(&mut self, checkpoint: &Checkpoint, actual: &Tensor) -> Result<(), String> {
        let Some(declared) = &checkpoint.shape else { return Ok(()) };
        let found = actual.shape();
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
                        self.dims.entry(name.clone()).or_insert_with(|| (length, checkpoint.name.clone()));
                    if *bound != length {
                        return Err(format!("{}, and `{name}` was {bound} at `{place}`", text()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Both as pictures, at a checkpoint of the stage `image`.
fn draw(checkpoint: &Checkpoint, expected: &TensorView<'_>, actual: &Tensor) -> Option<Picture> {
    let drawn = (checkpoint.stage == Some(Stage::Image))
        .then(|| Picture::of(expected, &actual.view(), checkpoint.range))?;
    drawn.map_err(|why| eprintln!("`{}` is an image and cannot be drawn: {why}", checkpoint.name)).ok()
}

/// The golden with the changes that the spec declares, and no others.
pub(super) fn as_the_port_has_it<'a>(
    golden: TensorView<'a>,
    checkpoint: &Checkpoint,
) -> Result<TensorView<'a>, String> {
    let golden = golden.squeeze(&checkpoint.squeeze).map_err(|error| format!("`squeeze`: {error}"))?;
    match &checkpoint.layout {
        Some(axes) => golden.permute(axes).map_err(|error| format!("`layout`: {error}")),
        None => Ok(golden),
    }
}
