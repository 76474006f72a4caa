//! Goldens, actuals that are wrong in a known way, and the expected diagnosis.

use half::bf16;
use mlx_parity_core::diagnose::{
    Budget, Cause, Diagnosis, FailingCheckpoint, KnownTensor, KnownTensors, diagnose,
};
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::golden::StepFacts;
use mlx_parity_core::spec::Stage;
use mlx_parity_core::tensor::{Dtype, Tensor};

/// Pseudo-random numbers, the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub(crate) fn normals(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }
}

pub(crate) fn tensor(dtype: Dtype, shape: &[usize], values: &[f64]) -> Tensor {
    let bytes = values
        .iter()
        .flat_map(|&x| match dtype {
            Dtype::Bfloat16 => bf16::from_f64(x).to_le_bytes().to_vec(),
            Dtype::Int32 => (x as i32).to_le_bytes().to_vec(),
            _ => (x as f32).to_le_bytes().to_vec(),
        })
        .collect();
    Tensor::from_vec(dtype, shape.to_vec(), bytes).unwrap()
}

/// The tensors around a checkpoint.
#[derive(Default)]
pub(crate) struct Surroundings {
    before: Vec<KnownTensor>,
    after: Vec<KnownTensor>,
    weights: Vec<KnownTensor>,
    tensors: Vec<(String, Tensor)>,
    steps: Vec<(String, StepFacts)>,
}

impl Surroundings {
    fn other(&mut self, name: &str, dtype: Dtype, shape: &[usize], values: &[f64]) -> KnownTensor {
        self.tensors.push((name.to_owned(), tensor(dtype, shape, values)));
        KnownTensor { name: name.to_owned(), dtype, shape: shape.to_vec() }
    }
}

impl KnownTensors for Surroundings {
    fn before(&self) -> &[KnownTensor] {
        &self.before
    }

    fn after(&self) -> &[KnownTensor] {
        &self.after
    }

    fn weights(&self) -> &[KnownTensor] {
        &self.weights
    }

    fn steps(&self) -> Vec<(&str, &StepFacts)> {
        self.steps.iter().map(|(name, facts)| (name.as_str(), facts)).collect()
    }

    fn tensor(&self, other: &KnownTensor) -> Option<Tensor> {
        self.tensors.iter().find(|(name, _)| *name == other.name).map(|(_, tensor)| tensor.clone())
    }
}

/// A checkpoint: its golden, and the tensors around it.
pub(crate) struct Case {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) golden: Vec<f64>,
    name: &'static str,
    stage: Option<Stage>,
    surroundings: Surroundings,
}

impl Case {
    pub(crate) fn new(dtype: Dtype, shape: &[usize], golden: &[f64]) -> Self {
        let surroundings = Surroundings::default();
        let (shape, golden) = (shape.to_vec(), golden.to_vec());
        Self { dtype, shape, golden, name: "layers.1.out", stage: None, surroundings }
    }

    /// A case whose golden has normal numbers.
    pub(crate) fn normal(dtype: Dtype, shape: &[usize], seed: u64) -> Self {
        Self::new(dtype, shape, &Dice::new(seed).normals(shape.iter().product()))
    }

    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    pub(crate) fn at_stage(mut self, stage: Option<Stage>) -> Self {
        self.stage = stage;
        self
    }

    pub(crate) fn before(mut self, name: &str, shape: &[usize], values: &[f64]) -> Self {
        let other = self.surroundings.other(name, self.dtype, shape, values);
        self.surroundings.before.push(other);
        self
    }

    pub(crate) fn after(mut self, name: &str, shape: &[usize], values: &[f64]) -> Self {
        let other = self.surroundings.other(name, self.dtype, shape, values);
        self.surroundings.after.push(other);
        self
    }

    pub(crate) fn weight(self, name: &str, values: &[f64]) -> Self {
        self.weight_shaped(name, &[values.len()], values)
    }

    pub(crate) fn weight_shaped(mut self, name: &str, shape: &[usize], values: &[f64]) -> Self {
        let other = self.surroundings.other(name, self.dtype, shape, values);
        self.surroundings.weights.push(other);
        self
    }

    /// Says which step of an optimiser made a golden.
    pub(crate) fn step(mut self, name: &str, facts: StepFacts) -> Self {
        self.surroundings.steps.push((name.to_owned(), facts));
        self
    }

    /// What surrounds the checkpoint.
    pub(crate) fn surroundings(&self) -> &dyn KnownTensors {
        &self.surroundings
    }

    /// The diagnosis of an actual, to which the rounding of a real port is added.
    pub(crate) fn causes(&self, shape: &[usize], actual: &[f64]) -> Vec<Cause> {
        self.noisy(shape, actual).causes
    }

