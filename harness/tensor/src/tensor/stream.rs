//! The elements of a view as row-major, little-endian bytes, for files and checksums.

use super::{Dtype, TensorView};

/// Passes the elements to `take` as row-major, little-endian bytes, in order, one chunk after the other.
///
/// Bytes that are already in this order are one chunk and are not copied. All others go through a buffer of 64 KiB.
///
/// # Errors
///
/// The first error of `take`, which ends the walk.
pub fn for_each_chunk<E>(
    view: &TensorView<'_>,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let native = cfg!(target_endian = "little");
    if let (true, Some(bytes)) = (native, view.row_major_bytes()) {
        return take(bytes);
    }
    let size = view.dtype().size();
    let unit = if view.dtype() == Dtype::Complex64 { 4 } else { size };
    let step = (64 << 10) / size;
    let mut buffer = vec![0; step.min(view.len()) * size];
    for start in (0..view.len()).step_by(step) {
        let part = &mut buffer[..step.min(view.len() - start) * size];
        view.gather(start, part);
        if !native {
            part.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
        take(part)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(view: &TensorView<'_>) -> (Vec<u8>, usize) {
        let (mut bytes, mut parts) = (Vec::new(), 0);
        let done: Result<(), ()> = for_each_chunk(view, |part| {
            bytes.extend_from_slice(part);
            parts += 1;
            Ok(())
        });
        assert_eq!(done, Ok(()));
        (bytes, parts)
    }

    #[test]
    fn a_turned_view_comes_in_row_major_order_over_several_parts() {
        let (rows, columns) = (300u32, 200u32);
        let data: Vec<u8> =
            (0..columns).flat_map(|c| (0..rows).flat_map(move |r| (r * columns + c).to_be_bytes())).collect();
        let shape = [rows as usize, columns as usize];
        let view = TensorView::new(Dtype::Uint32, &shape, &data).unwrap().fortran().big_endian();
        let (bytes, parts) = collect(&view);
        let expected: Vec<u8> = (0..rows * columns).flat_map(u32::to_le_bytes).collect();
        assert_eq!(bytes, expected);
        assert_eq!(parts, 4, "240,000 bytes in parts of 64 KiB");
    }

    #[test]
    fn an_error_ends_it() {
        let data = [1, 2, 3, 4];
        let view = TensorView::new(Dtype::Uint8, &[2, 2], &data).unwrap().fortran();
        assert_eq!(for_each_chunk(&view, |_| Err("full")), Err("full"));
    }
}
