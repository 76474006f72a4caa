//! What every tensor target does with its bytes.

use mlx_parity_core::tensor::TensorFile;

/// Opens the bytes as a file of that name and touches the ends of every tensor in it.
pub fn read_all(path: &str, bytes: &[u8]) {
    let Ok(file) = TensorFile::from_bytes(path, bytes.to_vec()) else { return };
    for name in file.names() {
        let Ok(tensor) = file.get(name) else { continue };
        let view = tensor.view();
        assert_eq!(view.shape(), tensor.shape());
        let mut element = vec![0; view.dtype().size()];
        if !view.is_empty() {
            view.gather(0, &mut element);
            view.gather(view.len() - 1, &mut element);
        }
    }
}
