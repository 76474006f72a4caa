//! The commands that are performed while the port stands.

use std::path::Path;

use mlx_parity_tap::open_scopes;

use super::here::Here;
use super::stepper::{Mode, Stepper};
use mlx_parity_core::calculate::{self, Calculator, Tensors};
use mlx_parity_core::compare::examine;
use mlx_parity_core::debug::{
    DebugAnswer, DebugCommand, Diagnosed, GoesOn, ShownTensor, Stop, TapPattern, Value, Variables,
};
use mlx_parity_core::gate::Rule;
use mlx_parity_core::record::Status;
use mlx_parity_core::replay;
use mlx_parity_core::spec::hit_name;
use mlx_parity_core::tensor::{Tensor, write_npy};
use mlx_parity_core::text::error_chain;
use mlx_parity_core::text::glob;
use mlx_parity_core::text::printable::clean;
use mlx_parity_core::text::suggest::did_you_mean;

/// The most tensors in one list.
const MOST_LISTED: usize = 200;
/// The most numbers of one value.
const MOST_NUMBERS: usize = 1000;
/// The most values of one answer.
const MOST_VALUES: usize = 100;

impl Stepper {
    /// Until where the port goes on with this command; `None` if it stands.
    pub(super) fn mode_of(&self, command: &DebugCommand) -> Option<Result<Mode, String>> {
        Some(match command {
            DebugCommand::Continue => Ok(Mode::Continue),
            DebugCommand::Next => Ok(Mode::Next),
            DebugCommand::Into => Ok(Mode::Into),
            DebugCommand::Out => match open_scopes() {
                scopes if scopes.is_empty() => {
                    Err("no scope is open here, so there is none to leave".to_owned())
                }
                scopes => Ok(Mode::Out(scopes)),
            },
            DebugCommand::Until { pattern } => {
                let taps = self.known.taps();
                let parsed = TapPattern::new(pattern).map_err(|error| error.to_string());
                parsed.and_then(|parsed| {
                    let is_known = taps.iter().any(|tap| parsed.matches(tap).is_some());
                    let near = did_you_mean(pattern, taps.iter().map(String::as_str));
                    match is_known || near.is_empty() {
                        true => Ok(Mode::Until(parsed)),
                        false => Err(format!("no checkpoint is called `{}`{near}", clean(pattern))),
                    }
                })
            }
            _ => return None,
        })
    }

    /// Performs a command at a stop. `calculator` keeps variables for as long as the port stands.
    pub(super) fn perform(
        &mut self,
        command: &DebugCommand,
        stop: &Stop,
        here: Option<&mut Here>,
        calculator: &mut Calculator<'_>,
    ) -> DebugAnswer {
        let done = match command {
            DebugCommand::Break { pattern, on, when, hit } => {
                let added = self.breakpoints.add(pattern, *on, when.as_deref(), *hit);
                added.map(|_| self.listed(self.unmatched(pattern)))
            }
            DebugCommand::Breaks => Ok(self.listed(None)),
            DebugCommand::Remove { which } => match self.breakpoints.remove(which) {
                0 => Err(format!("there is no breakpoint `{}`; `breaks` lists them", clean(which))),
                _ => Ok(self.listed(None)),
            },
            DebugCommand::Clear => {
                self.breakpoints.clear();
                Ok(self.listed(None))
            }
            DebugCommand::Location => {
                let here = here.as_deref();
                let mut now = self.stop(&stop.why, here, stop.note.clone());
                now.stop = stop.stop;
                Ok(DebugAnswer::Location(Box::new(now)))
            }
            DebugCommand::Vars { pattern } => Ok(self.variables(pattern.as_deref())),
            DebugCommand::Show { name, slice } => {
                self.show(name, slice.as_deref(), here.as_deref(), calculator)
            }
            DebugCommand::Eval { expression } => evaluate(expression, calculator),
            DebugCommand::Inject { name } => self.plan(name.as_deref(), GoesOn::Golden, here),
            DebugCommand::Set { name, expression } => {
                self.plan(Some(name), GoesOn::Set { expression: expression.clone() }, here)
            }
            DebugCommand::Save { name, file } => self.save(name, file, here.as_deref()),
            DebugCommand::Diagnose => self.diagnose(here.as_deref()),
            other => Err(format!("`{other}` is not a command of the worker")),
        };
        done.unwrap_or_else(DebugAnswer::error)
    }

    fn listed(&self, note: Option<String>) -> DebugAnswer {
        DebugAnswer::Breakpoints { breakpoints: self.breakpoints.list.clone(), note }
    }

    /// A remark if no known tap matches the pattern. The port may still have such a tap.
    fn unmatched(&self, pattern: &str) -> Option<String> {
        let parsed = TapPattern::new(pattern).ok()?;
        let taps = self.known.taps();
        if taps.iter().any(|tap| parsed.matches(tap).is_some()) {
            return None;
        }
        let near = did_you_mean(pattern, taps.iter().map(String::as_str));
        Some(format!("the spec declares no checkpoint `{}`{near}", clean(pattern)))
    }

    fn variables(&self, pattern: Option<&str>) -> DebugAnswer {
        let wanted = |name: &str| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        let (variables, left_out) = self.known.variables(MOST_LISTED, wanted);
        DebugAnswer::Variables(Variables { variables, left_out })
    }

