//! Evaluates the statements of a text.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::answer::Answer;
use super::arguments::{Value, scalar, whole};
use super::error::{CalculateError, Mistake};
use super::functions::{self, limit};
use super::indexing::{Index, select};
use super::syntax::{parse, parse_index};
use super::tree::{Expression, Node, Selector};
use crate::recipe::{Form, Op};
use crate::replay::{Array, Work, evaluate};
use crate::tensor::Tensor;
use crate::text::printable::clean;
use crate::text::suggest::did_you_mean;

/// The tensors that an expression can name.
pub trait Tensors {
    /// All names.
    fn names(&self) -> Vec<String>;

    /// The tensor with this name, which is one of [`Tensors::names`].
    ///
    /// # Errors
    /// Why it cannot be read, in one line.
    fn tensor(&self, name: &str) -> Result<Tensor, String>;
}

impl Tensors for BTreeMap<String, Tensor> {
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn tensor(&self, name: &str) -> Result<Tensor, String> {
        self.get(name).cloned().ok_or_else(|| "it does not exist".to_owned())
    }
}

/// What all expressions of a calculator may use together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Steps, as [`Work`] counts them.
    pub steps: u64,
    /// Bytes of all values at any time. An element takes eight.
    pub bytes: u64,
}

impl Default for Limits {
    /// Enough for some seconds, and for tensors of 2 GiB in float64.
    fn default() -> Self {
        Self { steps: 1 << 35, bytes: 2 << 30 }
    }
}

/// Evaluates expressions over tensors. Variables stay from one text to the next.
pub struct Calculator<'t> {
    tensors: &'t dyn Tensors,
    names: Vec<String>,
    variables: HashMap<String, Array>,
    /// Tensors that were read.
    read: HashMap<String, Array>,
    limits: Limits,
    work: Work,
}

/// Words with a fixed value.
const CONSTANTS: [(&str, f64); 6] = [
    ("pi", std::f64::consts::PI),
    ("e", std::f64::consts::E),
    ("inf", f64::INFINITY),
    ("nan", f64::NAN),
    ("true", 1.0),
    ("false", 0.0),
];

impl<'t> Calculator<'t> {
    /// A calculator without variables.
    pub fn new(tensors: &'t dyn Tensors, limits: Limits) -> Self {
        let names = tensors.names();
        let work = Work::new(limits.steps, limits.bytes);
        Self { tensors, names, variables: HashMap::new(), read: HashMap::new(), limits, work }
    }

    /// Evaluates a text: one answer per statement that sets no variable. If the last statement sets one, its value is the
    /// last answer. Each call has its own number of steps; memory is shared.
    ///
    /// # Errors
    /// The first problem, with its place in the text. Variables that were set before it stay.
    pub fn run(&mut self, text: &str) -> Result<Vec<Answer>, CalculateError> {
        self.work = self.work.with_steps(self.limits.steps);
        self.statements(text).map_err(|fault| CalculateError::at(text, fault))
    }

