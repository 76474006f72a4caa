//! Every golden with a recipe is reproduced from the goldens before it, and from inputs and weights alone.

use std::collections::BTreeSet;
use std::path::Path;

use mlx_parity_core::gate::Floor;
use mlx_parity_core::golden::{FixtureSet, Golden, Role, TensorEntry};
use mlx_parity_core::recipe::Recipe;
use mlx_parity_core::replay::{Array, Replay, ReplayError, SetLeaves, Work};
use mlx_parity_core::tensor::{Dtype, Tensor};
use mlx_parity_core::text::error_chain;
use walkdir::WalkDir;

use crate::repository;

/// How many multiples of its floor a golden may be away.
const NOISE: f64 = 8.0;

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn recipes_reproduce_the_committed_goldens() {
    let root = repository().join("fixtures");
    let manifests = WalkDir::new(&root).into_iter().filter_map(Result::ok);
    let manifests = manifests.filter(|entry| entry.file_name() == "manifest.json");
    let mut problems = Vec::new();
    for manifest in manifests {
        let folder = manifest.path().parent().unwrap().strip_prefix(&root).unwrap();
        let name = folder.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        problems.extend(check_set(&root, &name));
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// One line per golden that its recipe does not reproduce.
fn check_set(root: &Path, name: &str) -> Vec<String> {
    let set = FixtureSet::open(root, name).unwrap();
    let Some(recipe) = set.recipe().unwrap() else { return Vec::new() };
    let mut goldens: Vec<&TensorEntry> = set.entries(Role::Golden).collect();
    goldens.sort_by_key(|entry| entry.sequence);
    let mut problems = Vec::new();
    let mut before = BTreeSet::new();
    let leaves = SetLeaves { set: &set, recipe: &recipe };
    for entry in goldens {
        let Some(&node) = recipe.goldens.get(&entry.name) else { continue };
        let golden = set.golden(&entry.name).unwrap();
        for cut in [before.clone(), BTreeSet::new()] {
            let start = if cut.is_empty() { "inputs" } else { "goldens" };
            let problem = match replay(&recipe, node, cut, &leaves) {
                Ok(found) => difference(&golden, &found),
                Err(error) if is_unknown(&error) => None,
                Err(error) => Some(error_chain(&error)),
            };
            let place = recipe.place(node).unwrap_or_default();
            let name = format!("{name}::{}", entry.name);
            problems.extend(problem.map(|problem| format!("{name} ({place}) from {start}: {problem}")));
        }
        before.insert(node);
    }
    problems
}

fn replay(
    recipe: &Recipe,
    node: usize,
    cut: BTreeSet<usize>,
    leaves: &SetLeaves<'_>,
) -> Result<Array, ReplayError> {
    // Known nodes that come later would make the target its own input.
    let cut = cut.into_iter().filter(|&known| known < node).collect();
    let work = Work::new(1 << 40, 1 << 32);
    Replay::new(recipe, node, cut, leaves, &work)?.target()
}

/// Whether recipes cannot describe a value, as they say themselves.
fn is_unknown(error: &ReplayError) -> bool {
    match error {
        ReplayError::Unknown { .. } => true,
        ReplayError::Node { source, .. } => is_unknown(source),
        _ => false,
    }
}

/// In which way a value is not the golden.
fn difference(golden: &Golden, found: &Array) -> Option<String> {
    let view = golden.tensor.view();
    if view.shape() != found.shape() {
        return Some(format!("shape {:?}, expected {:?}", found.shape(), view.shape()));
    }
    let expected = Array::of(&view, &Work::new(u64::MAX, u64::MAX)).unwrap();
    let differs = |x: f64, y: f64| !(x.is_finite() && y.is_finite() || x == y || x.is_nan() && y.is_nan());
    let pairs = || expected.values().iter().zip(found.values());
    let odd = pairs().filter(|(x, y)| differs(**x, **y)).count();
    if odd > 0 {
        return Some(format!("{odd} elements are finite in one of them only"));
    }
    if !view.dtype().is_float() && view.dtype() != Dtype::Complex64 {
        return pairs().any(|(x, y)| x != y).then(|| format!("another {}", view.dtype()));
    }
    let mut shape = found.shape().to_vec();
    shape.extend(found.is_complex().then_some(2));
    let bytes = found.values().iter().flat_map(|x| x.to_ne_bytes()).collect();
    let truth = Tensor::from_vec(Dtype::Float64, shape, bytes).unwrap();
    let Some(distance) = Floor::between(&view, &truth.view()) else {
        return Some("the golden is complex, or the value is".to_owned());
    };
    let floor = golden.floor.unwrap_or(Floor { max: 0.0, rms: 0.0 });
    let times = distance.over(&floor.unit(&view));
    (times > NOISE).then(|| format!("{times:.1} x the floor, at most {:.3e} off", distance.max))
}

#[test]
fn a_golden_that_is_not_reproduced_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let check = |golden: [f32; 2], recipe: &str| {
        write_set(&home.path().join("m/c"), golden, recipe);
        check_set(home.path(), "m/c")
    };
    let doubled = r#"{"format":1,"sources":["m.py"],"goldens":{"out":1},"missing":{},"nodes":[
        ["input",[],{"name":"x"}],["mul",[0,[2]],{},0,7]]}"#;
    assert_eq!(check([2.0, 4.0], doubled), [""; 0]);
    let problems = check([2.0, 4.5], doubled);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("m/c::out (m.py:7) from inputs: "), "{problems:?}");
    assert!(problems[0].ends_with("x the floor, at most 5.000e-1 off"), "{problems:?}");
    let wrong = doubled.replace("[\"mul\",[0,[2]],{},0,7]", "[\"sum\",[0],{\"axes\":[0],\"keep\":false}]");
    assert!(check([2.0, 4.0], &wrong)[0].ends_with("shape [], expected [2]"));
}

/// A set with the input `x` = [1, 2] and one golden `out`.
fn write_set(folder: &Path, golden: [f32; 2], recipe: &str) {
    use mlx_parity_core::tensor::{TensorView, write_npy};
    use sha2::{Digest, Sha256};
    std::fs::create_dir_all(folder).unwrap();
    let hash =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut entries = Vec::new();
    for (name, role, values) in [("out", "golden", golden), ("x", "input", [1.0, 2.0])] {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::Float32, &[2], &bytes).unwrap();
        let file = format!("{name}.npy");
        write_npy(folder.join(&file), &view).unwrap();
        let mut entry = serde_json::json!({
            "name": name, "role": role, "file": file, "dtype": "float32", "shape": [2], "sha256": hash(&bytes)
        });
        if role == "golden" {
            entry["sequence"] = 0.into();
        }
        entries.push(entry);
    }
    std::fs::write(folder.join("recipes.json"), recipe).unwrap();
    let manifest = serde_json::json!({
        "format": 1,
        "made_by": {"key": "0".repeat(64), "script": "x.py"},
        "recipes": {"file": "recipes.json", "sha256": hash(recipe.as_bytes())},
        "tensors": entries
    });
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
}
