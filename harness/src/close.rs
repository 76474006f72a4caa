//! Compares one array with one tensor file, without a spec or a fixture set.

use std::fmt;
use std::path::{Path, PathBuf};

use mlx_rs::Array;
use thiserror::Error;

use crate::worker::{ArrayError, to_host};
use mlx_parity_core::compare::compare;
use mlx_parity_core::diagnose::{Budget, FailingCheckpoint, NoKnownTensors, diagnose};
use mlx_parity_core::gate::{Gate, Rule};
use mlx_parity_core::record::{Record, TensorInfo};
use mlx_parity_core::report::{Known, Pair, pair_failure};
use mlx_parity_core::spec::{POLICIES, Policies, SpecError};
use mlx_parity_core::tensor::{TensorError, TensorFile, TensorView};
use mlx_parity_core::text::error_chain;

/// Tolerances for projects without `parity-specs/policies.yaml`: name, rtol and atol.
const STANDARD: [(&str, f64, f64); 4] =
    [("exact", 0.0, 0.0), ("fp32", 1e-5, 1e-5), ("fp16", 1e-2, 1e-2), ("bf16", 1e-2, 1e-2)];

/// Why an array is not close to a tensor, or could not be compared with it.
///
/// Its `Debug` text is its `Display` text, because a test that returns an error prints the former.
#[derive(Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The array differs. The text is that of a failing checkpoint.
    #[error("{0}")]
    Differs(String),
    /// The file cannot be read, or has no such tensor.
    #[error("{}", error_chain(.0))]
    File(#[from] TensorError),
    /// The file has more than one tensor, or none.
    #[error("`{path}` has {} tensors; name one of them: `{path}::NAME`{}", .names.len(), listed(.names))]
    Which {
        /// The file.
        path: PathBuf,
        /// The names of its tensors.
        names: Vec<String>,
    },
    /// There is no such policy.
    #[error(
        "the policy `{name}` does not exist; allowed are {allowed}, or a pair `RTOL,ATOL` such as `1e-5,1e-6`"
    )]
    Policy {
        /// The name that was given.
        name: String,
        /// The names that exist, and where they come from.
        allowed: String,
    },
    /// `policies.yaml` is wrong.
    #[error("{}", .0.render(false))]
    Policies(Box<SpecError>),
    /// MLX could not compute the array.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

impl fmt::Debug for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn listed(names: &[String]) -> String {
    let some: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
    if some.is_empty() {
        String::new()
    } else {
        format!(" (it has {}{})", some.join(", "), if names.len() > 8 { ", …" } else { "" })
    }
}

/// Compares an array with the tensor in a file, as a checkpoint is compared with its golden: shape, dtype, finiteness, values.
///
/// `golden` is a `.npy` file, or an `.npz` or `.safetensors` file with one tensor. `FILE::NAME` selects a tensor of a file with
/// several. A relative path starts at the current folder, which is the package's folder in a test.
///
/// `policy` is a name from `parity-specs/policies.yaml` in the current folder or the nearest folder above that has this file.
/// Without such a file, it is `exact`, `fp32` (rtol and atol 1e-5), `fp16` or `bf16` (both 1e-2). It can also be a pair
/// `RTOL,ATOL`.
///
/// ```no_run
/// # fn forward() -> mlx_rs::Array { mlx_rs::Array::from_f32(0.0) }
/// #[test]
/// fn the_block_is_right() -> Result<(), mlx_parity::CloseError> {
///     let out = forward();
///     mlx_parity::assert_close("tests/data/block.npy", &out, "bf16")
/// }
/// ```
///
/// # Errors
///
/// When the array differs, or cannot be compared: the file cannot be read, or the policy does not exist.
pub fn assert_close(golden: impl AsRef<Path>, actual: &Array, policy: &str) -> Result<(), CloseError> {
    let here = std::env::current_dir().unwrap_or_default();
    let gate = gate(policy, &here)?;
    let (path, name) = file_and_name(golden.as_ref());
    let file = TensorFile::open(&path)?;
    let name = match name {
        Some(name) => name,
        None => {
            let mut names: Vec<String> = file.names().map(str::to_owned).collect();
            match (names.pop(), names.is_empty()) {
                (Some(only), true) => only,
                (last, _) => {
                    return Err(CloseError::Which { path, names: names.into_iter().chain(last).collect() });
                }
            }
        }
    };
    let (expected, actual) = (file.get(&name)?, to_host(actual)?);
    differences(&name, &expected.view(), &actual.view(), gate)
        .map_or(Ok(()), |text| Err(CloseError::Differs(text)))
}

/// The text of a failure, with what can be told about its cause from the values alone.
fn differences(name: &str, expected: &TensorView, actual: &TensorView, gate: Gate) -> Option<String> {
    let rule = Rule { gate: Some(gate), ..Rule::default() };
    let outcome = compare(expected, actual, &rule);
    outcome.class?;
    let diagnosis = diagnose(&FailingCheckpoint {
        name,
        stage: None,
        expected: expected.clone(),
        actual: actual.clone(),
        rule: &rule,
        known: &NoKnownTensors,
        recipe: None,
        budget: &Budget::of_a_run(),
    });
    let info = |view: &TensorView| Some(TensorInfo { dtype: view.dtype(), shape: view.shape().to_vec() });
    let record = Record {
        expected: info(expected),
        actual: info(actual),
        gate: rule.gate.clone(),
        causes: diagnosis.causes,
        facts: diagnosis.facts,
        ..Record::new("", name, outcome, true)
    };
    Some(pair_failure(&Pair { record, actual: name.to_owned(), known: Known::Name, inputs_agree: false }))
}

