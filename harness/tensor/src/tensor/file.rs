//! A file of tensors in any of the formats.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mapped::map;
use super::npz::Npz;
use super::owned::{Storage, Tensor};
use super::safetensors::Safetensors;
use super::{TensorError, TensorFormat, npy};
use crate::files::identity::FileIdentity;
use crate::files::regular;
use crate::text::suggest::did_you_mean;

/// An opened `.npy`, `.npz` or `.safetensors` file. Cloning shares the map.
///
/// Opening reads headers only. Tensors stay in the mapped file and are not copied, except deflated members of an npz,
/// which are unpacked into memory on every request.
#[derive(Debug, Clone)]
pub struct TensorFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// `None` for bytes that are not from a file.
    identity: Option<FileIdentity>,
    names: Vec<String>,
    /// The position of each name in `names`.
    index: HashMap<String, usize>,
    reader: FormatReader,
}

#[derive(Debug)]
enum FormatReader {
    Npy(Tensor),
    Npz(Npz),
    Safetensors(Safetensors),
}

impl TensorFile {
    /// Opens a file and reads its header. The extension of its name gives the format.
    ///
    /// # Errors
    ///
    /// When the extension is unknown, the file cannot be read, or the header is damaged or does not fit the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TensorError> {
        let path = path.as_ref();
        // Checked before the file is touched: a wrong extension must not be reported as a missing file.
        TensorFormat::of(path)?;
        let read = |source| TensorError::Read { path: path.to_owned(), source };
        let file = regular::open(path).map_err(read)?;
        let identity = FileIdentity::of(&file).map_err(read)?;
        Self::parse(path, Some(identity), Storage::mapped(map(&file).map_err(read)?))
    }

    /// Reads `bytes` as the content of a file at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// As [`TensorFile::open`], except that nothing is read from disk.
    pub fn from_bytes(path: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Self, TensorError> {
        Self::parse(path.as_ref(), None, Storage::owned(bytes))
    }

    fn parse(path: &Path, identity: Option<FileIdentity>, storage: Storage) -> Result<Self, TensorError> {
        let format = TensorFormat::of(path)?;
        if is_lfs_pointer(storage.as_ref()) {
            return Err(TensorError::LfsPointer { path: path.to_owned() });
        }
        let (names, reader): (Vec<String>, _) = match format {
            TensorFormat::Npy => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                (vec![stem], FormatReader::Npy(npy::open(path, storage)?))
            }
            TensorFormat::Npz => {
                let npz = Npz::open(path, storage)?;
                (npz.names().map(str::to_owned).collect(), FormatReader::Npz(npz))
            }
            TensorFormat::Safetensors => {
                let file = Safetensors::open(path, storage)?;
                (file.names().map(str::to_owned).collect(), FormatReader::Safetensors(file))
            }
        };
        let index = names.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect();
        Ok(Self(Arc::new(Inner { path: path.to_owned(), identity, names, index, reader })))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The identity of the file when it was opened; `None` for bytes that are not from a file.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.0.identity
    }

    /// Names of the tensors in file order. An npy file has one tensor, named after the file's stem.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.names.iter().map(String::as_str)
    }

    /// The tensor with this name.
    ///
    /// # Errors
    ///
    /// When the file has no such tensor, its dtype is not a [`Dtype`](super::Dtype), or it cannot be unpacked. A dtype
    /// is checked here and not by `open`, so that the file's other tensors stay readable.
    pub fn get(&self, name: &str) -> Result<Tensor, TensorError> {
        let &index = self.0.index.get(name).ok_or_else(|| TensorError::Absent {
            path: self.0.path.clone(),
            name: name.to_owned(),
            near: did_you_mean(name, self.names()),
        })?;
        match &self.0.reader {
            FormatReader::Npy(tensor) => Ok(tensor.clone()),
            FormatReader::Npz(npz) => npz.get(index),
            FormatReader::Safetensors(file) => file.get(index),
        }
    }

    /// The metadata of a safetensors header; empty for other formats.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        static EMPTY: BTreeMap<String, String> = BTreeMap::new();
        match &self.0.reader {
            FormatReader::Safetensors(file) => file.metadata(),
            FormatReader::Npy(_) | FormatReader::Npz(_) => &EMPTY,
        }
    }
}

/// Whether the bytes are a Git LFS pointer, which stands in for a file that was not fetched.
pub fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.len() < 1024 && bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_are_refused_with_the_ones_that_are_known() {
        for (path, found) in [
            ("goldens.txt", "its name ends in `.txt`"),
            ("goldens", "its name has no extension"),
            ("goldens.NPY", "its name ends in `.NPY`"),
        ] {
            for error in
                [TensorFile::open(path).unwrap_err(), TensorFile::from_bytes(path, vec![0; 9]).unwrap_err()]
            {
                assert!(matches!(error, TensorError::Extension { .. }));
                let expected =
                    format!("`{path}` is not a tensor file: {found}, expected .npy, .npz or .safetensors");
                assert_eq!(error.to_string(), expected);
            }
        }
    }

    #[test]
    fn what_torch_pickled_comes_with_the_command_that_converts_it() {
        for (path, from, to) in [
            ("a/model.pt", "'a/model.pt'", "'a/model.safetensors'"),
            ("model.pth", "'model.pth'", "'model.safetensors'"),
            ("pytorch_model.bin", "'pytorch_model.bin'", "'pytorch_model.safetensors'"),
            ("x.ckpt", "'x.ckpt'", "'x.safetensors'"),
            ("it's; rm -r $HOME.pt", "'FILE.pt'", "'FILE.safetensors'"),
        ] {
            let error = TensorFile::open(path).unwrap_err().to_string();
            assert!(
                error.contains("expected .npy, .npz or .safetensors; convert it with `python -c"),
                "{error}"
            );
            assert!(
                error.contains(&format!("torch.load({from}, map_location='cpu', weights_only=True)")),
                "{error}"
            );
            assert!(error.contains(to) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn a_pointer_of_git_lfs_is_recognised_in_every_format() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        for format in TensorFormat::ALL {
            let path = format!("a.{}", format.extension());
            let error = TensorFile::from_bytes(path, pointer.to_vec()).unwrap_err();
            assert!(matches!(error, TensorError::LfsPointer { .. }));
            assert!(error.to_string().ends_with("run `git lfs pull`"));
        }
    }

    #[test]
    fn what_cannot_be_opened_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.npy");
        assert!(matches!(TensorFile::open(&path), Err(TensorError::Read { .. })));
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(TensorFile::open(&path), Err(TensorError::Read { .. })));
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, b"").unwrap();
        assert!(matches!(TensorFile::open(&path), Err(TensorError::Truncated { .. })));
    }

    #[test]
    fn an_absent_name_offers_near_ones() {
        let header = r#"{"norm1":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}"#;
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7]].concat();
        let file = TensorFile::from_bytes("g.safetensors", bytes).unwrap();
        assert_eq!(
            file.get("nrom1").unwrap_err().to_string(),
            "`g.safetensors` has no tensor `nrom1`, did you mean `norm1`?"
        );
        assert_eq!(file.get("norm1").unwrap().len(), 1);
    }
}
