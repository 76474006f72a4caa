//! A diagnosis takes less memory than four times the tensor and a bounded amount of work, even if nothing explains the error.

use mlx_parity_core::diagnose::{Budget, FailingCheckpoint, KnownTensor, KnownTensors, diagnose};
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::tensor::{Dtype, Tensor};

const MIB: usize = 1 << 20;
const SIZE: usize = 64 * MIB;
const SHAPE: [usize; 3] = [4, 4096, 1024];

/// One earlier tensor under several names, and the weight of a layer.
struct Surroundings(Tensor, Vec<KnownTensor>, Tensor, Vec<KnownTensor>);

impl KnownTensors for Surroundings {
    fn before(&self) -> &[KnownTensor] {
        &self.1
    }

    fn after(&self) -> &[KnownTensor] {
        &[]
    }

    fn weights(&self) -> &[KnownTensor] {
        &self.3
    }

    fn tensor(&self, other: &KnownTensor) -> Option<Tensor> {
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

/// The peak memory of this process since [`forget_peak`], in bytes.
fn peak() -> usize {
    crate::memory("VmHWM:") as usize
}

/// Resets the peak to the memory in use now, so that an earlier test does not count.
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_large_tensor_that_nothing_explains() {
    let _alone = crate::measure_alone();
    let (golden, actual, input, weight) =
        (made(&SHAPE, 1), made(&SHAPE, 2), made(&SHAPE, 3), made(&[1024, 1024], 4));
    let other = |name: &str, shape: &[usize]| KnownTensor {
        name: name.into(),
        dtype: Dtype::Float32,
        shape: shape.to_vec(),
    };
    let before = ["a", "b", "c", "d", "e"].map(|name| other(name, &SHAPE)).to_vec();
    let surroundings = Surroundings(input, before, weight, vec![other("weight", &[1024, 1024])]);
    let floor = Some(Floor { max: 1e-6, rms: 1e-7 });
    let rule = Rule { gate: Some(Gate::Noise { k: 8.0 }), floor, ..Rule::default() };
    forget_peak();
    let before = peak();
    let budget = Budget::of_a_run();
    let checkpoint = FailingCheckpoint {
        name: "x",
        stage: None,
        expected: golden.view(),
        actual: actual.view(),
        rule: &rule,
        known: &surroundings,
        recipe: None,
        budget: &budget,
    };
    let diagnosis = diagnose(&checkpoint);
    assert_eq!(diagnosis.causes, [], "these have nothing to do with one another");
    // A part without sampled elements is not reported as agreeing.
    let kinds: Vec<&str> = diagnosis.facts.iter().map(|fact| fact.kind.name()).collect();
    assert_eq!(kinds, ["uncorrelated"], "{:?}", diagnosis.facts);
    let looked_at = Budget::of_a_run().left() - budget.left();
    println!("{looked_at} elements were looked at");
    // Reading all six tensors of 16.8 million elements once, or trying one explanation on all of them, would exceed the budget.
    assert!(looked_at < 32 << 20, "{looked_at} elements");
    let most = peak() - before;
    println!("{} MiB for a tensor of {} MiB", most / MIB, SIZE / MIB);
    assert!(most < 4 * SIZE, "{most} bytes");
}
