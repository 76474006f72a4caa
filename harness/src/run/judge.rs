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
use crate::golden::{FixtureSet, Golden};
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
    kept: HashMap<String, Option<Tensor>>,
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
        let form = (&actual.view()).into();
        match self.judge_form(checkpoint, hit, &form) {
            Some(judged) => {
                self.keep(checkpoint, hit, Some(actual));
                judged
            }
            None => self.judge_values(checkpoint, hit, actual),
        }
    }

    /// Judges what is known before anything is evaluated; `None` when it is right, and the values decide. Each hit is
    /// judged once.
    ///
    /// A tap of a wrong shape may be far larger than the right one, so that evaluating it would end the worker.
    pub(super) fn judge_form(
        &mut self,
        checkpoint: &Checkpoint,
        hit: u64,
        found: &record::Tensor,
    ) -> Option<Judged> {
        let shape = self.check_shape(checkpoint, &found.shape);
        let mut judged = self.compare_form(checkpoint, hit, found);
        // What the spec declares is held against the actual too; the first check in the order of classes counts.
        let before = |limit| {
            let class = judged.as_ref().and_then(|judged| judged.outcome.class);
            class.is_none_or(|class| class >= limit)
        };
        let declared = if let Err(problem) = shape
            && before(Class::Shape)
        {
            Some((Class::Shape, problem))
        } else if let Some(declared) = checkpoint.dtype.filter(|&declared| declared != found.dtype)
            && before(Class::Dtype)
        {
            Some((
                Class::Dtype,
                format!("the spec declares {declared}, but the port produced {}", found.dtype),
            ))
        } else {
            None
        };
        if let Some((class, detail)) = declared {
            let outcome = Outcome { class: Some(class), detail, metrics: None };
            judged = Some(match judged {
                Some(judged) => Judged { outcome, ..judged },
                // Beside a golden of the right form, what is declared is wrong, or there is no golden.
                None => self.with_golden(checkpoint, hit, outcome),
            });
        }
        if judged.is_some() {
            self.keep(checkpoint, hit, None);
        }
        judged
    }

    /// Compares the values at a tap whose form is right.
    pub(super) fn judge_values(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Judged {
        let judged = self.compare(checkpoint, hit, actual);
        self.keep(checkpoint, hit, Some(actual));
        judged
    }

    /// Whether the next failure is looked into.
    pub(super) fn explains(&self, checkpoint: &Checkpoint) -> bool {
        self.diagnoses > 0 && checkpoint.gated && checkpoint.needs_golden()
    }

    /// What kind of wrong a tap of a wrong shape is, once it is evaluated after all.
    pub(super) fn explain(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Diagnosis {
        self.compare(checkpoint, hit, actual).diagnosis
    }

    /// Keeps what a later checkpoint is compared with; nothing for one of a wrong form that was not evaluated.
    pub(super) fn keep(&mut self, checkpoint: &Checkpoint, hit: u64, actual: Option<&Tensor>) {
        if self.compared_with.contains(&checkpoint.name) {
            self.kept.insert(hit_name(&checkpoint.name, hit).into_owned(), actual.cloned());
        }
    }

    fn compare_form(&mut self, checkpoint: &Checkpoint, hit: u64, found: &record::Tensor) -> Option<Judged> {
        let mut rule = checkpoint.rule();
        let actual = (found.dtype, &found.shape[..]);
        if let Some(other) = &checkpoint.against {
            return match self.kept.get(&*hit_name(other, hit)) {
                Some(Some(expected)) => {
                    let outcome =
                        compare::compare_forms((expected.dtype(), expected.shape()), actual, &rule)?;
                    Some(Judged { expected: Some((&expected.view()).into()), ..outcome.into() })
                }
                Some(None) => {
                    let problem =
                        format!("`{other}`, which this is compared with, has another shape or dtype");
                    Some(Judged::failed(Class::Unreached, problem))
                }
                None => {
                    let problem = format!("`{other}`, which this is compared with, was not met before it");
                    Some(Judged::failed(Class::Unreached, problem))
                }
            };
        }
        if !checkpoint.needs_golden() {
            return None;
        }
        let (golden, form) = match self.golden(checkpoint, hit) {
            Ok(found) => found,
            Err(judged) => return Some(*judged),
        };
        rule.floor = golden.floor;
        let outcome = compare::compare_forms((form.dtype, &form.shape), actual, &rule)?;
        Some(self.with_golden(checkpoint, hit, outcome))
    }

    /// The golden of a hit, and its form once the spec's changes are made to it.
    fn golden(&self, checkpoint: &Checkpoint, hit: u64) -> Result<(Golden, record::Tensor), Box<Judged>> {
        let failed = |class, text| Box::new(Judged::failed(class, text));
        let Some(fixtures) = &self.fixtures else {
            return Err(failed(Class::Missing, "the spec has no fixtures".to_owned()));
        };
        let golden = fixtures.golden(&hit_name(&checkpoint.name, hit));
        let golden = golden.map_err(|error| failed(error.class(), error_chain(&error)))?;
        let view = as_the_port_has_it(golden.tensor.view(), checkpoint);
        let mut form: record::Tensor = (&view.map_err(|problem| failed(Class::Spec, problem))?).into();
        form.dtype = checkpoint.cast.unwrap_or(form.dtype);
        if let Some(declared) = checkpoint.dtype.filter(|&declared| declared != form.dtype) {
            let problem = format!("the spec declares {declared}, but the golden is {}", form.dtype);
            return Err(failed(Class::Spec, problem));
        }
        Ok((golden, form))
    }

    /// A verdict that needed no values, with what is known of the golden; where the golden is injected, the port goes on
    /// with it.
    fn with_golden(&self, checkpoint: &Checkpoint, hit: u64, outcome: Outcome) -> Judged {
        if !checkpoint.needs_golden() {
            return outcome.into();
        }
        let (golden, form) = match self.golden(checkpoint, hit) {
            Ok(found) => found,
            Err(judged) => return *judged,
        };
        let injected = self.inject.takes(&self.spec, &checkpoint.name).then(|| {
            let view = as_the_port_has_it(golden.tensor.view(), checkpoint).map_err(ArrayError::Mlx)?;
            match checkpoint.cast.map(|dtype| tensor::cast(&view, dtype)) {
                Some(cast) => from_host(&cast.map_err(|error| ArrayError::Mlx(error.to_string()))?.view()),
                None => from_host(&view),
            }
        });
        Judged {
            expected: Some(form),
            floor: golden.floor,
            injected,
            sequence: Some(golden.sequence),
            ..outcome.into()
        }
    }

    fn compare(&mut self, checkpoint: &Checkpoint, hit: u64, actual: &Tensor) -> Judged {
        let mut rule = checkpoint.rule();
        if let Some(other) = &checkpoint.against {
            let Some(Some(expected)) = self.kept.get(&*hit_name(other, hit)) else {
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
    fn check_shape(&mut self, checkpoint: &Checkpoint, found: &[usize]) -> Result<(), String> {
        let Some(declared) = &checkpoint.shape else { return Ok(()) };
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
