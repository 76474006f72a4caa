//! Writes tensors on a thread of its own, so that the port does not wait for the disk.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use mlx_parity_core::tensor::{Tensor, write_npy};
use mlx_parity_core::text::error_chain;

/// Tensors with fewer bytes are written at once: that takes no longer than waking a thread.
const WORTH_A_THREAD: u64 = 256 << 10;
/// The most bytes that may wait to be written. A larger tensor is written at once.
const MOST_WAITING: u64 = 256 << 20;

/// Writes npy files. Dropping it waits until all are written.
#[derive(Default)]
pub(super) struct BackgroundWriter {
    /// Started by the first large tensor.
    thread: Option<(Sender<File>, JoinHandle<()>)>,
    waiting: Arc<Waiting>,
}

struct File {
    path: PathBuf,
    tensor: Tensor,
    /// What the tensor is, in a message about a file that cannot be written.
    name: String,
}

/// The bytes that wait to be written.
#[derive(Default)]
struct Waiting {
    bytes: Mutex<u64>,
    fewer: Condvar,
}

impl Waiting {
    /// Adds the bytes of a tensor once there is room for them.
    fn add(&self, bytes: u64) {
        let waiting = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |waiting: &mut u64| *waiting + bytes > MOST_WAITING;
        *self.fewer.wait_while(waiting, is_full).unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    fn remove(&self, bytes: u64) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.fewer.notify_all();
    }
}

impl BackgroundWriter {
    /// Writes the tensor as an npy file, possibly later. A file that cannot be written is reported on standard error.
    pub(super) fn write(&mut self, path: PathBuf, tensor: &Tensor, name: &str) {
        let bytes = length(tensor);
        let file = File { path, tensor: tensor.clone(), name: name.to_owned() };
        if !(WORTH_A_THREAD..=MOST_WAITING).contains(&bytes) {
            return file.write();
        }
        self.waiting.add(bytes);
        // The tensor itself would keep memory of MLX, and count as the port's.
        let file = File { tensor: copy(tensor), ..file };
        let unsent = match self.thread() {
            Some(thread) => thread.send(file).err().map(|unsent| unsent.0),
            None => Some(file),
        };
        if let Some(file) = unsent {
            file.write();
            self.waiting.remove(bytes);
        }
    }

    fn thread(&mut self) -> Option<&Sender<File>> {
        if self.thread.is_none() {
            let ((sender, files), waiting) = (channel::<File>(), Arc::clone(&self.waiting));
            let work = move || {
                for file in files {
                    let bytes = length(&file.tensor);
                    file.write();
                    drop(file);
                    waiting.remove(bytes);
                }
            };
            let thread = std::thread::Builder::new().name("write-actuals".to_owned()).spawn(work).ok()?;
            self.thread = Some((sender, thread));
        }
        self.thread.as_ref().map(|(sender, _)| sender)
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            // A panic of the thread has printed its message.
            let _ = thread.join();
        }
    }
}

impl File {
    fn write(&self) {
        if let Err(error) = write_npy(&self.path, &self.tensor.view()) {
            eprintln!("cannot write the actual of `{}`: {}", self.name, error_chain(&error));
        }
    }
}

/// A tensor with the same elements, in memory of its own.
fn copy(tensor: &Tensor) -> Tensor {
    let view = tensor.view();
    let mut bytes = vec![0; view.len() * view.dtype().size()];
    view.gather(0, &mut bytes);
    Tensor::from_vec(view.dtype(), view.shape().to_vec(), bytes).unwrap_or_else(|_| tensor.clone())
}

fn length(tensor: &Tensor) -> u64 {
    (tensor.len() * tensor.dtype().size()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::tensor::{Dtype, TensorFile};

    #[test]
    fn everything_is_written_when_the_writer_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let tensor = |byte: u8, length: usize| {
            Tensor::from_vec(Dtype::Uint8, vec![length], vec![byte; length]).unwrap()
        };
        let lengths = [3, WORTH_A_THREAD as usize, 5 << 20, 7];
        let mut writer = BackgroundWriter::default();
        for (index, &length) in lengths.iter().enumerate() {
            writer.write(folder.path().join(format!("{index}.npy")), &tensor(index as u8, length), "x");
        }
        // This one is reported, and the others are written.
        writer.write(folder.path().join("no/folder.npy"), &tensor(9, 1 << 20), "y");
        drop(writer);
        for (index, &length) in lengths.iter().enumerate() {
            let file = TensorFile::open(folder.path().join(format!("{index}.npy"))).unwrap();
            let found = file.get(file.names().next().unwrap()).unwrap();
            assert_eq!(found.view().row_major_bytes(), Some(&vec![index as u8; length][..]));
        }
    }
}
