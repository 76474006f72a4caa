//! The time of a diagnosis for a large tensor among large tensors.
//!
//! The worst case is an error that nothing explains, since every explanation is tried. The target is two seconds for a tensor
//! of 64 MiB. A larger one is sampled and should take no longer.

use std::time::Instant;

use mlx_parity_core::diagnose::{Budget, FailingCheckpoint, KnownTensor, KnownTensors, diagnose};
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::tensor::{Dtype, Tensor};

const MIB: usize = 1 << 20;
/// Channels of the tensors.
const WIDTH: usize = 4096;

/// Earlier tensors of the same shape, and the weight of a layer.
struct Surroundings {
    before: Vec<KnownTensor>,
    weights: Vec<KnownTensor>,
    tensors: Vec<(String, Tensor)>,
}

impl KnownTensors for Surroundings {
    fn before(&self) -> &[KnownTensor] {
        &self.before
    }

    fn after(&self) -> &[KnownTensor] {
        &[]
    }

    fn weights(&self) -> &[KnownTensor] {
        &self.weights
    }

    fn tensor(&self, other: &KnownTensor) -> Option<Tensor> {
        self.tensors.iter().find(|(name, _)| *name == other.name).map(|(_, tensor)| tensor.clone())
    }
}

fn main() {
    for (dtype, size) in
        [(Dtype::Float32, 64 * MIB), (Dtype::Bfloat16, 64 * MIB), (Dtype::Float32, 1024 * MIB)]
    {
        let rows = size / dtype.size() / WIDTH;
        let shape = [1, rows, WIDTH];
        let (golden, other) = (made(dtype, &shape, 1), made(dtype, &shape, 2));
        let mut surroundings = Surroundings { before: Vec::new(), weights: Vec::new(), tensors: Vec::new() };
        for seed in 3..6 {
            let name = format!("before.{seed}");
            surroundings.before.push(KnownTensor { name: name.clone(), dtype, shape: shape.to_vec() });
            surroundings.tensors.push((name, made(dtype, &shape, seed)));
        }
        let square = [WIDTH, WIDTH];
        surroundings.weights.push(KnownTensor { name: "weight".into(), dtype, shape: square.to_vec() });
        surroundings.tensors.push(("weight".into(), made(dtype, &square, 9)));
        let eps = dtype.epsilon().unwrap_or(0.0);
        let rule = Rule {
            gate: Some(Gate::Noise { k: 8.0 }),
            floor: Some(Floor { max: 4.0 * eps, rms: 0.5 * eps }),
            ..Rule::default()
        };
        for (what, actual) in [("nothing explains", &other), ("one factor explains", &times(&golden))] {
            let checkpoint = FailingCheckpoint {
                name: "out",
                stage: None,
                expected: golden.view(),
                actual: actual.view(),
                rule: &rule,
                known: &surroundings,
                recipe: None,
                budget: &Budget::of_a_run(),
            };
            let start = Instant::now();
            let causes = diagnose(&checkpoint).causes;
            let kinds: Vec<&str> = causes.iter().map(|cause| cause.kind.name()).collect();
            println!(
                "{dtype} {:4} MiB, {what}: {:.2} s, {kinds:?}",
                size / MIB,
                start.elapsed().as_secs_f64()
            );
        }
    }
}

/// Makes about normal numbers, the same in every run, with an unusual scale.
fn made(dtype: Dtype, shape: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let count: usize = shape.iter().product();
    let mut bytes = Vec::with_capacity(count * dtype.size());
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let x = ((state >> 40) as f32 / (1u32 << 24) as f32 - 0.5) * 2.6
            + ((state >> 20) as u16 as f32 / 65536.0);
        put(dtype, x, &mut bytes);
    }
    tensor(dtype, shape, bytes)
}

fn put(dtype: Dtype, x: f32, bytes: &mut Vec<u8>) {
    match dtype {
        Dtype::Bfloat16 => bytes.extend_from_slice(&half::bf16::from_f32(x).to_le_bytes()),
        _ => bytes.extend_from_slice(&x.to_le_bytes()),
    }
}

fn times(golden: &Tensor) -> Tensor {
    let view = golden.view();
    let mut bytes = vec![0; view.len() * view.dtype().size()];
    view.gather(0, &mut bytes);
    let mut out = Vec::with_capacity(bytes.len());
    match view.dtype() {
        Dtype::Bfloat16 => bytes
            .as_chunks::<2>()
            .0
            .iter()
            .for_each(|b| put(Dtype::Bfloat16, half::bf16::from_le_bytes(*b).to_f32() * 2.0, &mut out)),
        dtype => {
            bytes.as_chunks::<4>().0.iter().for_each(|b| put(dtype, f32::from_le_bytes(*b) * 2.0, &mut out))
        }
    }
    tensor(view.dtype(), view.shape(), out)
}

fn tensor(dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Tensor {
    match Tensor::from_vec(dtype, shape.to_vec(), bytes) {
        Ok(tensor) => tensor,
        Err(error) => unreachable!("as many bytes as the shape has: {error}"),
    }
}
