//! Stages with a recipe: a fixture set in a temporary folder, and an actual from the same recipe with one mistake.

use std::collections::BTreeSet;
use std::fs;

use mlx_parity_core::diagnose::{
    Budget, Cause, CauseKind, Diagnosis, FailingCheckpoint, NoKnownTensors, StageRecipe, diagnose, recognise,
};
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::golden::FixtureSet;
use mlx_parity_core::recipe::Recipe;
use mlx_parity_core::replay::{Array, Replay, SetLeaves, Work};
use mlx_parity_core::tensor::{Dtype, Tensor, write_npy};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::kit::{Dice, tensor};

/// Checks that the first cause is of this kind, or says the same as one of it, and returns its text.
#[track_caller]
pub(crate) fn explained(diagnosis: &Diagnosis, kind: CauseKind) -> &str {
    let cause = diagnosis.causes.first().unwrap_or_else(|| panic!("nothing explains it: {diagnosis:?}"));
    assert!(cause.kind == kind || cause.also.contains(&kind), "{cause:?}");
    &cause.text
}

/// A stage: tensors that it starts from, and the nodes of its recipe. The last node is the golden `out`.
pub(crate) struct RecipeCase {
    root: TempDir,
    nodes: String,
    tensors: Vec<Value>,
}

impl RecipeCase {
    /// A stage with these nodes, written as in `recipes.json`.
    pub(crate) fn new(nodes: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        Self { root, nodes: nodes.to_owned(), tensors: Vec::new() }
    }

    /// With an input of normal numbers.
    pub(crate) fn input(self, name: &str, shape: &[usize]) -> Self {
        self.made("input", name, shape)
    }

    /// With a weight of normal numbers.
    pub(crate) fn weight(self, name: &str, shape: &[usize]) -> Self {
        self.made("weight", name, shape)
    }

    /// With an input of these whole numbers.
    pub(crate) fn table(mut self, name: &str, shape: &[usize], values: &[f64]) -> Self {
        self.add("input", name, &tensor(Dtype::Float32, shape, values));
        self
    }

    fn made(mut self, role: &str, name: &str, shape: &[usize]) -> Self {
        let seed = 7 + self.tensors.len() as u64;
        let values = Dice::new(seed).normals(shape.iter().product());
        self.add(role, name, &tensor(Dtype::Float32, shape, &values));
        self
    }

    fn add(&mut self, role: &str, name: &str, tensor: &Tensor) {
        let file = format!("{role}.{name}.npy");
        write_npy(self.root.path().join("a/b").join(&file), &tensor.view()).unwrap();
        let mut entry = json!({"name": name, "role": role, "file": file, "dtype": tensor.dtype().name(),
            "shape": tensor.shape(), "sha256": "0".repeat(64)});
        if role == "golden" {
            entry["sequence"] = json!(0);
        }
        self.tensors.push(entry);
    }

    /// The set as far as it is known, with a recipe.
    fn set(&self, nodes: &str, goldens: &Value) -> (FixtureSet, Recipe) {
        let recipe = format!(
            "{{\"format\": 1, \"sources\": [\"model.py\"], \"nodes\": [{nodes}], \"goldens\": {goldens}, \"missing\": {{}}}}"
        );
        fs::write(self.root.path().join("a/b/recipes.json"), &recipe).unwrap();
        let manifest = json!({"format": 1, "tensors": self.tensors, "provenance": {},
            "recipes": {"file": "recipes.json", "sha256": crate::golden::sha(recipe.as_bytes())},
            "made_by": {"key": "0".repeat(64), "script": "x.py", "source": "x", "params": {}}});
        fs::write(self.root.path().join("a/b/manifest.json"), manifest.to_string()).unwrap();
        let set = FixtureSet::open(self.root.path(), "a/b").unwrap();
        let read = Recipe::parse(recipe.as_bytes()).unwrap();
        (set, read)
    }

    /// What the nodes compute, in float32.
    fn computed(&self, nodes: &str) -> Tensor {
        let (set, recipe) = self.set(nodes, &json!({}));
        let leaves = SetLeaves { set: &set, recipe: &recipe };
        let work = Work::new(1 << 40, 1 << 33);
        let replay = Replay::new(&recipe, recipe.nodes.len() - 1, BTreeSet::new(), &leaves, &work).unwrap();
        let value: Array = replay.target().unwrap();
        tensor(Dtype::Float32, value.shape(), value.values())
    }

    /// The diagnosis of a port whose nodes differ from the recipe's in one text.
    pub(crate) fn with(self, right: &str, wrong: &str) -> Diagnosis {
        self.failing(right, wrong).diagnosis()
    }

    /// A port whose nodes differ from the recipe's in one text.
    pub(crate) fn failing(mut self, right: &str, wrong: &str) -> Failing {
        assert_eq!(self.nodes.matches(right).count(), 1, "`{right}` is in the recipe once");
        let golden = self.computed(&self.nodes);
        let actual = self.computed(&self.nodes.replace(right, wrong));
        self.add("golden", "out", &golden);
        let nodes: Vec<Value> = serde_json::from_str(&format!("[{}]", self.nodes)).unwrap();
        let (set, recipe) = self.set(&self.nodes, &json!({"out": nodes.len() - 1}));
        Failing { set, recipe, golden, actual, _root: self.root }
    }
}

/// A stage whose output is wrong.
pub(crate) struct Failing {
    set: FixtureSet,
    recipe: Recipe,
    pub(crate) golden: Tensor,
    pub(crate) actual: Tensor,
    _root: TempDir,
}

impl Failing {
    /// The elements of the actual, which is float32.
    pub(crate) fn actual_values(&self) -> Vec<f32> {
        let bytes = self.actual.view().row_major_bytes().unwrap().to_vec();
        bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    /// What is found out about it.
    pub(crate) fn diagnosis(&self) -> Diagnosis {
        self.with(diagnose)
    }

    /// What is found out about it if only these causes are tried.
    pub(crate) fn recognised(&self, known: &[Cause]) -> Diagnosis {
        self.with(|checkpoint| recognise(checkpoint, known))
    }

    fn with(&self, find: impl Fn(&FailingCheckpoint) -> Diagnosis) -> Diagnosis {
        let rule = Rule {
            gate: Some(Gate::Noise { k: 8.0 }),
            floor: Some(Floor { max: 1e-6, rms: 1e-7 }),
            ..Rule::default()
        };
        find(&FailingCheckpoint {
            name: "out",
            stage: None,
            expected: self.golden.view(),
            actual: self.actual.view(),
            rule: &rule,
            known: &NoKnownTensors,
            recipe: Some(StageRecipe {
                recipe: &self.recipe,
                fixtures: &self.set,
                tapped: BTreeSet::new(),
                squeeze: &[],
                layout: None,
            }),
            budget: &Budget::of_a_run(),
        })
    }
}
