//! Copies a tensor file without some of its tensors. The bytes of the others stay as they are.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use zip::{ZipArchive, ZipWriter};

use mlx_parity_core::files::regular;
use mlx_parity_core::tensor::TensorFormat;

/// The keys of one tensor file.
#[derive(Debug, Default)]
pub(super) struct Smaller {
    pub(super) kept: BTreeSet<String>,
    pub(super) dropped: BTreeSet<String>,
}

/// Copies a file without the dropped tensors. A file in which every tensor is dropped is not copied at all.
pub(super) fn drop_tensors(from: &Path, to: &Path, names: &Smaller) -> io::Result<()> {
    let file = BufReader::new(regular::open(from)?);
    let to = BufWriter::new(File::create_new(to)?);
    match TensorFormat::of(from) {
        Ok(TensorFormat::Safetensors) => safetensors(file, to, &names.dropped),
        Ok(TensorFormat::Npz) => npz(file, to, &names.dropped),
        // An npy file holds one tensor, so nothing else is left of it.
        Ok(TensorFormat::Npy) => Err(bad("an npy file holds one tensor only")),
        Ok(_) => Err(bad("tensors of such a file cannot be removed")),
        Err(error) => Err(bad(error.to_string())),
    }
}

fn bad(problem: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.into())
}

/// A safetensors file is the length of its header, the header as JSON, and the bytes of the tensors without gaps.
fn safetensors(mut from: impl Read + Seek, mut to: impl Write, dropped: &BTreeSet<String>) -> io::Result<()> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > regular::TEXT {
        return Err(bad(format!("its header has {length} bytes")));
    }
    let mut header = Vec::new();
    (&mut from).take(length).read_to_end(&mut header)?;
    let header: Map<String, Value> = serde_json::from_slice(&header)?;
    let mut smaller = Map::new();
    let mut ranges = Vec::new();
    for (name, tensor) in header.into_iter().filter(|(name, _)| !dropped.contains(name)) {
        match tensor.get("data_offsets").map(|range| serde_json::from_value::<(u64, u64)>(range.clone())) {
            Some(range) => ranges.push((range?, name, tensor)),
            // `__metadata__` is no tensor.
            None => _ = smaller.insert(name, tensor),
        }
    }
    ranges.sort_by_key(|(range, ..)| *range);
    let mut end = 0;
    let mut copied = Vec::new();
    for ((first, last), name, mut tensor) in ranges {
        let bytes = last.checked_sub(first).ok_or_else(|| bad(format!("`{name}` ends before it starts")))?;
        tensor["data_offsets"] = json!([end, end + bytes]);
        end += bytes;
        smaller.insert(name, tensor);
        copied.push((first, bytes));
    }
    let mut text = serde_json::to_vec(&smaller)?;
    // The tensors start at a multiple of eight bytes.
    text.resize(text.len().next_multiple_of(8), b' ');
    to.write_all(&(text.len() as u64).to_le_bytes())?;
    to.write_all(&text)?;
    for (first, bytes) in copied {
        from.seek(SeekFrom::Start(8 + length + first))?;
        if io::copy(&mut (&mut from).take(bytes), &mut to)? != bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    to.flush()
}

fn npz(from: impl Read + Seek, to: impl Write + Seek, dropped: &BTreeSet<String>) -> io::Result<()> {
    let mut archive = ZipArchive::new(from).map_err(io::Error::from)?;
    let mut writer = ZipWriter::new(to);
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index).map_err(io::Error::from)?;
        let name = member.name().map_err(io::Error::from)?.into_owned();
        if !dropped.contains(name.strip_suffix(".npy").unwrap_or(&name)) {
            writer.raw_copy_file(member).map_err(io::Error::from)?;
        }
    }
    writer.finish().map_err(io::Error::from)?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_parity_core::tensor::TensorFile;

    /// A safetensors file with the tensors `a`, `b` and `c` of one float32 each.
    fn three() -> Vec<u8> {
        let header = json!({
            "__metadata__": {"format": "pt"},
            "c": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},
            "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
        })
        .to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        [1f32, 2.0, 3.0].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes
    }

    #[test]
    fn the_other_tensors_keep_their_bytes() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("a.safetensors"), home.path().join("b.safetensors"));
        std::fs::write(&from, three()).unwrap();
        let names = Smaller { kept: ["a", "c"].map(String::from).into(), dropped: ["b".to_owned()].into() };
        drop_tensors(&from, &to, &names).unwrap();
        let file = TensorFile::open(&to).unwrap();
        let mut found: Vec<&str> = file.names().collect();
        found.sort_unstable();
        assert_eq!(found, ["a", "c"]);
        for (name, value) in [("a", 1f32), ("c", 3.0)] {
            let tensor = file.get(name).unwrap();
            assert_eq!(tensor.view().row_major_bytes(), Some(&value.to_le_bytes()[..]));
        }
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let names = Smaller { kept: ["a".to_owned()].into(), dropped: ["b".to_owned()].into() };
        let whole = three();
        for (number, bytes) in
            [&whole[..4], &whole[..60], &whole[..whole.len() - 2], &[0xff; 64][..]].iter().enumerate()
        {
            let (from, to) =
                (home.path().join("x.safetensors"), home.path().join(format!("{number}.safetensors")));
            std::fs::write(&from, bytes).unwrap();
            let names = Smaller { kept: names.kept.clone(), dropped: names.dropped.clone() };
            let refused = drop_tensors(&from, &to, &names).is_err();
            // The last tensor is cut short; it is not dropped.
            assert!(refused, "{number}");
        }
    }
}
