//! NumPy's `.npz`: a zip archive with one `.npy` per tensor.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive, ZipReadOptions};

use super::owned::{Storage, Tensor};
use super::{TensorError, TensorPlace, npy};

/// The most bytes that a deflated member may unpack to. A larger one must be stored, so that it can be mapped.
const MAX_INFLATED: u64 = 1 << 30;
/// Deflate packs at most this many bytes into one.
const MAX_RATIO: u64 = 1032;

/// An npz file whose directory was read and checked.
#[derive(Debug)]
pub(super) struct Npz {
    path: PathBuf,
    storage: Storage,
    archive: ZipArchive<Cursor<Storage>>,
    names: Vec<String>,
}

impl Npz {
    pub(super) fn open(path: &Path, storage: Storage) -> Result<Self, TensorError> {
        let bad = |problem: String| TensorError::Archive { place: TensorPlace::file(path), problem };
        // The archive must start at the first byte: other readers do not see bytes before it.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let mut archive = ZipArchive::with_config(config, Cursor::new(storage.clone()))
            .map_err(|error| bad(words(error)))?;
        if archive.has_duplicate_names() {
            return Err(bad("two members have the same name".into()));
        }
        let mut names = Vec::with_capacity(archive.len());
        for index in 0..archive.len() {
            let member = archive.by_index_data(index).map_err(|error| bad(words(error)))?;
            let name = member.name().map_err(|error| bad(words(error)))?;
            names.push(tensor_name(&name).map_err(bad)?);
        }
        if archive.has_overlapping_entries().map_err(|error| bad(words(error)))? {
            return Err(bad("its members overlap".into()));
        }
        Ok(Self { path: path.to_owned(), storage, archive, names })
    }

    /// Names in the order of the archive's directory.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The tensor at this position among the names: mapped when it is stored, unpacked when it is deflated.
    ///
    /// The zip checksum of a stored member is not computed, because that would read all of the map. Fixture sets have
    /// checksums of their own.
    pub(super) fn get(&self, index: usize) -> Result<Tensor, TensorError> {
        let place = TensorPlace::tensor(&self.path, &self.names[index]);
        let bad = |problem: String| TensorError::Archive { place: place.clone(), problem };
        // Clones share the archive; each has only a read position of its own.
        let mut archive = self.archive.clone();
        let options = ZipReadOptions::new().enforce_header_consistency(true);
        let mut member = archive.by_index_with_options(index, options).map_err(|error| bad(words(error)))?;
        match member.compression() {
            CompressionMethod::Stored => {
                if member.size() != member.compressed_size() {
                    return Err(bad("it is stored, but its two sizes differ".into()));
                }
                let start = member.data_start().and_then(|start| usize::try_from(start).ok());
                let range = start.zip(usize::try_from(member.size()).ok()).and_then(|(start, size)| {
                    let end = start.checked_add(size)?;
                    (end <= self.storage.as_ref().len()).then_some(start..end)
                });
                let range = range.ok_or_else(|| bad("it lies outside the file".into()))?;
                let header = npy::parse(&place, &self.storage.as_ref()[range.clone()])?;
                fits(&place, header.file_len(), range.len() as u64)?;
                let data = range.start + header.start..range.end;
                Tensor::within(header.dtype, header.shape, header.layout, self.storage.clone(), data)
                    .map_err(|source| TensorError::View { place, source })
            }
            CompressionMethod::Deflated => {
                let declared = member.size();
                if declared > MAX_INFLATED {
                    let problem = format!(
                        "it unpacks to {declared} bytes, at most {MAX_INFLATED} are allowed; store it uncompressed"
                    );
                    return Err(bad(problem));
                }
                if declared > member.compressed_size().saturating_mul(MAX_RATIO).saturating_add(MAX_RATIO) {
                    return Err(bad(format!("it cannot unpack to the {declared} bytes it declares")));
                }
                let mut bytes = Vec::new();
                let unreadable = |error: std::io::Error| bad(error.to_string());
                (&mut member).take(npy::MAX_HEADER as u64).read_to_end(&mut bytes).map_err(unreadable)?;
                let header = npy::parse(&place, &bytes)?;
                fits(&place, header.file_len(), declared)?;
                // One byte past the declared size shows that more follow. Memory grows only with the bytes read.
                let rest = (declared + 1).saturating_sub(bytes.len() as u64);
                member.take(rest).read_to_end(&mut bytes).map_err(unreadable)?;
                fits(&place, header.file_len(), bytes.len() as u64)?;
                let data = header.start..bytes.len();
                Tensor::within(header.dtype, header.shape, header.layout, Storage::owned(bytes), data)
                    .map_err(|source| TensorError::View { place, source })
            }
            other => Err(bad(format!("it is compressed by {other}, expected stored or deflated"))),
        }
    }
}

fn fits(place: &TensorPlace, wanted: u64, found: u64) -> Result<(), TensorError> {
    let place = || place.clone();
    match found {
        _ if found < wanted => Err(TensorError::Truncated { place: place(), wanted, found }),
        _ if found > wanted => Err(TensorError::Longer { place: place(), wanted, found }),
        _ => Ok(()),
    }
}

/// The tensor's name: that of its member, a plain relative path, without its `.npy`.
fn tensor_name(member: &str) -> Result<String, String> {
    let shown = member.escape_debug();
    let plain = member.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !member.contains(|c: char| c == '\\' || c.is_control());
    if !plain {
        return Err(format!("member `{shown}` is not a plain relative path"));
    }
    match member.strip_suffix(".npy") {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(format!("member `{shown}` is not an .npy file")),
    }
}

fn words(error: ZipError) -> String {
    match error {
        ZipError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "it ends in the middle of a zip record".into()
        }
        other => other.to_string(),
    }
}
