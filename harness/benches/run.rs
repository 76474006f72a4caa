//! Measures the cost of the harness: a tap without a driver, and 10,000 small checkpoints against a bare forward pass.
//!
//! The bare forward pass evaluates each tap's array and copies it to the host, as a port does that dumps its tensors by
//! hand. The suite also starts a worker, compares and records every checkpoint, and writes the reports. Both run in turn,
//! several times. The best time of each counts, and the last line prints their ratio.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot continue reports where")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use mlx_parity::Suite;
use mlx_parity_core::golden::{FORMAT, made_by_key};
use mlx_parity_tap::{scope, tap};
use mlx_rs::Array;
use mlx_rs::error::Exception;
use serde_json::json;
use sha2::{Digest, Sha256};

const CHECKPOINTS: usize = 10_000;
/// 1 KiB of float32.
const ELEMENTS: usize = 256;
const TURNS: usize = 5;
/// The environment variable that makes this program the suite. Its value is the project's root.
const PROJECT: &str = "BENCH_PROJECT";

fn main() -> ExitCode {
    if let Some(root) = std::env::var_os(PROJECT) {
        return Suite::new(root, "specs", "fixtures")
            .port("many", |_| Ok(forward(|_, x| tap("out", x)).map(drop)?))
            .main();
    }
    println!("tap without a driver: {:.2} ns", undriven());
    let project = tempfile::tempdir().unwrap();
    write_project(project.path());
    let (mut bare, mut harnessed) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        bare = bare.min(seconds(|| {
            let mut host = Vec::with_capacity(ELEMENTS);
            forward(|_, x| {
                host.clear();
                host.extend_from_slice(x.contiguous()?.try_as_slice::<f32>().unwrap());
                black_box(&host);
                Ok(x)
            })
            .unwrap();
        }));
        harnessed = harnessed.min(seconds(|| suite(project.path())));
    }
    println!("bare forward: {:.1} ms, {:.1} us per checkpoint", bare * 1e3, bare / CHECKPOINTS as f64 * 1e6);
    println!(
        "whole suite:  {:.1} ms, {:.1} us per checkpoint",
        harnessed * 1e3,
        harnessed / CHECKPOINTS as f64 * 1e6
    );
    println!("whole suite / bare forward: {:.2}", harnessed / bare);
    ExitCode::SUCCESS
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Returns the nanoseconds of one tap without a driver, in the fastest turn.
fn undriven() -> f64 {
    const TAPS: u32 = 20_000_000;
    let mut array = Array::from_f32(1.0);
    let mut best = f64::INFINITY;
    for _ in 0..TURNS {
        let mut held = Some(array);
        let time = seconds(|| {
            for _ in 0..TAPS {
                held = held.take().and_then(|array| tap(black_box("blocks.0.out"), array).ok());
            }
        });
        array = held.unwrap();
        best = best.min(time / f64::from(TAPS) * 1e9);
    }
    best
}

/// The port: a chain of small steps. Each step continues with the array that `visit` returns.
fn forward(mut visit: impl FnMut(usize, Array) -> Result<Array, Exception>) -> Result<Array, Exception> {
    let start: Vec<f32> = (0..ELEMENTS).map(|i| i as f32 / ELEMENTS as f32 - 0.5).collect();
    let mut x = Array::from_slice(&start, &[i32::try_from(ELEMENTS).unwrap()]);
    let (scale, shift) = (Array::from_f32(0.999), Array::from_f32(0.001));
    for step in 0..CHECKPOINTS {
        let _scope = scope("step", step);
        x = visit(step, x.multiply(&scale)?.add(&shift)?)?;
    }
    Ok(x)
}

/// Runs the suite in its own process, as `cargo test` does.
fn suite(project: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PROJECT, project).env("CARGO_MANIFEST_DIR", project).arg("--quiet").stdout(Stdio::piped());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Writes a project whose goldens are the port's own results, so every checkpoint passes after the full work.
fn write_project(root: &Path) {
    let script = b"# a benchmark";
    let folder = root.join("fixtures/many/steps");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(root.join("specs/many")).unwrap();
    std::fs::create_dir_all(root.join("tests/snapshots")).unwrap();
    std::fs::write(root.join("script.py"), script).unwrap();
    let mut spec = String::new();
    write!(
        spec,
        "version: 1\nport: many\nreference: {{script: script.py}}\ncheckpoints:\n  \
         - {{name: \"step.{{i}}.out\", for: {{i: 0..{CHECKPOINTS}}}, dtype: float32, rtol: 1e-5, atol: 1e-5, why: a benchmark}}\n"
    )
    .unwrap();
    std::fs::write(root.join("specs/many/steps.yaml"), spec).unwrap();
    let (mut header, mut data, mut tensors) = (serde_json::Map::new(), Vec::new(), Vec::new());
    forward(|step, x| {
        let name = format!("step.{step}.out");
        let bytes: Vec<u8> =
            x.try_as_slice::<f32>().unwrap().iter().flat_map(|value| value.to_le_bytes()).collect();
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(name.clone(), json!({"dtype": "F32", "shape": [ELEMENTS], "data_offsets": offsets}));
        let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        tensors.push(json!({
            "name": name, "role": "golden", "file": "goldens.safetensors", "dtype": "float32",
            "shape": [ELEMENTS], "sha256": sha256, "sequence": step,
        }));
        data.extend(bytes);
        Ok(x)
    })
    .unwrap();
    let header = serde_json::to_vec(&header).unwrap();
    let file = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    std::fs::write(folder.join("goldens.safetensors"), file).unwrap();
    let key = made_by_key(&json!({"script": "script.py"}), script);
    let manifest = json!({
        "format": FORMAT, "made_by": {"script": "script.py", "key": key},
        "tensors": tensors,
    });
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    // The first run finds no snapshot, and accepts a new one.
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PROJECT, root).env("INSTA_UPDATE", "always").env_remove("CI").arg("--quiet");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
