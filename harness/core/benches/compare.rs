//! The speed of a whole comparison, relative to only reading the same bytes.
//!
//! Per dtype and size, comparison and reading run in turn on the same arrays with the same threads, and the median of several
//! turns counts for both. Other load on the machine then disturbs both alike, and a single lucky turn (a read of 64 MiB may
//! find part of it in a large cache) does not count. The last line has the smallest ratio per dtype. Arrays begin at multiples
//! of 64 bytes, as in npy files and in the memory of MLX.
//!
//! The other dtypes come first, without a ratio: fewer tensors have them, and they have no target.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use mlx_parity_core::compare::compare_on;
use mlx_parity_core::gate::{Floor, Gate, Rule};
use mlx_parity_core::tensor::{Dtype, TensorView};
use pulp::{Arch, Simd, WithSimd};

const MIB: usize = 1 << 20;
const SIZES: [usize; 2] = [64 * MIB, 1024 * MIB];
/// Small arrays take more turns, which are shorter.
const TURNS: [usize; 2] = [150, 15];
const OTHERS: [(&str, Dtype); 3] = [("f64", Dtype::Float64), ("i32", Dtype::Int32), ("i64", Dtype::Int64)];
/// Dtypes with a target, and a tolerance that all pairs are within.
const TARGETS: [(&str, Dtype, f64); 6] = [
    ("f32", Dtype::Float32, 1e-5),
    ("bf16", Dtype::Bfloat16, 1e-2),
    ("f16", Dtype::Float16, 1e-2),
    ("c64", Dtype::Complex64, 1e-5),
    ("u8", Dtype::Uint8, 2.0),
    ("bool", Dtype::Bool, 0.0),
];
/// Elements that a thread reads at a time.
const SPAN: usize = MIB;

fn main() {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    println!(
        "comparing and reading pairs of arrays on {threads} threads, median of {} and {} turns",
        TURNS[0], TURNS[1]
    );
    for (name, dtype) in OTHERS {
        let (expected, actual) = pair(dtype, SIZES[0]);
        let (expected, actual) = (view(dtype, &expected), view(dtype, &actual));
        let rule = rule(1e-5);
        let turn = |_| seconds(|| _ = black_box(compare_on(threads, &expected, &actual, &rule)));
        let compared = median((0..TURNS[1]).map(turn).collect());
        let (size, speed) = (SIZES[0] / MIB, speed(SIZES[0], compared));
        println!("{name:4} 2 x {size:4} MiB: compare {speed:5.1} GB/s ({:7.1} ms)", compared * 1e3);
    }
    for (name, dtype) in [("f32", Dtype::Float32), ("bf16", Dtype::Bfloat16)] {
        second_pass(threads, name, dtype);
    }
    let mut ratios = Vec::new();
    for (name, dtype, tolerance) in TARGETS {
        let mut worst = f64::INFINITY;
        for (size, turns) in SIZES.into_iter().zip(TURNS) {
            let (expected, actual) = pair(dtype, size);
            let (expected_view, actual_view) = (view(dtype, &expected), view(dtype, &actual));
            let rule = rule(tolerance);
            let compare = || {
                let outcome = compare_on(threads, &expected_view, &actual_view, &rule);
                assert!(outcome.passed(), "{}", outcome.detail);
            };
            let words = (bytemuck::cast_slice(&expected), bytemuck::cast_slice(&actual));
            let read = || black_box(read(threads, dtype, words.0, words.1));
            let (mut compared, mut was_read) = (Vec::new(), Vec::new());
            for _ in 0..turns {
                compared.push(seconds(compare));
                was_read.push(seconds(|| _ = read()));
            }
            let (compared, was_read) = (median(compared), median(was_read));
            let ratio = was_read / compared;
            println!(
                "{name:4} 2 x {:4} MiB: compare {:5.1} GB/s ({:7.1} ms), read {:5.1} GB/s ({:6.1} ms), ratio {ratio:.2}",
                size / MIB,
                speed(size, compared),
                compared * 1e3,
                speed(size, was_read),
                was_read * 1e3,
            );
            worst = worst.min(ratio);
        }
        ratios.push(format!("{name} {worst:.2}"));
    }
    println!("of read speed: {}", ratios.join(", "));
}

/// Prints the time of a noise gate with an error below its floor, and with an error above it, which is searched for a
/// systematic part in a second pass.
fn second_pass(threads: NonZeroUsize, name: &str, dtype: Dtype) {
    for size in [MIB / 16, 4 * MIB, SIZES[0]] {
        let (expected, actual) = pair(dtype, size);
        let (expected, actual) = (rows(dtype, 1024, &expected), rows(dtype, 1024, &actual));
        let floor = dtype.epsilon().unwrap_or(0.0);
        let [one, two] = [4.0 * floor, 0.2 * floor].map(|rms| {
            let gate = Some(Gate::Noise { k: 8.0 });
            let rule = Rule { gate, floor: Some(Floor { max: 10.0 * floor, rms }), ..Rule::default() };
            let compared = || compare_on(threads, &expected, &actual, &rule);
            let difference = compared().metrics.and_then(|metrics| metrics.difference);
            let searched = difference.is_some_and(|difference| difference.systematic.is_some());
            assert_eq!(searched, rms < floor, "an error above the floor is searched");
            median((0..TURNS[0]).map(|_| seconds(|| _ = black_box(compared()))).collect())
        });
        println!(
            "{name:4} 2 x {:6} KiB: one pass {:.3} ms, with a search for systematic errors {:.3} ms",
            size / 1024,
            one * 1e3,
            two * 1e3
        );
    }
}

