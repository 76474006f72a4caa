//! The check behind the trial `parity::smoke`: MLX computes on this machine, and the harness sees what it computes.

use std::cell::RefCell;
use std::panic::Location;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use mlx_parity_tap::{Driver, drive, scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::{Array, Device, DeviceType, Dtype, ops};
use serde::{Deserialize, Serialize};

use super::array::{mlx_message, to_host};
use super::end_process::end_with_parent;
use mlx_parity_core::compare::compare;
use mlx_parity_core::gate::{Class, Gate, Rule};
use mlx_parity_core::run_folder::Folder;
use mlx_parity_core::tensor::{self, Tensor, TensorView};
use mlx_parity_core::text::error_chain;

/// The name of the file with the result.
pub(crate) const SMOKE_FILE: &str = "smoke.json";

/// The result of the check.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Smoke {
    /// What is wrong; `None` if nothing is.
    pub(crate) problem: Option<String>,
}

/// Checks MLX and the harness, and writes the result into `folder`.
pub(crate) fn smoke(folder: &Path) -> ExitCode {
    end_with_parent();
    let problem = check().err();
    match Folder::at(folder.to_owned()).write_json(SMOKE_FILE, &Smoke { problem }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Computes a few numbers that are known, through a tap, and compares them as checkpoints are compared.
fn check() -> Result<(), String> {
    let mlx = |error: Exception| mlx_message(error.what());
    // The first call into MLX must install mlx-rs's error handler, because MLX's own handler ends the process.
    let device = Device::try_default().and_then(|device| device.get_type()).map_err(mlx)?;
    let device = match device {
        DeviceType::Cpu => "cpu",
        DeviceType::Gpu => "gpu",
    };
    for (name, expected, shape, made) in cases().map_err(mlx)? {
        let seen = tapped(name, &made)?;
        let golden = host(&expected, shape)?;
        if let Some(found) = differs(&golden.view(), &seen.view()) {
            return Err(format!("MLX computes a wrong `{name}` on device {device}: {found}"));
        }
        // A comparison that lets everything pass would make every port green.
        let mut wrong = expected.clone();
        wrong[0] += 0.5;
        if compare(&host(&wrong, shape)?.view(), &seen.view(), &rule()).class != Some(Class::Value) {
            return Err(format!(
                "the comparison does not notice a wrong element of `{name}`; please report this"
            ));
        }
    }
    Ok(())
}

type Case = (&'static str, Vec<f32>, &'static [usize], Array);

/// Name, expected elements and shape of a few small results. All of them have the dtype float32.
fn cases() -> Result<Vec<Case>, Exception> {
    let a = Array::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let b = Array::from_slice(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0], &[3, 2]);
    let product = a.matmul(&b)?;
    let logits = Array::from_slice(&[0f32, 2f32.ln(), 3f32.ln()], &[1, 3]);
    let third = Array::from_f32(1.0 / 3.0).as_dtype(Dtype::Bfloat16)?.as_dtype(Dtype::Float32)?;
    Ok(vec![
        ("matmul", vec![4.0, 5.0, 10.0, 11.0], &[2, 2], product.clone()),
        ("transpose", vec![4.0, 10.0, 5.0, 11.0], &[2, 2], product.transpose()?),
        ("softmax", vec![1.0 / 6.0, 1.0 / 3.0, 0.5], &[1, 3], ops::softmax_axis(&logits, -1, None)?),
        ("bfloat16", vec![171.0 / 512.0], &[], third),
    ])
}

fn rule() -> Rule {
    Rule { gate: Some(Gate::Tolerance { rtol: 1e-6, atol: 1e-6, policy: None }), ..Rule::default() }
}

/// Why the actual differs; `None` if it does not.
fn differs(expected: &TensorView<'_>, actual: &TensorView<'_>) -> Option<String> {
    let outcome = compare(expected, actual, &rule());
    outcome.class.map(|class| format!("{class}: {}", outcome.detail))
}

/// A host tensor of float32.
fn host(values: &[f32], shape: &[usize]) -> Result<Tensor, String> {
    let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    Tensor::from_vec(tensor::Dtype::Float32, shape.to_vec(), bytes).map_err(|error| error.to_string())
}

/// The arrays that reached the driver, by the names of their taps.
type Seen = Rc<RefCell<Vec<(String, Array)>>>;

struct Collector(Seen);

impl Driver for Collector {
    fn tap(&mut self, name: &str, array: Array, _: &'static Location<'static>) -> Result<Array, Exception> {
        self.0.borrow_mut().push((name.to_owned(), array.clone()));
        Ok(array)
    }
}

/// Returns what a driver sees when a port taps `array`.
fn tapped(name: &str, array: &Array) -> Result<Tensor, String> {
    let seen = Seen::default();
    let (result, _) = drive(Box::new(Collector(Rc::clone(&seen))), || {
        let _scope = scope("smoke", None);
        tap(name, array.clone())
    });
    result.map_err(|error| mlx_message(error.what()))?;
    match &seen.borrow()[..] {
        [(full, array)] if *full == format!("smoke.{name}") => {
            to_host(array).map_err(|error| error.to_string())
        }
        other => Err(format!("one tap reached the driver {} times; please report this", other.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mlx_computes_here() {
        check().unwrap();
    }

    #[test]
    fn a_wrong_element_is_reported_with_its_place() {
        let (golden, wrong) = (host(&[1.0, 2.0], &[2]).unwrap(), host(&[1.0, 2.5], &[2]).unwrap());
        assert!(differs(&golden.view(), &golden.view()).is_none());
        let text = differs(&golden.view(), &wrong.view()).unwrap();
        assert!(text.starts_with("value: "), "{text}");
    }
}
