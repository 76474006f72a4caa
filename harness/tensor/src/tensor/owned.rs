//! A tensor that owns its bytes, or what holds them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;

use super::view::{TensorView, ViewError};
use super::{Dtype, byte_len};

/// A tensor that owns its bytes, or what they lie in: the map of a file, or memory of another library. Cloning shares both.
#[derive(Debug, Clone)]
pub struct Tensor {
    dtype: Dtype,
    shape: Arc<[usize]>,
    layout: Layout,
    storage: Storage,
    range: Range<usize>,
}

impl Tensor {
    /// A tensor of row-major, little-endian elements.
    ///
    /// # Errors
    ///
    /// When `bytes` has more or fewer bytes than the dtype and the shape need.
    pub fn from_vec(dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8>) -> Result<Self, ViewError> {
        let range = 0..bytes.len();
        Self::within(dtype, shape, Layout::default(), Storage::owned(bytes), range)
    }

    /// A tensor of row-major, little-endian elements in memory that `holder` keeps alive and unchanged.
    ///
    /// # Errors
    ///
    /// As [`from_vec`](Self::from_vec).
    pub fn from_holder(
        dtype: Dtype,
        shape: Vec<usize>,
        holder: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Self, ViewError> {
        let range = 0..holder.as_ref().len();
        Self::within(dtype, shape, Layout::default(), Storage::held(holder), range)
    }

    /// A tensor over a part of shared bytes.
    pub(super) fn within(
        dtype: Dtype,
        shape: Vec<usize>,
        layout: Layout,
        storage: Storage,
        range: Range<usize>,
    ) -> Result<Self, ViewError> {
        let wanted = byte_len(dtype, &shape)?;
        let found = storage.as_ref().get(range.clone()).map_or(0, <[u8]>::len);
        if found != wanted || range.len() != wanted {
            return Err(ViewError::Length { dtype, shape, wanted, found });
        }
        Ok(Self { dtype, shape: shape.into(), layout, storage, range })
    }

    /// The elements in the order of the shape, whichever order the bytes have.
    pub fn view(&self) -> TensorView<'_> {
        let bytes = &self.storage.as_ref()[self.range.clone()];
        let mut view = TensorView::checked_before(self.dtype, &self.shape, bytes);
        if self.layout.fortran {
            view = view.fortran();
        }
        if self.layout.big_endian {
            view = view.big_endian();
        }
        view
    }

    /// Reads the elements from disk now, if they lie in a mapped file, so that later accesses do not wait.
    pub fn read_ahead(&self) {
        self.storage.read_ahead(&self.range);
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Lengths of the axes; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements: 1 for a scalar, 0 when any axis is empty.
    pub fn len(&self) -> usize {
        self.range.len() / self.dtype.size()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

/// How the bytes of a file are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Layout {
    pub(super) fortran: bool,
    pub(super) big_endian: bool,
}

/// Bytes that several tensors can share.
#[derive(Clone)]
pub(super) struct Storage(Arc<Bytes>);

enum Bytes {
    Owned(Vec<u8>),
    Mapped(Mmap),
    Held(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl Storage {
    pub(super) fn owned(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Bytes::Owned(bytes)))
    }

    pub(super) fn mapped(map: Mmap) -> Self {
        Self(Arc::new(Bytes::Mapped(map)))
    }

    fn held(holder: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Bytes::Held(Box::new(holder))))
    }

    /// Reads a part of a mapped file into memory, and enters its pages into this process's page table where the system can do
    /// that ahead of the first access. Other bytes are in memory already. A file that cannot be read shows that when it is used.
    fn read_ahead(&self, range: &Range<usize>) {
        /// Other threads wait while the system works on the page table, so it gets small pieces.
        const PIECE: usize = 4 << 20;
        let Bytes::Mapped(map) = &*self.0 else { return };
        #[cfg(target_os = "linux")]
        let advice = memmap2::Advice::PopulateRead;
        #[cfg(not(target_os = "linux"))]
        let advice = memmap2::Advice::WillNeed;
        for start in range.clone().step_by(PIECE) {
            let length = PIECE.min(range.end - start);
            // Kernels before 5.14 lack the first advice.
            if map.advise_range(advice, start, length).is_err()
                && map.advise_range(memmap2::Advice::WillNeed, start, length).is_err()
            {
                return;
            }
        }
    }
}

impl AsRef<[u8]> for Storage {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped(map) => map,
            Bytes::Held(holder) => (**holder).as_ref(),
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.as_ref().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shares_the_bytes() {
        let tensor = Tensor::from_vec(Dtype::Int16, vec![2], vec![1, 0, 2, 0]).unwrap();
        let clone = tensor.clone();
        assert_eq!(
            tensor.view().row_major_bytes().unwrap().as_ptr(),
            clone.view().row_major_bytes().unwrap().as_ptr()
        );
        assert_eq!(
            (clone.dtype(), clone.shape(), clone.len(), clone.is_empty()),
            (Dtype::Int16, &[2][..], 2, false)
        );
    }

    #[test]
    fn bytes_that_do_not_fit_the_shape_are_refused() {
        let error = Tensor::from_vec(Dtype::Int16, vec![2], vec![0; 3]).unwrap_err();
        assert_eq!(error, ViewError::Length { dtype: Dtype::Int16, shape: vec![2], wanted: 4, found: 3 });
        let storage = Storage::owned(vec![0; 4]);
        let error = Tensor::within(Dtype::Int16, vec![2], Layout::default(), storage, 2..6).unwrap_err();
        assert!(matches!(error, ViewError::Length { found: 0, .. }), "a range past the end holds nothing");
    }

    #[test]
    fn held_bytes_are_read_in_place() {
        let holder: Arc<[u8]> = Arc::from([1u8, 0, 2, 0]);
        let tensor = Tensor::from_holder(Dtype::Int16, vec![2], Arc::clone(&holder)).unwrap();
        tensor.read_ahead();
        assert_eq!(tensor.view().row_major_bytes().unwrap().as_ptr(), holder.as_ptr());
        let error = Tensor::from_holder(Dtype::Int16, vec![3], holder).unwrap_err();
        assert!(matches!(error, ViewError::Length { wanted: 6, found: 4, .. }));
    }

    #[test]
    fn reading_ahead_changes_no_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let bytes: Vec<u8> = (0..5u32 << 20).map(|i| (i % 251) as u8).collect();
        let view = TensorView::new(Dtype::Uint8, &[bytes.len()], &bytes).unwrap();
        crate::tensor::write_npy(&path, &view).unwrap();
        let tensor = crate::tensor::TensorFile::open(&path).unwrap().get("a").unwrap();
        tensor.read_ahead();
        assert_eq!(tensor.view().row_major_bytes(), Some(&bytes[..]));
    }

    #[test]
    fn debug_does_not_print_the_bytes() {
        let tensor = Tensor::from_vec(Dtype::Uint8, vec![1000], vec![7; 1000]).unwrap();
        assert!(format!("{tensor:?}").contains("1000 bytes"));
    }
}