fn view(dtype: Dtype, lines: &[Line]) -> TensorView<'_> {
    rows(dtype, 1, lines)
}

fn rows(dtype: Dtype, channels: usize, lines: &[Line]) -> TensorView<'_> {
    let bytes: &[u8] = bytemuck::cast_slice(lines);
    match TensorView::new(dtype, &[bytes.len() / dtype.size() / channels, channels], bytes) {
        Ok(view) => view,
        Err(error) => unreachable!("a size is a whole number of elements: {error}"),
    }
}

fn rule(tolerance: f64) -> Rule {
    let gate = Gate::Tolerance { rtol: tolerance, atol: tolerance, policy: None };
    Rule { gate: Some(gate), ..Rule::default() }
}

/// Throughput in GB/s, counting both arrays.
fn speed(size: usize, seconds: f64) -> f64 {
    2.0 * size as f64 / seconds / 1e9
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// An element type of the arrays.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Makes a golden of about normal numbers and an actual with rounding noise of its dtype. Part of the noise is absolute, so
/// that small elements differ as in a real port.
fn pair(dtype: Dtype, size: usize) -> (Vec<Line>, Vec<Line>) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
    };
    // Pictures often differ by one in a few elements.
    let epsilon = if dtype == Dtype::Uint8 { 0.06 } else { dtype.epsilon().unwrap_or(0.0) as f32 };
    let mut make = || {
        let e = 2.0 * (uniform() + uniform() + uniform() + uniform());
        (e, e * (1.0 + epsilon * uniform()) + 0.25 * epsilon * uniform())
    };
    let zero = || vec![Line::zeroed(); size / size_of::<Line>()];
    let (mut expected, mut actual) = (zero(), zero());
    macro_rules! fill {
        ($type:ty, $value:expr) => {{
            let (expected, actual): (&mut [$type], &mut [$type]) =
                (bytemuck::cast_slice_mut(&mut expected), bytemuck::cast_slice_mut(&mut actual));
            for (expected, actual) in expected.iter_mut().zip(actual) {
                let (e, a) = make();
                (*expected, *actual) = ($value(e), $value(a));
            }
        }};
    }
    match dtype {
        Dtype::Float32 | Dtype::Complex64 => fill!(f32, |x| x),
        Dtype::Float16 => fill!(u16, |x| f16::from_f32(x).to_bits()),
        Dtype::Bfloat16 => fill!(u16, |x| bf16::from_f32(x).to_bits()),
        Dtype::Float64 => fill!(f64, f64::from),
        Dtype::Int32 => fill!(i32, |x| (x * 1e8) as i32),
        Dtype::Int64 => fill!(i64, |x| (x * 1e18) as i64),
        Dtype::Bool => fill!(u8, |x| u8::from(x > 0.0)),
        _ => fill!(u8, |x| (x * 16.0 + 128.0) as u8),
    }
    (expected, actual)
}

/// Returns the sum of both arrays, computed on this many threads: of floats for float32, and of words for all others, so that
/// reading them needs no conversion.
fn read(threads: NonZeroUsize, dtype: Dtype, expected: &[u64], actual: &[u64]) -> f64 {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let spans = (expected.len() * 8).div_ceil(SPAN);
    let run = || {
        let mut total = 0.0;
        loop {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if index >= spans {
                return total;
            }
            for array in [expected, actual] {
                let words = &array[index * (SPAN / 8)..((index + 1) * (SPAN / 8)).min(array.len())];
                total += Arch::new().dispatch(Read { words, float: dtype == Dtype::Float32 });
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads.get()).map(|_| scope.spawn(run)).collect();
        let own = run();
        own + workers.into_iter().filter_map(|worker| worker.join().ok()).sum::<f64>()
    })
}

struct Read<'a> {
    words: &'a [u64],
    float: bool,
}

impl WithSimd for Read<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        // Eight sums at once, so that additions do not wait for each other.
        if self.float {
            let (vectors, _) = S::as_simd_f32s(bytemuck::cast_slice(self.words));
            let mut sums = [simd.splat_f32s(0.0); 8];
            for eight in vectors.as_chunks::<8>().0 {
                for (sum, &x) in sums.iter_mut().zip(eight) {
                    *sum = simd.add_f32s(*sum, x);
                }
            }
            sums.into_iter().map(|sum| f64::from(simd.reduce_sum_f32s(sum))).sum()
        } else {
            let (vectors, _) = S::as_simd_u32s(bytemuck::cast_slice(self.words));
            let mut sums = [simd.splat_u32s(0); 8];
            for eight in vectors.as_chunks::<8>().0 {
                for (sum, &x) in sums.iter_mut().zip(eight) {
                    *sum = simd.add_u32s(*sum, x);
                }
            }
            black_box(sums);
            0.0
        }
    }
}
