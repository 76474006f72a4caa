//! How far a golden is from a true float64 run of the same computation.

use half::{bf16, f16};

use super::{BLOCK, Floor, HUGE};
use crate::tensor::{Dtype, TensorView};

impl Floor {
    /// The floor of `golden` by a float64 `truth` of the same shape: the largest distance and the root mean square of
    /// all, over elements that are finite and below 1e30 on both sides. `None` when the shapes differ, when the truth is
    /// not float64, or when the golden is not made of real floats.
    pub fn between(golden: &TensorView<'_>, truth: &TensorView<'_>) -> Option<Self> {
        if golden.shape() != truth.shape() || truth.dtype() != Dtype::Float64 || !golden.dtype().is_float() {
            return None;
        }
        let (mut max, mut squares, mut counted) = (0f64, 0f64, 0u64);
        let mut parts = [vec![0; BLOCK * golden.dtype().size()], vec![0; BLOCK * 8]];
        for start in (0..golden.len()).step_by(BLOCK) {
            let count = BLOCK.min(golden.len() - start);
            let [ours, theirs] = &mut parts;
            let (ours, theirs) = (&mut ours[..count * golden.dtype().size()], &mut theirs[..count * 8]);
            golden.gather(start, ours);
            truth.gather(start, theirs);
            let theirs = theirs.chunks_exact(8).map(bytemuck::pod_read_unaligned::<f64>);
            for (ours, theirs) in ours.chunks_exact(golden.dtype().size()).zip(theirs) {
                let ours = real(golden.dtype(), ours);
                if ours.abs() < HUGE && theirs.abs() < HUGE {
                    let distance = (ours - theirs).abs();
                    max = max.max(distance);
                    squares += distance * distance;
                    counted += 1;
                }
            }
        }
        let rms = if counted == 0 { 0.0 } else { (squares / counted as f64).sqrt() };
        Some(Self { max, rms: rms.min(max) })
    }
}

/// One native-order element of a real float's dtype.
fn real(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::Float16 => bytemuck::pod_read_unaligned::<f16>(bytes).to_f64(),
        Dtype::Bfloat16 => bytemuck::pod_read_unaligned::<bf16>(bytes).to_f64(),
        Dtype::Float32 => bytemuck::pod_read_unaligned::<f32>(bytes).into(),
        _ => bytemuck::pod_read_unaligned(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_what_the_exporter_measures() {
        let golden: Vec<u8> =
            [1f32, 2.0, f32::MIN, f32::NAN, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let truth: Vec<u8> =
            [1.0 + 3e-7, 2.0 - 4e-7, -1e38, 1.0, 0.0].iter().flat_map(|x: &f64| x.to_le_bytes()).collect();
        let golden = TensorView::new(Dtype::Float32, &[5], &golden).unwrap();
        let truth = TensorView::new(Dtype::Float64, &[5], &truth).unwrap();
        let floor = Floor::between(&golden, &truth).unwrap();
        assert!((floor.max - 4e-7).abs() < 1e-15, "{floor:?}");
        assert!((floor.rms - (25e-14f64 / 3.0).sqrt()).abs() < 1e-15, "{floor:?}");
        assert_eq!(Floor::between(&truth, &golden), None, "a float32 is no truth");
        let other = TensorView::new(Dtype::Float64, &[], &[0; 8]).unwrap();
        assert_eq!(Floor::between(&golden, &other), None);
    }

    #[test]
    fn blocks_are_put_together() {
        let count = 2 * BLOCK + 7;
        let golden: Vec<u8> = (0..count).flat_map(|i| bf16::from_f64(i as f64).to_le_bytes()).collect();
        let truth: Vec<u8> = (0..count).flat_map(|i| (i as f64).to_le_bytes()).collect();
        let golden = TensorView::new(Dtype::Bfloat16, &[count], &golden).unwrap();
        let truth = TensorView::new(Dtype::Float64, &[count], &truth).unwrap();
        let floor = Floor::between(&golden, &truth).unwrap();
        assert!(floor.max > 8.0 && floor.max <= 16.0 && floor.rms > 1.0, "{floor:?}");
    }
}
