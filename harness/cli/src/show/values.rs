//! The values of a golden and an actual, and what is computed from them.

use std::cell::OnceCell;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::ShowError;
use super::subject::{Hit, Subject, status};
use crate::Project;
use mlx_parity_core::calculate::{Answer, Calculator, Limits, Printed, Tensors};
use mlx_parity_core::golden::{FixtureSet, as_compared};
use mlx_parity_core::settings;
use mlx_parity_core::spec::hit_name;
use mlx_parity_core::tensor::{Tensor, TensorFile};
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::program::suite_command;

/// Reads both tensors of a hit when they are needed.
pub(super) struct HitValues<'s> {
    project: &'s Project,
    subject: &'s Subject,
    hit: &'s Hit<'s>,
    golden: OnceCell<Result<Tensor, String>>,
}

/// What was asked for besides the statistics.
pub(super) struct Request<'a> {
    pub(super) slice: Option<&'a str>,
    pub(super) golden: bool,
    pub(super) actual: bool,
    pub(super) diff: bool,
    pub(super) expression: Option<&'a str>,
}

/// The answers, in the order of the request.
pub(super) struct Answers(Vec<Answer>);

impl<'s> HitValues<'s> {
    pub(super) fn new(project: &'s Project, subject: &'s Subject, hit: &'s Hit<'s>) -> Self {
        Self { project, subject, hit, golden: OnceCell::new() }
    }

    /// The actual, if the run kept it.
    pub(super) fn actual(&self) -> Result<Tensor, ShowError> {
        let record = self.hit.record;
        let path = self.subject.data.folder().actual(&record.checkpoint, record.hit);
        let unreadable = |problem: String| ShowError::Actual { path: path.clone(), problem };
        match path.symlink_metadata() {
            Err(_) => {
                let run = format!("{} {}::", suite_command(), self.subject.spec.id);
                Err(ShowError::NotKept {
                    name: format!("{}::{}", self.subject.spec.id, self.hit.name),
                    status: status(record.verdict.status).to_owned(),
                    command: format!("PARITY_KEEP=all {run}"),
                })
            }
            Ok(metadata) if metadata.len() == 0 => Err(unreadable(
                "it is empty; a zipped run is read without its tensors, so unpack it".to_owned(),
            )),
            Ok(_) => {
                let file = TensorFile::open(&path).map_err(|error| unreadable(error_chain(&error)))?;
                let name = file.names().next().unwrap_or_default().to_owned();
                file.get(&name).map_err(|error| unreadable(error_chain(&error)))
            }
        }
    }

    /// The golden as it was compared: after `squeeze`, `layout` and `cast`. Its checksum is checked.
    pub(super) fn golden(&self) -> Result<Tensor, ShowError> {
        let read = self.golden.get_or_init(|| self.read_golden());
        read.clone().map_err(|problem| ShowError::Golden { name: self.hit.name.clone(), problem })
    }

    /// The fixture set. The run may have used another fixture root than this process.
    fn fixtures(&self) -> Result<FixtureSet, String> {
        let own = self.project.fixture_root();
        let then = self.subject.job.as_ref().map(|job| job.fixture_root.clone());
        let root = match settings::variable("PARITY_FIXTURES") {
            Some(_) => own,
            None => then.filter(|root| root.is_dir()).unwrap_or(own),
        };
        FixtureSet::open(&root, &self.subject.spec.fixtures).map_err(|error| error_chain(&error))
    }

    /// The line of the reference that made the golden, if it is known.
    pub(super) fn place(&self) -> Option<String> {
        let name = hit_name(&self.hit.checkpoint.name, self.hit.record.hit);
        self.fixtures().ok()?.golden(&name).ok()?.place
    }

    fn read_golden(&self) -> Result<Tensor, String> {
        let (spec, checkpoint) = (&self.subject.spec, self.hit.checkpoint);
        if self.hit.record.expected.is_none() {
            return Err("the checkpoint has no golden".to_owned());
        }
        if let Some(other) = &checkpoint.against {
            return Err(format!("it is compared with the actual of `{other}`; show that checkpoint instead"));
        }
        let set = self.fixtures()?;
        let name = hit_name(&checkpoint.name, self.hit.record.hit);
        let golden = set.verified_golden(&name).map_err(|error| error_chain(&error))?;
        let files = self.subject.job.iter().flat_map(|job| &job.verified.fixtures);
        let now = set.identities();
        if files.into_iter().any(|(file, then)| now.get(file).is_some_and(|now| now != then)) {
            eprintln!(
                "note: the fixtures of `{}` were replaced after this run; the golden is today's",
                spec.id
            );
        }
        as_compared(&golden.tensor, checkpoint)
    }
}

impl Tensors for HitValues<'_> {
    fn names(&self) -> Vec<String> {
        vec!["golden".to_owned(), "actual".to_owned()]
    }

    fn tensor(&self, name: &str) -> Result<Tensor, String> {
        let read = if name == "golden" { self.golden() } else { self.actual() };
        read.map_err(|error| match &error {
            ShowError::NotKept { command, .. } => format!("{error}; run `{command}`"),
            _ => error.to_string(),
        })
    }
}

impl Request<'_> {
    /// Whether values are asked for.
    pub(super) fn is_any(&self) -> bool {
        self.slice.is_some() || self.golden || self.actual || self.diff || self.expression.is_some()
    }

    /// Reads and computes what was asked for. A slice alone shows both sides, as far as they exist.
    pub(super) fn answer(&self, values: &HitValues<'_>) -> Result<Answers, ShowError> {
        let mut calculator = Calculator::new(values, Limits::default());
        let index = self.slice.map(|slice| format!("[{slice}]")).unwrap_or_default();
        let mut answers = Vec::new();
        let alone =
            self.slice.is_some() && !self.golden && !self.actual && !self.diff && self.expression.is_none();
        let mut sides = Vec::new();
        if self.golden || alone && values.hit.record.expected.is_some() {
            values.golden()?;
            sides.push("golden");
        }
        if self.actual || alone {
            values.actual()?;
            sides.push("actual");
        }
        if self.diff {
            values.golden()?;
            values.actual()?;
            sides.push("(actual - golden)");
        }
        for side in sides {
            // A wrong slice is reported at its own column.
            if let Some(slice) = self.slice {
                let name = if side == "golden" { "golden" } else { "actual" };
                let checked = calculator.slice(name, slice);
                checked.map_err(|source| ShowError::Expression { option: "--slice", source })?;
            }
            let option = if side.starts_with('(') { "--diff" } else { "--slice" };
            let found = calculator.run(&format!("{side}{index}"));
            answers.extend(found.map_err(|source| ShowError::Expression { option, source })?);
        }
        if let Some(expression) = self.expression {
            let found = calculator.run(expression);
            answers.extend(found.map_err(|source| ShowError::Expression { option: "--expr", source })?);
        }
        Ok(Answers(answers))
    }
}

impl Answers {
    /// One answer after the other. A single answer stands alone, so that a script can read it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for answer in &self.0 {
            let shown = answer.to_string();
            let is_single = self.0.len() == 1 && answer.value.ndim() == 0;
            let value = shown.rsplit_once(" = ").map_or(shown.as_str(), |(_, value)| value);
            let _ = writeln!(text, "{}", if is_single { value } else { &shown });
        }
        text
    }

    pub(super) fn as_json(&self) -> Value {
        let answers = self
            .0
            .iter()
            .map(|answer| json!({"source": answer.source, "value": Printed::from(&answer.value)}));
        Value::Array(answers.collect())
    }
}