    /// The tensor with this name, as in expressions.
    fn tensor(&self, name: &str, here: Option<&Here>) -> Result<Tensor, String> {
        let tensors = self.tensors(here);
        let names = tensors.names();
        if !names.iter().any(|known| known == name) {
            let near = did_you_mean(name, names.iter().map(String::as_str));
            let next = if near.is_empty() { "; `vars` lists the tensors" } else { "" };
            return Err(format!("there is no tensor `{}`{near}{next}", clean(name)));
        }
        tensors.tensor(name).map_err(|why| format!("`{}` cannot be read: {why}", clean(name)))
    }

    fn show(
        &self,
        name: &str,
        slice: Option<&str>,
        here: Option<&Here>,
        calculator: &mut Calculator<'_>,
    ) -> Result<DebugAnswer, String> {
        let tensor = self.tensor(name, here)?;
        let stats = examine(&tensor.view(), &Rule::default()).metrics.map(|metrics| metrics.actual);
        calculator.forget_tensors();
        let (text, part) = match slice {
            Some(slice) => (format!("{name}[{slice}]"), calculator.slice(name, slice)),
            None => (name.to_owned(), calculator.slice(name, "...")),
        };
        let part = part.map_err(|error| error.to_string())?;
        let value = value(&calculate::Answer { source: text, value: part });
        let shown = ShownTensor { name: name.to_owned(), tensor: (&tensor.view()).into(), stats, value };
        Ok(DebugAnswer::Tensor(Box::new(shown)))
    }

    /// Lets the port go on with another tensor: now at the tap where it stands, or later at another one.
    fn plan(
        &mut self,
        name: Option<&str>,
        with: GoesOn,
        here: Option<&mut Here>,
    ) -> Result<DebugAnswer, String> {
        let current = here.as_ref().map(|here| hit_name(&here.hit.name, here.hit.hit).into_owned());
        let Some(name) = name.map(str::to_owned).or_else(|| current.clone()) else {
            return Err("the port stands at no tap; name one that it will reach".to_owned());
        };
        if let Some(here) = here
            && current.as_ref() == Some(&name)
        {
            self.change(here, with.clone())?;
            return Ok(DebugAnswer::Changed { name, with, now: true });
        }
        if self.known.has_passed(&name) {
            return Err(format!("the port has passed `{}`; start over with `restart`", clean(&name)));
        }
        let taps = self.known.taps();
        let plain = name.split('@').next().unwrap_or(&name);
        if !taps.iter().any(|tap| tap == plain) {
            let near = did_you_mean(&name, taps.iter().map(String::as_str));
            return Err(format!("no checkpoint is called `{}`{near}", clean(&name)));
        }
        self.changes.insert(name.clone(), with.clone());
        Ok(DebugAnswer::Changed { name, with, now: false })
    }

    fn save(&self, name: &str, file: &Path, here: Option<&Here>) -> Result<DebugAnswer, String> {
        let shown = clean(&file.display().to_string()).into_owned();
        if file.extension().is_none_or(|extension| extension != "npy") {
            return Err(format!("`{shown}` has another ending, expected `.npy`"));
        }
        if file.symlink_metadata().is_ok() {
            return Err(format!("`{shown}` exists, expected a new file"));
        }
        let tensor = self.tensor(name, here)?;
        // The answer shows where the file is, also if the command led there through `..` or a link.
        let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
        let file = folder
            .zip(file.file_name())
            .map(|(folder, own)| folder.join(own))
            .ok_or_else(|| format!("the folder of `{shown}` does not exist or cannot be opened"))?;
        write_npy(&file, &tensor.view()).map_err(|error| error_chain(&error))?;
        Ok(DebugAnswer::Saved { name: name.to_owned(), file, tensor: (&tensor.view()).into() })
    }

    fn diagnose(&mut self, here: Option<&Here>) -> Result<DebugAnswer, String> {
        let here = here.ok_or("the port stands at no tap")?;
        let name = hit_name(&here.hit.name, here.hit.hit).into_owned();
        let failed = here.hit.record.as_ref().is_some_and(|record| record.verdict.status == Status::Fail);
        if !failed {
            return Err(format!("`{}` has not failed, so there is no cause to search for", clean(&name)));
        }
        let actual = here.actual.as_ref().ok_or("its tensor was not evaluated")?;
        let found = self.observer.diagnose(&here.hit.name, here.hit.hit, actual, self.known.passed())?;
        let note = self.first_red.as_ref().map(|first| {
            format!(
                "`{first}` is red before it, so this error includes that one; to separate them, `restart`, \
                 `inject {first}` and come back"
            )
        });
        let (causes, facts) = (found.causes, found.facts);
        Ok(DebugAnswer::Diagnosis(Box::new(Diagnosed { name, causes, facts, note })))
    }
}

fn evaluate(expression: &str, calculator: &mut Calculator<'_>) -> Result<DebugAnswer, String> {
    calculator.forget_tensors();
    let answers = calculator.run(expression).map_err(|error| error.to_string())?;
    if answers.len() > MOST_VALUES {
        return Err(format!("the text has {} answers, at most {MOST_VALUES} are allowed", answers.len()));
    }
    Ok(DebugAnswer::Values { values: answers.iter().map(value).collect() })
}

fn value(answer: &calculate::Answer) -> Value {
    let numbers: &replay::Array = &answer.value;
    let values: Vec<f64> = numbers.values().iter().take(MOST_NUMBERS).copied().collect();
    Value {
        source: answer.source.clone(),
        shape: numbers.shape().to_vec(),
        left_out: numbers.values().len() - values.len(),
        values,
        text: answer.text(),
    }
}