    fn statements(&mut self, text: &str) -> Result<Vec<Answer>, Mistake> {
        let is_tensor = |name: &str| self.names.iter().any(|known| known == name);
        let statements = parse(text, &is_tensor)?;
        let last = statements.len() - 1;
        let mut answers = Vec::new();
        for (index, statement) in statements.iter().enumerate() {
            let value = self.value(&statement.value)?;
            let source = &text[statement.value.at.clone()];
            match &statement.variable {
                None => answers.push(Answer::new(source, value)),
                Some((name, at)) => {
                    self.set(name, at, value.clone())?;
                    if index == last {
                        answers.push(Answer::new(name, value));
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Sets a variable to a number.
    ///
    /// # Errors
    /// When a tensor, a constant or a function has the name.
    pub fn set_number(&mut self, name: &str, value: f64) -> Result<(), CalculateError> {
        let set = self.set(name, &(0..name.len()), Array::scalar(value));
        set.map_err(|fault| CalculateError::at(name, fault))
    }

    /// Drops the tensors that were read, so that their memory is free for others. Variables stay.
    pub fn forget_tensors(&mut self) {
        self.read.clear();
    }

    fn set(&mut self, name: &str, at: &Range<usize>, value: Array) -> Result<(), Mistake> {
        let is_constant = CONSTANTS.iter().any(|(constant, _)| *constant == name);
        let taken = match () {
            () if self.names.iter().any(|known| known == name) => "a tensor",
            () if is_constant => "a constant",
            () if functions::names().any(|function| function == name) => "a function",
            () => {
                self.variables.insert(name.to_owned(), value);
                return Ok(());
            }
        };
        Err(Mistake::new(at, format!("`{}` is {taken}", clean(name)))
            .allowed("another name for the variable"))
    }

    fn value(&mut self, expression: &Expression) -> Result<Array, Mistake> {
        let at = &expression.at;
        match &expression.node {
            Node::Number(number) => Ok(Array::scalar(*number)),
            Node::Tensor(name) => self.tensor(name, at),
            Node::Variable(name) => self.variable(name, at),
            Node::List(items) => self.list(items, at),
            Node::Operation(op, operands) => {
                let mut inputs = Vec::with_capacity(operands.len());
                for operand in operands {
                    inputs.push(Some(self.value(operand)?));
                }
                evaluate(op, &inputs, &self.work).map_err(|error| limit(at, &error))
            }
            Node::Call { function, name_at, arguments } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let value = self.value(&argument.value)?;
                    values.push(Value { name: argument.name.clone(), value, at: argument.value.at.clone() });
                }
                functions::call(function, name_at, at, values, &self.work)
            }
            Node::Index(value, selectors) => {
                let value = self.value(value)?;
                let entries = self.index(selectors)?;
                select(&value, at, &entries, &self.work)
            }
        }
    }

    fn list(&mut self, items: &[Expression], at: &Range<usize>) -> Result<Array, Mistake> {
        if items.is_empty() {
            return functions::numbers(Vec::new(), at);
        }
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(Some(self.value(item)?));
        }
        evaluate(&Op::Form(Form::Stack { axis: 0 }), &values, &self.work).map_err(|error| limit(at, &error))
    }

    fn index(&mut self, selectors: &[Selector]) -> Result<Vec<Index>, Mistake> {
        let mut entries = Vec::with_capacity(selectors.len());
        for selector in selectors {
            entries.push(match selector {
                Selector::Rest(at) => Index::Rest(at.clone()),
                Selector::At(index) => Index::At(self.whole(index)?, index.at.clone()),
                Selector::Range { at, start, end, step } => {
                    let (at, start, end) =
                        (at.clone(), self.bound(start.as_deref())?, self.bound(end.as_deref())?);
                    Index::Range { at, start, end, step: self.bound(step.as_deref())? }
                }
            });
        }
        Ok(entries)
    }

    fn bound(&mut self, bound: Option<&Expression>) -> Result<Option<i64>, Mistake> {
        bound.map(|bound| self.whole(bound)).transpose()
    }

    fn whole(&mut self, expression: &Expression) -> Result<i64, Mistake> {
        let value = self.value(expression)?;
        whole(scalar(&value, &expression.at)?, &expression.at)
    }

    fn variable(&mut self, name: &str, at: &Range<usize>) -> Result<Array, Mistake> {
        if let Some(value) = self.variables.get(name) {
            return Ok(value.clone());
        }
        if let Some((_, value)) = CONSTANTS.iter().find(|(constant, _)| *constant == name) {
            return Ok(Array::scalar(*value));
        }
        if functions::names().any(|function| function == name) {
            let message = format!("`{name}` is a function, and needs parentheses");
            return Err(Mistake::new(at, message).allowed(format!("`{name}(…)`")));
        }
        Err(self.unknown(name, at))
    }

    fn tensor(&mut self, name: &str, at: &Range<usize>) -> Result<Array, Mistake> {
        if let Some(array) = self.read.get(name) {
            return Ok(array.clone());
        }
        if !self.names.iter().any(|known| known == name) {
            return Err(self.unknown(name, at));
        }
        let tensor = self.tensors.tensor(name);
        let tensor =
            tensor.map_err(|why| Mistake::new(at, format!("`{}` cannot be read: {why}", clean(name))))?;
        let array = Array::of(&tensor.view(), &self.work).map_err(|error| limit(at, &error))?;
        self.read.insert(name.to_owned(), array.clone());
        Ok(array)
    }

    fn unknown(&self, name: &str, at: &Range<usize>) -> Mistake {
        const SHOWN: usize = 20;
        let variables = self.variables.keys().map(String::as_str);
        let known: Vec<&str> = self.names.iter().map(String::as_str).chain(variables).collect();
        let candidates: Vec<&str> =
            known.iter().copied().chain(functions::names().map(|name| name as &str)).collect();
        let near = did_you_mean(name, candidates);
        let mut allowed: Vec<String> = known.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        if known.len() > SHOWN {
            allowed.push(format!("and {} more", known.len() - SHOWN));
        }
        Mistake::new(at, format!("unknown name `{}`{near}", clean(name))).allowed(allowed.join(", "))
    }

    /// The part of a tensor that a slice such as `0, :, 3` selects.
    ///
    /// # Errors
    /// When the slice is not one, or does not fit the tensor.
    pub fn slice(&mut self, name: &str, slice: &str) -> Result<Array, CalculateError> {
        let part = parse_index(slice).and_then(|selectors| {
            let entries = self.index(&selectors)?;
            let value = self.tensor(name, &(0..slice.len()))?;
            select(&value, &(0..slice.len()), &entries, &self.work)
        });
        part.map_err(|fault| CalculateError::at(slice, fault))
    }
}
