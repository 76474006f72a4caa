//! Writing tensors as npy files.

use std::path::Path;

use super::{Dtype, TensorError, TensorView, for_each_chunk};
use crate::files::atomic::write_atomically;

/// Writes the elements as an npy file, row-major and little-endian. bfloat16 is `<V2`, as in MLX and ml_dtypes.
///
/// The file appears complete or not at all: it is written beside `path` and renamed.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write_npy(path: impl AsRef<Path>, view: &TensorView<'_>) -> Result<(), TensorError> {
    let path = path.as_ref();
    write_atomically(path, |out| {
        out.write_all(&header(view))?;
        for_each_chunk(view, |part| out.write_all(part))
    })
    .map_err(|source| TensorError::Write { path: path.to_owned(), source })
}

fn header(view: &TensorView<'_>) -> Vec<u8> {
    // The shape must look exactly as Python prints a tuple: MLX's reader rejects any other comma.
    let axes: Vec<String> = view.shape().iter().map(usize::to_string).collect();
    let axes = if let [axis] = axes.as_slice() { format!("{axis},") } else { axes.join(", ") };
    let mut dict =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({axes}), }}", descr(view.dtype()));
    // The data starts at a multiple of 64 bytes, so that its map is aligned for every dtype.
    let wide = dict.len() + 64 > usize::from(u16::MAX);
    let before = if wide { 12 } else { 10 };
    let padding = (before + dict.len() + 1).next_multiple_of(64) - (before + dict.len() + 1);
    dict.extend(std::iter::repeat_n(' ', padding));
    dict.push('\n');
    let mut bytes = b"\x93NUMPY".to_vec();
    if wide {
        bytes.extend([2, 0]);
        bytes.extend((dict.len() as u32).to_le_bytes());
    } else {
        bytes.extend([1, 0]);
        bytes.extend((dict.len() as u16).to_le_bytes());
    }
    bytes.extend(dict.into_bytes());
    bytes
}

const fn descr(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "|b1",
        Dtype::Uint8 => "|u1",
        Dtype::Uint16 => "<u2",
        Dtype::Uint32 => "<u4",
        Dtype::Uint64 => "<u8",
        Dtype::Int8 => "|i1",
        Dtype::Int16 => "<i2",
        Dtype::Int32 => "<i4",
        Dtype::Int64 => "<i8",
        Dtype::Float16 => "<f2",
        Dtype::Bfloat16 => "<V2",
        Dtype::Float32 => "<f4",
        Dtype::Float64 => "<f8",
        Dtype::Complex64 => "<c8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorFile;

    #[test]
    fn every_dtype_and_shape_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        for dtype in Dtype::ALL {
            for shape in [&[][..], &[0, 3], &[5], &[2, 3]] {
                let len = shape.iter().product::<usize>() * dtype.size();
                let bytes: Vec<u8> =
                    (0..len).map(|i| if dtype == Dtype::Bool { i % 2 } else { i } as u8).collect();
                let path = folder.path().join(format!("{dtype}{}.npy", shape.len()));
                write_npy(&path, &TensorView::new(dtype, shape, &bytes).unwrap()).unwrap();
                let file = TensorFile::open(&path).unwrap();
                let name = path.file_stem().unwrap().to_str().unwrap();
                assert_eq!(file.names().collect::<Vec<_>>(), [name]);
                let tensor = file.get(name).unwrap();
                assert_eq!((tensor.dtype(), tensor.shape()), (dtype, shape));
                assert_eq!(tensor.view().row_major_bytes(), Some(&bytes[..]));
                let start = std::fs::metadata(&path).unwrap().len() as usize - len;
                assert_eq!(start % 64, 0, "the data is aligned");
            }
        }
    }

    #[test]
    fn a_turned_view_is_written_row_major() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let data: Vec<u8> = [0i16, 3, 1, 4, 2, 5].iter().flat_map(|v| v.to_be_bytes()).collect();
        let view = TensorView::new(Dtype::Int16, &[2, 3], &data).unwrap().fortran().big_endian();
        write_npy(&path, &view).unwrap();
        let expected: Vec<u8> = (0i16..6).flat_map(i16::to_le_bytes).collect();
        let tensor = TensorFile::open(&path).unwrap().get("a").unwrap();
        assert_eq!(tensor.view().row_major_bytes(), Some(&expected[..]));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let view = TensorView::new(Dtype::Uint8, &[0], &[]).unwrap();
        let error = write_npy("/nowhere/at/all/a.npy", &view).unwrap_err();
        assert_eq!(error.to_string(), "cannot write `/nowhere/at/all/a.npy`");
    }
}
