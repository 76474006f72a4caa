//! Looking for a cause takes less than four times the tensor and a known amount of work, also when nothing explains it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mlx_parity::compare::{Floor, Gate, Rule};
use mlx_parity::diagnose::{Budget, Other, Others, Scene, diagnose};
use mlx_parity::tensor::{Dtype, Tensor};

const MIB: usize = 1 << 20;
const SIZE: usize = 64 * MIB;
const SHAPE: [usize; 3] = [4, 4096, 1024];

/// The same tensor under several names before, and a layer's weight.
struct Around(Tensor, Vec<Other>, Tensor, Vec<Other>);

impl Others for Around {
    fn before(&self) -> &[Other] {
        &self.1
    }

    fn after(&self) -> &[Other] {
        &[]
    }

    fn weights(&self) -> &[Other] {
        &self.3
    }

    fn tensor(&self, other: &Other) -> Option<Tensor> {
        Some(if other.shape == SHAPE { self.0.clone() } else { self.2.clone() })
    }
}

fn made(shape: &[usize], seed: u32) -> Tensor {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(shape.iter().product::<usize>() * 4);
    for _ in 0..shape.iter().product::<usize>() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let x = state as f32 / u32::MAX as f32 * 3.0 - 1.0;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    Tensor::from_vec(Dtype::Float32, shape.to_vec(), bytes).unwrap()
}

/// The most memory that this process has had, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

/// One test, so that nothing else takes memory meanwhile.
#[test]
fn a_large_tensor_that_nothing_explains() {
    let (golden, actual, input, weight) =
        (made(&SHAPE, 1), made(&SHAPE, 2), made(&SHAPE, 3), made(&[1024, 1024], 4));
    let other = |name: &str, shape: &[usize]| Other {
        name: name.into(),
        dtype: Dtype::Float32,
        shape: shape.to_vec(),
    };
    let before = ["a", "b", "c", "d", "e"].map(|name| other(name, &SHAPE)).to_vec();
    let around = Around(input, before, weight, vec![other("weight", &[1024, 1024])]);
    let floor = Some(Floor { max: 1e-6, rms: 1e-7 });
    let rule = Rule { gate: Some(Gate::Noise { k: 8.0 }), floor, ..Rule::default() };
    let before = peak();
    let budget = Budget::of_a_run();
    let scene = Scene {
        name: "x",
        expected: golden.view(),
        actual: actual.view(),
        rule: &rule,
        others: &around,
        budget: &budget,
    };
    let told = diagnose(&scene);
    assert_eq!(told.causes, [], "these have nothing to do with one another");
    // What a sample has nothing of does not agree.
    let kinds: Vec<&str> = told.facts.iter().map(|fact| fact.kind.name()).collect();
    assert_eq!(kinds, ["uncorrelated"], "{:?}", told.facts);
    let looked_at = Budget::of_a_run().left() - budget.left();
    println!("{looked_at} elements were looked at");
    // Not the 16.8 million of each of the six tensors, and again for each explanation.
    assert!(looked_at < 32 << 20, "{looked_at} elements");
    let most = peak() - before;
    println!("{} MiB for a tensor of {} MiB", most / MIB, SIZE / MIB);
    assert!(most < 4 * SIZE, "{most} bytes");
}
