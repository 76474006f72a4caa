//! A file of tensors, whatever its format.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::held::{Storage, Tensor};
use super::mapped::map;
use super::npz::Npz;
use super::safetensors::Safetensors;
use super::{TensorError, npy};
use crate::identity::FileIdentity;
use crate::near::did_you_mean;
use crate::regular;

/// The ends of names that tensor files have.
pub(crate) const EXTENSIONS: [&str; 3] = ["npy", "npz", "safetensors"];

/// An opened `.npy`, `.npz` or `.safetensors` file. Cloning shares the map.
///
/// Opening reads headers only. Each tensor is handed out where it lies in the mapped file, except deflated members of
/// an npz, which are unpacked into memory each time they are asked for.
#[derive(Debug, Clone)]
pub struct TensorFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Nothing for bytes that are no file.
    identity: Option<FileIdentity>,
    names: Vec<String>,
    /// Where each name is among the names.
    index: HashMap<String, usize>,
    format: Format,
}

#[derive(Debug)]
enum Format {
    Npy(Tensor),
    Npz(Npz),
    Safetensors(Safetensors),
}

impl TensorFile {
    /// Opens a file, whose format is told by the end of its name.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TensorError> {
        let path = path.as_ref();
        // Said before the file is touched, so that a wrong path is not taken for a missing file.
        extension(path)?;
        let read = |source| TensorError::Read { path: path.to_owned(), source };
        let file = regular::open(path).map_err(read)?;
        let identity = FileIdentity::of(&file).map_err(read)?;
        Self::parse(path, Some(identity), Storage::mapped(map(&file).map_err(read)?))
    }

    /// Takes `bytes` for the content of a file at `path`, which is not looked at and need not exist.
    pub fn from_bytes(path: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Self, TensorError> {
        Self::parse(path.as_ref(), None, Storage::owned(bytes))
    }

    fn parse(path: &Path, identity: Option<FileIdentity>, storage: Storage) -> Result<Self, TensorError> {
        let extension = extension(path)?;
        if is_lfs_pointer(storage.as_ref()) {
            return Err(TensorError::LfsPointer { path: path.to_owned() });
        }
        let (names, format): (Vec<String>, _) = match extension {
            "npy" => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                (vec![stem], Format::Npy(npy::open(path, storage)?))
            }
            "npz" => {
                let npz = Npz::open(path, storage)?;
                (npz.names().map(str::to_owned).collect(), Format::Npz(npz))
            }
            _ => {
                let file = Safetensors::open(path, storage)?;
                (file.names().map(str::to_owned).collect(), Format::Safetensors(file))
            }
        };
        let index = names.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect();
        Ok(Self(Arc::new(Inner { path: path.to_owned(), identity, names, index, format })))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Which file was opened, as it was at that moment; nothing for bytes that are no file.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.0.identity
    }

    /// Names of the tensors in file order; the one name of an npy file is its stem.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.names.iter().map(String::as_str)
    }

    /// The tensor of that name.
    ///
    /// A tensor whose dtype is not one of ours is refused here and not by `open`, so that the others stay readable.
    pub fn get(&self, name: &str) -> Result<Tensor, TensorError> {
        let &index = self.0.index.get(name).ok_or_else(|| TensorError::Absent {
            path: self.0.path.clone(),
            name: name.to_owned(),
            near: did_you_mean(name, self.names()),
        })?;
        match &self.0.format {
            Format::Npy(tensor) => Ok(tensor.clone()),
            Format::Npz(npz) => npz.get(index),
            Format::Safetensors(file) => file.get(index),
        }
    }

    /// The string map of a safetensors header; empty for the other formats.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        static EMPTY: BTreeMap<String, String> = BTreeMap::new();
        match &self.0.format {
            Format::Safetensors(file) => file.metadata(),
            _ => &EMPTY,
        }
    }
}

/// The extension, if it is one of a tensor file.
fn extension(path: &Path) -> Result<&'static str, TensorError> {
    let found = path.extension().unwrap_or_default();
    EXTENSIONS
        .into_iter()
        .find(|&known| found == known)
        .ok_or_else(|| TensorError::Extension { path: path.to_owned() })
}

/// Whether the bytes are the note that Git LFS leaves in place of a file that was not fetched.
pub(crate) fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.len() < 1024 && bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_are_refused_with_the_ones_that_are_known() {
        for path in ["goldens.txt", "goldens", "goldens.NPY"] {
            let error = TensorFile::open(path).unwrap_err();
            assert!(matches!(error, TensorError::Extension { .. }));
            assert_eq!(
                error.to_string(),
                format!(
                    "`{path}` is not known as a tensor file, its name must end in .npy, .npz or .safetensors"
                )
            );
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
                error.contains("must end in .npy, .npz or .safetensors; convert it with `python -c"),
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
        for extension in EXTENSIONS {
            let error = TensorFile::from_bytes(format!("a.{extension}"), pointer.to_vec()).unwrap_err();
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
