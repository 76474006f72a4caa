//! Measuring a floor: how far a golden is from a float64 run of the same computation.

use half::{bf16, f16};

use super::{BLOCK, HUGE};
use crate::gate::Floor;
use crate::tensor::{Dtype, TensorView};

impl Floor {
    /// The floor of `golden` against a float64 `truth` of the same shape: the largest distance and the root mean square
    /// distance, over elements that are finite and below 1e30 on both sides. `None` when the shapes differ, the truth is
    /// not float64, or the golden has integers or bools.
    ///
    /// The truth of a complex64 golden has one more axis of length two, for the real and the imaginary part. Distances
    /// are then moduli.
    pub fn between(golden: &TensorView<'_>, truth: &TensorView<'_>) -> Option<Self> {
        let dtype = golden.dtype();
        let parts = parts(dtype)?;
        let mut shape = golden.shape().to_vec();
        shape.extend((parts == 2).then_some(2));
        if truth.shape() != shape || truth.dtype() != Dtype::Float64 {
            return None;
        }
        let (mut max, mut squares, mut counted) = (0f64, 0f64, 0u64);
        let mut buffers = [vec![0; BLOCK * dtype.size()], vec![0; BLOCK * parts * 8]];
        for start in (0..golden.len()).step_by(BLOCK) {
            let count = BLOCK.min(golden.len() - start);
            let [ours, theirs] = &mut buffers;
            let (ours, theirs) = (&mut ours[..count * dtype.size()], &mut theirs[..count * parts * 8]);
            golden.gather(start, ours);
            truth.gather(start * parts, theirs);
            for (ours, theirs) in ours.chunks_exact(dtype.size()).zip(theirs.chunks_exact(parts * 8)) {
                let (ours, theirs) = (number(dtype, ours), wide(theirs));
                if modulus(ours) < HUGE && modulus(theirs) < HUGE {
                    let distance = modulus([ours[0] - theirs[0], ours[1] - theirs[1]]);
                    max = max.max(distance);
                    squares += distance * distance;
                    counted += 1;
                }
            }
        }
        let rms = if counted == 0 { 0.0 } else { (squares / counted as f64).sqrt() };
        Some(Self { max, rms: rms.min(max) })
    }

    /// One multiple of this floor for a noise gate: at least `eps * absmax(golden)`, and at least a tenth of
    /// `eps * rms(golden)` for the root mean square. Floors below that are equivalent.
    pub fn unit(&self, golden: &TensorView<'_>) -> Self {
        let epsilon = golden.dtype().epsilon().unwrap_or(0.0);
        let Some(Self { max, rms }) = size(golden) else { return *self };
        Self { max: self.max.max(epsilon * max), rms: self.rms.max(0.1 * epsilon * rms) }
    }

    /// This floor in multiples of `other`, by `max` or by `rms`, whichever is more. Zero is once zero.
    pub fn over(&self, other: &Self) -> f64 {
        let times = |ours: f64, theirs: f64| if ours == theirs { 1.0 } else { ours / theirs };
        times(self.max, other.max).max(times(self.rms, other.rms))
    }
}

/// The largest magnitude and the root mean square of a tensor's finite elements below 1e30.
fn size(golden: &TensorView<'_>) -> Option<Floor> {
    parts(golden.dtype())?;
    let (mut max, mut squares, mut counted) = (0f64, 0f64, 0u64);
    let width = golden.dtype().size();
    let mut part = vec![0; BLOCK * width];
    for start in (0..golden.len()).step_by(BLOCK) {
        let part = &mut part[..BLOCK.min(golden.len() - start) * width];
        golden.gather(start, part);
        for element in part.chunks_exact(width) {
            let size = modulus(number(golden.dtype(), element));
            if size < HUGE {
                max = max.max(size);
                squares += size * size;
                counted += 1;
            }
        }
    }
    let rms = if counted == 0 { 0.0 } else { (squares / counted as f64).sqrt() };
    Some(Floor { max, rms })
}

/// Real numbers per element; `None` for integers and bools, which have no floor.
fn parts(dtype: Dtype) -> Option<usize> {
    match dtype {
        Dtype::Complex64 => Some(2),
        dtype => dtype.is_float().then_some(1),
    }
}

fn modulus([re, im]: [f64; 2]) -> f64 {
    if im == 0.0 { re.abs() } else { re.hypot(im) }
}

/// One element in native byte order, as its real and its imaginary part.
fn number(dtype: Dtype, bytes: &[u8]) -> [f64; 2] {
    match dtype {
        Dtype::Complex64 => bytemuck::pod_read_unaligned::<[f32; 2]>(bytes).map(f64::from),
        dtype => [real(dtype, bytes), 0.0],
    }
}

/// One float64, or two as the parts of a complex number.
fn wide(bytes: &[u8]) -> [f64; 2] {
    match bytes.len() {
        16 => bytemuck::pod_read_unaligned(bytes),
        _ => [bytemuck::pod_read_unaligned(bytes), 0.0],
    }
}

/// One element of a real float dtype in native byte order.
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
    fn a_unit_is_never_less_than_a_rounding_and_fill_values_are_left_out() {
        let golden: Vec<u8> = [3f32, 4.0, -1e38, f32::NAN].iter().flat_map(|x| x.to_le_bytes()).collect();
        let golden = TensorView::new(Dtype::Float32, &[4], &golden).unwrap();
        let eps = f64::from(f32::EPSILON);
        let unit = Floor { max: 0.0, rms: 0.0 }.unit(&golden);
        assert_eq!(unit, Floor { max: eps * 4.0, rms: 0.1 * eps * 12.5f64.sqrt() });
        let large = Floor { max: 1.0, rms: 0.5 };
        assert_eq!(large.unit(&golden), large);
    }

    #[test]
    fn the_truth_of_a_complex_golden_is_its_two_parts() {
        let golden: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let truth: Vec<u8> = [1.0, 2.0, 3.3, 4.4f64].iter().flat_map(|x| x.to_le_bytes()).collect();
        let golden = TensorView::new(Dtype::Complex64, &[2], &golden).unwrap();
        let truth = |shape: &'static [usize]| TensorView::new(Dtype::Float64, shape, &truth).unwrap();
        let floor = Floor::between(&golden, &truth(&[2, 2])).unwrap();
        assert!((floor.max - 0.5).abs() < 1e-6 && (floor.rms - 0.5 / 2f64.sqrt()).abs() < 1e-6, "{floor:?}");
        assert_eq!(Floor::between(&golden, &truth(&[4])), None);
        let unit = Floor { max: 0.0, rms: 0.0 }.unit(&golden);
        assert_eq!(unit.max, f64::from(f32::EPSILON) * 5.0);
    }

    #[test]
    fn floors_are_compared_by_whichever_part_grew_more() {
        let floor = |max, rms| Floor { max, rms };
        assert_eq!(floor(4.0, 1.0).over(&floor(2.0, 1.0)), 2.0);
        assert_eq!(floor(1.0, 0.9).over(&floor(1.0, 0.3)), 3.0);
        assert_eq!(floor(0.0, 0.0).over(&floor(0.0, 0.0)), 1.0);
        assert_eq!(floor(1.0, 0.1).over(&floor(0.0, 0.0)), f64::INFINITY);
        assert_eq!(floor(0.0, 0.0).over(&floor(1.0, 0.1)), 0.0);
    }

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