    fn noisy(&self, shape: &[usize], actual: &[f64]) -> Diagnosis {
        let (eps, size) = (self.dtype.epsilon().unwrap_or(0.0), self.size());
        let mut dice = Dice::new(77);
        let noisy: Vec<f64> =
            actual.iter().map(|x| x + 0.3 * eps * dice.normal() * x.abs().min(size)).collect();
        self.diagnosis(shape, &noisy)
    }

    /// The same, without added rounding.
    pub(crate) fn exact_causes(&self, actual: &[f64]) -> Vec<Cause> {
        self.diagnosis(&self.shape, actual).causes
    }

    fn size(&self) -> f64 {
        let plain = self.golden.iter().filter(|x| x.abs() < 1e8);
        (plain.map(|x| x * x).sum::<f64>() / self.golden.len() as f64).sqrt()
    }

    /// The causes of an actual that are found within this budget.
    pub(crate) fn within(&self, budget: &Budget, actual: &[f64]) -> Vec<Cause> {
        self.said_within(budget, &self.shape, actual).causes
    }

    fn diagnosis(&self, shape: &[usize], actual: &[f64]) -> Diagnosis {
        self.said_within(&Budget::of_a_run(), shape, actual)
    }

    fn said_within(&self, budget: &Budget, shape: &[usize], actual: &[f64]) -> Diagnosis {
        let (eps, size) = (self.dtype.epsilon().unwrap_or(0.0), self.size());
        let (expected, actual) =
            (tensor(self.dtype, &self.shape, &self.golden), tensor(self.dtype, shape, actual));
        let floor = Floor { max: 2.0 * eps * size, rms: 0.5 * eps * size };
        let exact =
            Rule { gate: Some(Gate::Tolerance { rtol: 0.0, atol: 0.0, policy: None }), ..Rule::default() };
        let noise = Rule { gate: Some(Gate::Noise { k: 8.0 }), floor: Some(floor), ..Rule::default() };
        let rule = if self.dtype == Dtype::Int32 { exact } else { noise };
        let checkpoint = FailingCheckpoint {
            name: self.name,
            stage: self.stage,
            expected: expected.view(),
            actual: actual.view(),
            rule: &rule,
            known: &self.surroundings,
            recipe: None,
            budget,
        };
        diagnose(&checkpoint)
    }

    /// Expects exactly one cause with this kind and these words, for an actual of the golden's shape.
    #[track_caller]
    pub(crate) fn is(&self, actual: &[f64], kind: &str, words: &[&str]) {
        self.is_shaped(&self.shape, actual, kind, words);
    }

    #[track_caller]
    pub(crate) fn is_shaped(&self, shape: &[usize], actual: &[f64], kind: &str, words: &[&str]) {
        let causes = self.causes(shape, actual);
        let kinds: Vec<&str> = causes.iter().map(|cause| cause.kind.name()).collect();
        assert_eq!(kinds, [kind], "{causes:#?}");
        for word in words {
            assert!(causes[0].text.contains(word), "`{}` does not say `{word}`", causes[0].text);
        }
    }

    #[track_caller]
    pub(crate) fn is_unexplained(&self, actual: &[f64]) {
        let causes = self.causes(&self.shape, actual);
        assert!(causes.is_empty(), "{causes:#?}");
    }

    /// Expects no cause, but a fact with this kind and these words.
    #[track_caller]
    pub(crate) fn shows(&self, actual: &[f64], kind: &str, words: &[&str]) {
        self.has_fact(&self.noisy(&self.shape, actual), kind, words);
    }

    /// The same, without added rounding.
    #[track_caller]
    pub(crate) fn shows_exactly(&self, actual: &[f64], kind: &str, words: &[&str]) {
        self.has_fact(&self.diagnosis(&self.shape, actual), kind, words);
    }

    #[track_caller]
    fn has_fact(&self, Diagnosis { causes, facts, .. }: &Diagnosis, kind: &str, words: &[&str]) {
        assert!(causes.is_empty(), "{causes:#?}");
        let fact = facts.iter().find(|fact| fact.kind.name() == kind);
        assert!(fact.is_some(), "no `{kind}` in {facts:#?}");
        let text = fact.map(|fact| fact.text.as_str()).unwrap_or_default();
        for word in words {
            assert!(text.contains(word), "`{text}` does not say `{word}`");
        }
    }
}

/// Transposes `values`.
pub(crate) fn permuted(shape: &[usize], values: &[f64], axes: &[usize]) -> Vec<f64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let turned: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
    (0..values.len())
        .map(|position| {
            let (mut rest, mut place) = (position, 0);
            for (k, &length) in turned.iter().enumerate().rev() {
                place += rest % length * strides[axes[k]];
                rest /= length;
            }
            values[place]
        })
        .collect()
}
