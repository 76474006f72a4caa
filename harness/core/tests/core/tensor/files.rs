//! The readers against files that NumPy, safetensors and MLX wrote (`data/tensor/make_files.py`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use mlx_parity_core::tensor::{Dtype, Tensor, TensorError, TensorFile, write_npy};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    /// None if all bytes are zero.
    bytes: Option<String>,
}

fn data(file: &str) -> PathBuf {
    crate::data("tensor").join(file)
}

fn elements(tensor: &Tensor) -> String {
    let unit = if tensor.dtype() == Dtype::Complex64 { 4 } else { tensor.dtype().size() };
    let mut bytes = vec![0; tensor.len() * tensor.dtype().size()];
    tensor.view().gather(0, &mut bytes);
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_file_holds_what_its_writer_put_in() {
    let text = std::fs::read_to_string(data("expected.json")).unwrap();
    let expected: BTreeMap<String, Vec<Expected>> = serde_json::from_str(&text).unwrap();
    assert_eq!(expected.len(), 47);
    for (file, tensors) in &expected {
        let open = TensorFile::open(data(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(open.names().collect::<Vec<_>>(), names, "{file}");
        for wanted in tensors {
            let tensor = open.get(&wanted.name).unwrap_or_else(|error| panic!("{file}: {error}"));
            let at = format!("{file}: {}", wanted.name);
            assert_eq!(tensor.dtype(), wanted.dtype, "{at}");
            assert_eq!(tensor.shape(), wanted.shape, "{at}");
            let zeros = "00".repeat(tensor.len() * tensor.dtype().size());
            assert_eq!(&elements(&tensor), wanted.bytes.as_ref().unwrap_or(&zeros), "{at}");
        }
    }
    // Every writer and every dtype must occur, so that a missing file is noticed.
    for dtype in Dtype::ALL {
        for file in [format!("numpy_{dtype}.npy"), format!("mlx_{dtype}.npy")] {
            assert_eq!(expected[&file][0].dtype, dtype);
        }
    }
}

#[test]
fn what_is_written_is_what_numpy_writes_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let same = Dtype::ALL.map(|dtype| format!("numpy_{dtype}"));
    let same = same.iter().map(String::as_str).chain(["numpy_scalar", "numpy_empty"]);
    for name in same {
        let source = data(&format!("{name}.npy"));
        let copy = folder.path().join("copy.npy");
        write_npy(&copy, &TensorFile::open(&source).unwrap().get(name).unwrap().view()).unwrap();
        assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&source).unwrap(), "{name}");
    }
}

#[test]
fn metadata_of_safetensors_is_handed_out() {
    let file = TensorFile::open(data("safetensors_all.safetensors")).unwrap();
    let metadata: Vec<_> = file.metadata().iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(metadata, [("made", "by hand"), ("order", "as called")]);
    assert_eq!(TensorFile::open(data("mlx_all.safetensors")).unwrap().metadata()["format"], "mlx");
    assert!(TensorFile::open(data("numpy_stored.npz")).unwrap().metadata().is_empty());
}

#[test]
fn valid_files_of_other_things_are_refused_by_name() {
    for (file, words) in [
        ("object", "pickled Python objects (`|O`)"),
        ("strings", "strings (`<U2`)"),
        ("bytes", "byte strings (`|S2`)"),
        ("structured", "structured elements"),
        ("float8", "raw bytes or 8-bit floats (`<V1`)"),
        ("longdouble", "extended floats (`<f16`)"),
        ("void", "raw pairs of bytes (bfloat16 is `<V2`) (`|V2`)"),
        ("datetime", "dates or durations (`<M8[ns]`)"),
    ] {
        let error = TensorFile::open(data(&format!("refused_{file}.npy"))).unwrap_err();
        assert!(matches!(&error, TensorError::Dtype { found, .. } if found == words), "{file}: {error}");
    }
    // MLX has no complex128. NumPy's is read as float64, for the float64 run of a complex table.
    let parts = TensorFile::open(data("refused_complex128.npy")).unwrap().get("refused_complex128").unwrap();
    assert_eq!((parts.dtype(), parts.shape().last()), (Dtype::Float64, Some(&2)));
    let error = TensorFile::open(data("refused_lzma.npz")).unwrap().get("a").unwrap_err();
    assert!(matches!(error, TensorError::Archive { .. }), "{error}");
}

#[test]
fn a_stored_member_is_mapped_and_a_tensor_outlives_its_file() {
    let tensor = {
        let file = TensorFile::open(data("numpy_stored.npz")).unwrap();
        let (one, two) = (file.get("float32").unwrap(), file.get("float32").unwrap());
        let (one, two) = (one.view(), two.view());
        assert_eq!(one.row_major_bytes().unwrap().as_ptr(), two.row_major_bytes().unwrap().as_ptr());
        file.get("int64").unwrap()
    };
    assert_eq!(tensor.len(), 6);
}

#[test]
fn a_file_larger_than_memory_is_opened_by_its_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.npy");
    let elements = 1usize << 33;
    let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({elements},), }}\n");
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((dict.len() as u16).to_le_bytes());
    header.extend(dict.bytes());
    std::fs::write(&path, &header).unwrap();
    // A hole of 32 GiB, which takes no space on disk.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(header.len() as u64 + 4 * elements as u64).unwrap();
    let tensor = TensorFile::open(&path).unwrap().get("huge").unwrap();
    assert_eq!(tensor.len(), elements);
    let mut last = [1; 4];
    tensor.view().gather(elements - 1, &mut last);
    assert_eq!(last, [0; 4]);
}