/// Splits `FILE::NAME`. A path that exists as it is has no name in it.
fn file_and_name(golden: &Path) -> (PathBuf, Option<String>) {
    let split = golden.to_str().filter(|_| !golden.exists()).and_then(|text| text.split_once("::"));
    match split {
        Some((path, name)) => (PathBuf::from(path), Some(name.to_owned())),
        None => (golden.to_owned(), None),
    }
}

/// The tolerance that `policy` names, for a test in the folder `here`.
fn gate(policy: &str, here: &Path) -> Result<Gate, CloseError> {
    let tolerance =
        |rtol, atol, name: Option<&str>| Gate::Tolerance { rtol, atol, policy: name.map(str::to_owned) };
    let number = |text: &str| text.trim().parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
    if let Some((rtol, atol)) = policy.split_once(',')
        && let (Some(rtol), Some(atol)) = (number(rtol), number(atol))
    {
        return Ok(tolerance(rtol, atol, None));
    }
    let root =
        here.ancestors().map(|folder| folder.join("parity-specs")).find(|root| root.join(POLICIES).exists());
    let missing = |allowed: String| CloseError::Policy { name: policy.to_owned(), allowed };
    let Some(root) = root else {
        let found = STANDARD.iter().find(|(name, ..)| *name == policy);
        return found
            .map(|(name, rtol, atol)| tolerance(*rtol, *atol, Some(name)))
            .ok_or_else(|| missing(STANDARD.map(|(name, ..)| name).join(", ")));
    };
    let (policies, error) = Policies::load(&root);
    if let Some(error) = error {
        return Err(CloseError::Policies(Box::new(error)));
    }
    match policies.named.get(policy) {
        Some(found) => Ok(tolerance(found.rtol, found.atol, Some(policy))),
        None => {
            let names: Vec<&str> = policies.named.keys().map(String::as_str).collect();
            Err(missing(format!("those of `{}` ({})", policies.path.display(), names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::tensor::{Dtype, write_npy};

    fn saved(folder: &Path, values: &[f32]) -> PathBuf {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let path = folder.join("golden.npy");
        write_npy(&path, &TensorView::new(Dtype::Float32, &[values.len()], &bytes).unwrap()).unwrap();
        path
    }

    #[test]
    fn a_close_array_passes_and_another_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let values: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
        let path = saved(folder.path(), &values);
        let array = |values: &[f32]| Array::from_slice(values, &[values.len() as i32]);
        assert_close(&path, &array(&values), "exact").unwrap();
        assert_close(format!("{}::golden", path.display()), &array(&values), "1e-6,0").unwrap();
        let doubled: Vec<f32> = values.iter().map(|x| x * 2.0).collect();
        let text = format!("{:?}", assert_close(&path, &array(&doubled), "fp32").unwrap_err());
        assert!(text.starts_with("golden: value differs\n"), "{text}");
        assert!(
            text.contains("the golden times 2") && text.contains("  outside  63 of 64 elements"),
            "{text}"
        );
        let text = assert_close(&path, &array(&values[1..]), "fp32").unwrap_err().to_string();
        assert!(text.starts_with("golden: shape differs\n"), "{text}");
    }

    #[test]
    fn what_cannot_be_compared_is_an_error_that_says_what_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path(), &[1.0, 2.0, 3.0]);
        let array = Array::from_slice(&[1f32, 2.0, 3.0], &[3]);
        let says = |golden: &Path, policy: &str, words: &str| {
            let text = assert_close(golden, &array, policy).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        };
        says(&folder.path().join("none.npy"), "fp32", "none.npy");
        says(&folder.path().join("weights.pt"), "fp32", "weights.pt");
        says(&path, "fp31", "the policy `fp31` does not exist; allowed are");
        says(&path, "-1,0", "does not exist");
        says(Path::new(&format!("{}::other", path.display())), "fp32", "other");
    }

    #[test]
    fn a_project_without_policies_has_standard_ones() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(gate("bf16", folder.path()), Ok(Gate::Tolerance { rtol: 1e-2, atol: 1e-2, .. })));
        std::fs::create_dir(folder.path().join("parity-specs")).unwrap();
        std::fs::write(
            folder.path().join("parity-specs/policies.yaml"),
            "version: 1\npolicies:\n  mine: {rtol: 0.5, atol: 0, dtypes: [float32]}\n",
        )
        .unwrap();
        let inner = folder.path().join("crate");
        assert!(matches!(gate("mine", &inner), Ok(Gate::Tolerance { rtol: 0.5, .. })));
        assert!(gate("bf16", &inner).unwrap_err().to_string().contains("policies.yaml` (mine)"));
    }
}
