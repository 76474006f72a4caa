//! `cargo xtask diff` with a fixture set that has a recipe.

use std::fs;

use mlx_parity_core::diagnose::RecipeUse;
use mlx_parity_core::record::Record;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Folder;
use crate::command::{check, ended, prints};

const ROWS: usize = 8;
const WIDTH: usize = 6;
const EPS: f64 = 1e-6;
const WRONG_EPS: f64 = 1e-5;

/// A tensor of a fixture set.
type Named = (&'static str, Vec<usize>, Vec<f32>);

/// A block of two branches: `doubled` is twice the input, `norm` its layer norm, and `proj` a linear layer of it. `kept` is
/// `proj` under a second name, `mixed` the product of both branches, and `half` a half of `norm`.
struct Block {
    doubled: Vec<f32>,
    norm: Vec<f32>,
    proj: Vec<f32>,
    mixed: Vec<f32>,
    half: Vec<f32>,
}

/// Numbers that follow no pattern.
fn numbers(count: usize, scale: f64, seed: f64) -> Vec<f32> {
    (0..count).map(|i| (scale * (seed + 1.7 * (i * i + 3 * i) as f64).sin()) as f32).collect()
}

fn input() -> Vec<f32> {
    numbers(ROWS * WIDTH, 0.01, 0.3)
}

fn weights() -> [Named; 3] {
    [
        ("norm.weight", vec![WIDTH], numbers(WIDTH, 1.0, 0.7)),
        ("proj.weight", vec![WIDTH, WIDTH], numbers(WIDTH * WIDTH, 1.0, 1.1)),
        ("proj.bias", vec![WIDTH], numbers(WIDTH, 0.5, 1.9)),
    ]
}

impl Block {
    /// The block as the reference computes it.
    fn reference() -> Self {
        Self::of(EPS, true)
    }

    fn of(eps: f64, with_bias: bool) -> Self {
        Self::scaled(2.0, eps, with_bias)
    }

    /// The block with another factor in place of 2.
    fn scaled(factor: f32, eps: f64, with_bias: bool) -> Self {
        let doubled: Vec<f32> = input().iter().map(|x| factor * x).collect();
        let [weight, matrix, bias] = weights().map(|(_, _, values)| values);
        let (mut norm, mut proj) = (Vec::new(), Vec::new());
        for row in doubled.chunks(WIDTH) {
            let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let mean = row.iter().sum::<f64>() / WIDTH as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
            for (x, weight) in row.iter().zip(&weight) {
                norm.push(((x - mean) / (variance + eps).sqrt() * f64::from(*weight)) as f32);
            }
            for (weights, bias) in matrix.chunks(WIDTH).zip(&bias) {
                let product: f64 = row.iter().zip(weights).map(|(x, weight)| x * f64::from(*weight)).sum();
                proj.push((product + if with_bias { f64::from(*bias) } else { 0.0 }) as f32);
            }
        }
        let mixed = norm.iter().zip(&proj).map(|(a, b)| a * b).collect();
        let half = norm.iter().map(|x| x / 2.0).collect();
        Self { doubled, norm, proj, mixed, half }
    }

    fn tensors(&self) -> Vec<Named> {
        let shape = || vec![ROWS, WIDTH];
        vec![
            ("doubled", shape(), self.doubled.clone()),
            ("norm", shape(), self.norm.clone()),
            ("proj", shape(), self.proj.clone()),
            ("kept", shape(), self.proj.clone()),
            ("mixed", shape(), self.mixed.clone()),
            ("half", shape(), self.half.clone()),
        ]
    }
}

impl Folder {
    fn tensors(&self, file: &str, tensors: &[Named]) {
        let tensors: Vec<_> = tensors.iter().map(|(name, shape, x)| (*name, &shape[..], &x[..])).collect();
        self.shaped_safetensors(file, "", &tensors);
    }

    /// Writes the fixture set `set`, with goldens in their sequence, and its recipe.
    fn set(&self, goldens: &[Named], inputs: &[Named], weights: &[Named], recipe: &Value) {
        let mut entries = Vec::new();
        for (role, tensors) in [("golden", goldens), ("input", inputs), ("weight", weights)] {
            let file = format!("{role}s.safetensors");
            for (sequence, (name, shape, _)) in tensors.iter().enumerate() {
                let mut entry = json!({"name": name, "role": role, "file": file, "dtype": "float32", "shape": shape,
                    "sha256": "0".repeat(64)});
                if role == "golden" {
                    entry["sequence"] = json!(sequence);
                }
                entries.push(entry);
            }
            if !tensors.is_empty() {
                self.tensors(&format!("set/{file}"), tensors);
            }
        }
        let recipe = recipe.to_string();
        let sha256: String =
            Sha256::digest(recipe.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let manifest = json!({"format": 1, "made_by": {"key": "0".repeat(64), "script": "block.py"},
            "recipes": {"file": "recipes.json", "sha256": sha256}, "tensors": entries});
        fs::write(self.path("set/recipes.json"), recipe).unwrap();
        fs::write(self.path("set/manifest.json"), manifest.to_string()).unwrap();
    }

    /// Writes the fixture set of the block.
    fn block(&self) {
        self.block_from(json!(["mul", [0, [2.0]], {}, 0, 9]));
    }

    /// Writes the fixture set of the block, with the node that makes `doubled`.
    fn block_from(&self, doubled: Value) {
        let recipe = json!({"format": 1, "sources": ["model/block.py"], "nodes": [
            ["input", [], {"name": "x"}],
            doubled,
            ["weight", [], {"name": "norm.weight"}],
            ["layer_norm", [1, 2, null], {"rank": 1, "eps": EPS}, 0, 12],
            ["weight", [], {"name": "proj.weight"}],
            ["weight", [], {"name": "proj.bias"}],
            ["linear", [1, 4, 5], {}, 0, 20],
            ["mul", [3, 6], {}, 0, 31],
            ["mul", [3, [0.5]], {}, 0, 35]
        ], "goldens": {"doubled": 1, "norm": 3, "proj": 6, "kept": 6, "mixed": 7, "half": 8}, "missing": {}});
        let x = ("x", vec![ROWS, WIDTH], input());
        self.set(&Block::reference().tensors(), &[x], &weights(), &recipe);
    }

    fn records(&self) -> Vec<Record> {
        let lines = fs::read_to_string(self.path("out.jsonl")).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Expects causes at these lines of the reference, by tensor.
#[track_caller]
fn check_places(records: &[Record], expected: &[(&str, &str)]) {
    let causes = records.iter().flat_map(|record| record.causes.iter().map(move |cause| (record, cause)));
    let found: Vec<(&str, &str)> = causes
        .map(|(record, cause)| (record.checkpoint.as_str(), cause.place.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(found, expected);
}

const EPS_CAUSE: &str =
    "the tensor in B is the reference's with eps 1e-5 in place of 1e-6 in `layer_norm` (model/block.py:12)";
const BIAS_CAUSE: &str =
    "the tensor in B is the reference's with `proj.bias` left out of `linear` (model/block.py:20)";

#[test]
fn every_difference_on_agreeing_inputs_has_its_own_cause() {
    let folder = Folder::new();
    folder.block();
    folder.tensors("b.safetensors", &Block::of(WRONG_EPS, false).tensors());
    let text = check(
        folder.diff(&["set", "b.safetensors", "--json", "out.jsonl"]),
        1,
        &[
            "<- first divergence, last green: doubled\n",
            &format!("\nnorm: value differs\n  cause    {EPS_CAUSE} (reversing this removes "),
            &format!(
                "\n\nproj: value differs, but its inputs agree\n  cause    {BIAS_CAUSE} (reversing this removes "
            ),
            "\n\n1 agree, 5 differ, 0 only in A, 0 only in B\n",
        ],
    );
    let marked: Vec<&str> = text.lines().filter(|line| line.ends_with("<- its inputs agree")).collect();
    assert!(matches!(&marked[..], [line] if line.starts_with("  value     proj ")), "{text}");
    check_places(&folder.records(), &[("norm", "model/block.py:12"), ("proj", "model/block.py:20")]);
}

#[test]
fn a_difference_that_follows_from_another_has_no_cause() {
    let folder = Folder::new();
    folder.block();
    folder.tensors("b.safetensors", &Block::of(WRONG_EPS, true).tensors());
    let text = check(
        folder.diff(&["set", "b.safetensors", "--json", "out.jsonl"]),
        1,
        &[EPS_CAUSE, "  value     mixed ", "  value     half ", "3 agree, 3 differ"],
    );
    assert!(!text.contains("inputs agree"), "{text}");
    check_places(&folder.records(), &[("norm", "model/block.py:12")]);
}

/// What B lacks is replayed, so the cause is found in the tensor that shows it.
#[test]
fn a_stage_that_b_lacks_is_part_of_the_next_one() {
    let folder = Folder::new();
    folder.block();
    let diff = |block: Block, lacks: &[&str]| {
        let tensors = block.tensors().into_iter().filter(|(name, ..)| !lacks.contains(name));
        folder.tensors("b.safetensors", &tensors.collect::<Vec<Named>>());
        check(folder.diff(&["set", "b.safetensors", "--ignore-extra", "--json", "out.jsonl"]), 1, &[])
    };
    let same = "\nhalf: value differs, but its inputs agree\n  cause    the same as for `mixed`\n";
    let text = diff(Block::of(WRONG_EPS, true), &["norm"]);
    prints(&text, &["\nmixed: value differs\n", EPS_CAUSE, same]);
    check_places(&folder.records(), &[("mixed", "model/block.py:12"), ("half", "model/block.py:12")]);
    // Here `mixed` has the error of `proj` too.
    let half = "\nhalf: value differs, but its inputs agree\n";
    let text = diff(Block::of(WRONG_EPS, false), &["norm"]);
    prints(&text, &["\nproj: value differs\n", BIAS_CAUSE, half, EPS_CAUSE]);
    check_places(&folder.records(), &[("proj", "model/block.py:20"), ("half", "model/block.py:12")]);
    // The mistake may be several stages before the only tensor that B has.
    diff(Block::scaled(3.0, EPS, true), &["doubled", "norm", "proj", "kept", "half"]);
    check_places(&folder.records(), &[("mixed", "model/block.py:9")]);
}

#[test]
fn a_replay_starts_at_tensors_that_agree() {
    let folder = Folder::new();
    folder.block_from(json!(["unknown", [], {"why": "a table that recipes do not know"}]));
    let tensors = Block::of(WRONG_EPS, false).tensors();
    folder.tensors("b.safetensors", &tensors);
    check(folder.diff(&["set", "b.safetensors"]), 1, &[EPS_CAUSE, BIAS_CAUSE]);
    // Without that tensor, nothing shows what the others are computed from.
    folder.tensors("b.safetensors", &tensors[1..]);
    let text = check(folder.diff(&["set", "b.safetensors", "--ignore-extra"]), 1, &["0 agree, 5 differ"]);
    assert!(!text.contains("inputs agree") && !text.contains(".py"), "{text}");
}

#[test]
fn a_recipe_that_cannot_be_read_is_one_note() {
    let folder = Folder::new();
    folder.block();
    let recipe = fs::read_to_string(folder.path("set/recipes.json")).unwrap();
    fs::write(folder.path("set/recipes.json"), recipe.replace("block.py", "other.py")).unwrap();
    folder.tensors("green.safetensors", &Block::reference().tensors());
    let (code, text) = ended(folder.diff(&["set", "green.safetensors"]));
    assert_eq!((code, text.contains("recipe")), (0, false), "{text}");

    folder.tensors("b.safetensors", &Block::of(WRONG_EPS, false).tensors());
    let check_note = |problem: &str| {
        let output = folder.diff(&["set", "b.safetensors", "--json", "out.jsonl"]);
        let note = String::from_utf8(output.stderr.clone()).unwrap();
        let words = "causes are searched without the recipe: ";
        assert!(note.starts_with(words) && note.contains(problem) && note.lines().count() == 1, "{note}");
        let text = check(output, 1, &["\nnorm: value differs\n", "\n\n1 agree, 5 differ"]);
        assert!(!text.contains("inputs agree") && !text.contains(".py"), "{text}");
        // As without a recipe, only the first is diagnosed.
        let records = folder.records();
        assert!(records.iter().all(|record| record.recipe == RecipeUse::None));
        assert!(records[2..].iter().all(|record| record.causes.is_empty() && record.facts.is_empty()));
    };
    check_note("recipes.json` has SHA-256 ");
    fs::remove_file(folder.path("set/recipes.json")).unwrap();
    check_note("recipes.json` is missing");
    folder.set(&Block::reference().tensors(), &[], &[], &json!({"format": 2}));
    check_note("its format is 2");
}

#[test]
fn a_recipe_takes_the_layout_of_b_and_no_cast() {
    let folder = Folder::new();
    folder.block();
    let mut tensors = Block::of(WRONG_EPS, false).tensors();
    folder.tensors("b.safetensors", &tensors);
    let cast = ["set", "b.safetensors", "--json", "out.jsonl", "--cast"];
    check(folder.diff(&[&cast[..], &["float32"]].concat()), 1, &[EPS_CAUSE, BIAS_CAUSE]);
    let text = check(folder.diff(&[&cast[..], &["float64"]].concat()), 1, &["norm: value differs"]);
    assert!(!text.contains("block.py") && !text.contains("inputs agree"), "{text}");
    assert!(folder.records().iter().all(|record| record.recipe == RecipeUse::None));

    for (_, shape, values) in &mut tensors {
        let columns = (0..WIDTH).flat_map(|column| values[column..].iter().step_by(WIDTH).copied());
        (*shape, *values) = (vec![WIDTH, ROWS], columns.collect());
    }
    folder.tensors("turned.safetensors", &tensors);
    let sides = ["set", "turned.safetensors", "--layout", "a b -> b a"];
    check(folder.diff(&sides), 1, &[EPS_CAUSE, BIAS_CAUSE, "1 agree, 5 differ"]);
}

#[test]
fn only_some_differences_are_searched() {
    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let folder = Folder::new();
    // Large enough to show that the last search has what the first ones did not use of the budget.
    let x = numbers(64 * 64, 1.0, 0.3);
    let scaled = |by: f32| -> Vec<Named> {
        let of = |at: usize| x.iter().map(|x| by * x * (at + 2) as f32).collect();
        NAMES.iter().enumerate().map(|(at, name)| (*name, vec![64, 64], of(at))).collect()
    };
    let mut nodes = vec![json!(["input", [], {"name": "x"}])];
    nodes.extend((0..NAMES.len()).map(|at| json!(["mul", [0, [at + 2]], {}, 0, at + 1])));
    let goldens: serde_json::Map<String, Value> =
        NAMES.iter().enumerate().map(|(at, name)| ((*name).to_owned(), json!(at + 1))).collect();
    let recipe = json!({"format": 1, "sources": ["model/scales.py"], "nodes": nodes, "goldens": goldens, "missing": {}});
    folder.set(&scaled(1.0), &[("x", vec![64, 64], x.clone())], &[], &recipe);
    folder.tensors("b.safetensors", &scaled(3.0));
    let text = check(
        folder.diff(&["set", "b.safetensors", "--json", "out.jsonl"]),
        1,
        &["\n2 more differences on agreeing inputs; causes were searched for the first 8 only\n"],
    );
    assert_eq!(text.matches("<- its inputs agree").count(), 9, "{text}");
    let searched = folder.records().iter().filter(|record| record.recipe == RecipeUse::Replayed).count();
    assert_eq!(searched, 8);
    assert!(!text.contains("cut short"), "{text}");
    assert!(text.lines().count() <= 50, "{text}");
}
