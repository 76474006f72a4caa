//! The header of NumPy's `.npy` format, versions 1 to 3.
//!
//! npyz reads the header's dictionary, after a scan has found its text harmless. npyz allocates as much as the length
//! field says, multiplies the shape unchecked, and its parser for Python literals takes time exponential in the depth of
//! nested braces.

use std::path::Path;

use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, TypeStr};

use super::owned::{Layout, Storage, Tensor};
use super::{Dtype, MAX_AXES, TensorError, TensorPlace, byte_len};

const MAGIC: &[u8] = b"\x93NUMPY";
/// The longest dictionary that is read, as in NumPy's own reader.
const MAX_TEXT: usize = 10_000;
/// Bytes that hold every header that can be read.
pub(super) const MAX_HEADER: usize = 12 + MAX_TEXT;
/// The deepest nesting that is parsed. A structured dtype has a few levels; readable headers have at most two.
const MAX_DEPTH: usize = 6;

/// The content of a header, checked.
#[derive(Debug, PartialEq)]
pub(super) struct CheckedHeader {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) layout: Layout,
    /// Where the data starts.
    pub(super) start: usize,
    /// The bytes of data that the shape needs.
    pub(super) len: usize,
}

impl CheckedHeader {
    /// The size of a file with exactly this header and its data.
    pub(super) fn file_len(&self) -> u64 {
        self.start as u64 + self.len as u64
    }
}

/// The tensor of an npy file, which must fill the file.
pub(super) fn open(path: &Path, storage: Storage) -> Result<Tensor, TensorError> {
    let place = TensorPlace::file(path);
    let found = storage.as_ref().len() as u64;
    let header = parse(&place, storage.as_ref())?;
    let wanted = header.file_len();
    if found < wanted {
        return Err(TensorError::Truncated { place, wanted, found });
    }
    if found > wanted {
        return Err(TensorError::Longer { place, wanted, found });
    }
    let range = header.start..header.start + header.len;
    Tensor::within(header.dtype, header.shape, header.layout, storage, range)
        .map_err(|source| TensorError::View { place, source })
}

/// Reads the header at the start of `bytes`; the data need not follow.
pub(super) fn parse(place: &TensorPlace, bytes: &[u8]) -> Result<CheckedHeader, TensorError> {
    let bad = |problem: String| TensorError::Header { place: place.clone(), problem };
    let cut = |wanted: usize| TensorError::Truncated {
        place: place.clone(),
        wanted: wanted as u64,
        found: bytes.len() as u64,
    };
    if !bytes.starts_with(&MAGIC[..MAGIC.len().min(bytes.len())]) {
        return Err(bad("it does not start like an npy file".into()));
    }
    let (text_start, text_len) = match bytes {
        [_, _, _, _, _, _, 1, 0, a, b, ..] => (10, usize::from(u16::from_le_bytes([*a, *b]))),
        [_, _, _, _, _, _, 2 | 3, 0, a, b, c, d, ..] => {
            (12, usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX))
        }
        [_, _, _, _, _, _, 1..=3, 0, ..] | [_, _, _, _, _, _, 1..=3] => return Err(cut(12)),
        [_, _, _, _, _, _, major, minor, ..] => {
            return Err(bad(format!("npy version {major}.{minor} is unknown, expected 1.0, 2.0 or 3.0")));
        }
        _ => return Err(cut(12)),
    };
    if text_len > MAX_TEXT {
        return Err(bad(format!("its dictionary takes {text_len} bytes, at most {MAX_TEXT} are read")));
    }
    let start = text_start + text_len;
    let text = bytes.get(text_start..start).ok_or_else(|| cut(start))?;
    scan(text).map_err(bad)?;

    let header = NpyHeader::from_reader(&bytes[..start]).map_err(|error| bad(error.to_string()))?;
    let NpyElement { dtype, big_endian, parts } =
        element(&header.dtype()).map_err(|found| TensorError::Dtype { place: place.clone(), found })?;
    if header.shape().len() > MAX_AXES {
        return Err(bad(format!("it has {} axes, at most {MAX_AXES} are allowed", header.shape().len())));
    }
    let mut shape: Vec<usize> = header
        .shape()
        .iter()
        .map(|&length| usize::try_from(length))
        .collect::<Result<_, _>>()
        .map_err(|_| bad(format!("shape {:?} is too large for this machine", header.shape())))?;
    let mut fortran = header.order() == Order::Fortran;
    if parts > 1 {
        if fortran && shape.len() > 1 {
            return Err(bad("it holds complex128 in Fortran order; save it in C order".into()));
        }
        fortran = false;
        shape.push(parts);
    }
    let len = byte_len(dtype, &shape).map_err(|source| TensorError::View { place: place.clone(), source })?;
    let layout = Layout { fortran, big_endian };
    Ok(CheckedHeader { dtype, shape, layout, start, len })
}

/// Refuses all text but a plain dictionary of strings, booleans and decimal numbers that is nested a few levels at most
/// and whose numbers multiply to at most 64 bits.
fn scan(text: &[u8]) -> Result<(), String> {
    let mut depth = 0usize;
    let mut braces = 0;
    let mut product = 1u64;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'\'' | b'"' => {
                let rest = &text[at..];
                let end = rest.iter().position(|&b| b == byte).ok_or("a string has no end")?;
                if rest[..end].iter().any(|&b| b == b'\\' || b == b'\n' || b == b'\r') {
                    return Err("a string has an escape or a line break in it".into());
                }
                at += end + 1;
                if matches!(text.get(at), Some(b'\'' | b'"')) {
                    return Err("two strings follow each other".into());
                }
            }
            b'0'..=b'9' => {
                let digits = text[at - 1..].iter().take_while(|b| b.is_ascii_digit());
                let (count, value) = digits.fold((0, Some(0u64)), |(count, value), digit| {
                    let value = value.and_then(|v| v.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
                    (count + 1, value)
                });
                at += count - 1;
                // A zero makes an empty tensor, but npyz multiplies in order and could overflow before it.
                product = value
                    .and_then(|value| product.checked_mul(value.max(1)))
                    .ok_or("its numbers multiply to more than 64 bits")?;
            }
            b'(' | b'[' | b'{' => {
                depth += 1;
                braces += usize::from(byte == b'{');
                if depth > MAX_DEPTH || braces > 1 {
                    return Err("it is nested too deeply".into());
                }
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' | b' ' | b'\n' | b'\t' | b'-' => {}
            // The letters of True, False and None.
            letter if b"TrueFalsNon".contains(&letter) => {}
            other => return Err(format!("`{}` does not belong there", other.escape_ascii())),
        }
    }
    Ok(())
}

/// The elements of a file.
struct NpyElement {
    dtype: Dtype,
    big_endian: bool,
    /// Numbers of this dtype per element: two for complex128, which MLX does not have. It is read as float64 with a last
    /// axis of two, the real and the imaginary part.
    parts: usize,
}

/// The elements of this type, or a description of a type that no tensor can have.
fn element(descr: &DType) -> Result<NpyElement, String> {
    let DType::Plain(plain) = descr else {
        return Err("structured elements".into());
    };
    let dtype = match (plain.type_char(), plain.size_field()) {
        (TypeChar::Bool, 1) => Dtype::Bool,
        (TypeChar::Uint, 1) => Dtype::Uint8,
        (TypeChar::Uint, 2) => Dtype::Uint16,
        (TypeChar::Uint, 4) => Dtype::Uint32,
        (TypeChar::Uint, 8) => Dtype::Uint64,
        (TypeChar::Int, 1) => Dtype::Int8,
        (TypeChar::Int, 2) => Dtype::Int16,
        (TypeChar::Int, 4) => Dtype::Int32,
        (TypeChar::Int, 8) => Dtype::Int64,
        (TypeChar::Float, 2) => Dtype::Float16,
        (TypeChar::Float, 4) => Dtype::Float32,
        (TypeChar::Float, 8) => Dtype::Float64,
        (TypeChar::Complex, 8) => Dtype::Complex64,
        (TypeChar::Complex, 16) => Dtype::Float64,
        // NumPy has no bfloat16: both ml_dtypes and MLX write its bytes as this.
        (TypeChar::RawData, 2) if plain.endianness() == Endianness::Little => Dtype::Bfloat16,
        _ => return Err(refused(plain)),
    };
    let parts = if plain.type_char() == TypeChar::Complex && dtype == Dtype::Float64 { 2 } else { 1 };
    Ok(NpyElement { dtype, big_endian: plain.endianness() == Endianness::Big, parts })
}

fn refused(plain: &TypeStr) -> String {
    let words = match plain.type_char() {
        TypeChar::Object => "pickled Python objects",
        TypeChar::ByteStr => "byte strings",
        TypeChar::UnicodeStr => "strings",
        TypeChar::DateTime | TypeChar::TimeDelta => "dates or durations",
        TypeChar::Float => "extended floats",
        TypeChar::Complex => "complex numbers wider than complex128",
        TypeChar::RawData if plain.size_field() == 1 => "raw bytes or 8-bit floats",
        TypeChar::RawData if plain.size_field() == 2 => "raw pairs of bytes (bfloat16 is `<V2`)",
        TypeChar::RawData => "raw bytes",
        _ => "unknown elements",
    };
    format!("{words} (`{plain}`)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, dict: &str) -> Vec<u8> {
        let mut bytes = [MAGIC, &[version, 0]].concat();
        match version {
            1 => bytes.extend((dict.len() as u16).to_le_bytes()),
            _ => bytes.extend((dict.len() as u32).to_le_bytes()),
        }
        bytes.extend(dict.as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<CheckedHeader, String> {
        parse(&TensorPlace::file(Path::new("a.npy")), bytes).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refuses(dict: &str, words: &str) {
        let error = read(&file(1, dict)).unwrap_err();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn every_version_is_read() {
        for version in 1..=3 {
            let bytes = file(version, "{'descr': '>c8', 'fortran_order': True, 'shape': (2, 3), }  \n");
            let header = read(&bytes).unwrap();
            let layout = Layout { fortran: true, big_endian: true };
            let expected = CheckedHeader {
                dtype: Dtype::Complex64,
                shape: vec![2, 3],
                layout,
                start: bytes.len(),
                len: 48,
            };
            assert_eq!(header, expected);
        }
        let error = read(&file(4, "{}")).unwrap_err();
        assert_eq!(error, "`a.npy` has a bad header: npy version 4.0 is unknown, expected 1.0, 2.0 or 3.0");
    }

    #[test]
    fn complex128_is_float64_with_a_last_axis_of_two() {
        let dict = |order: &str, shape: &str| {
            file(1, &format!("{{'descr': '>c16', 'fortran_order': {order}, 'shape': {shape}, }}\n"))
        };
        for (bytes, shape) in [
            (dict("False", "(2, 3)"), vec![2, 3, 2]),
            (dict("False", "()"), vec![2]),
            (dict("True", "(4,)"), vec![4, 2]),
        ] {
            let layout = Layout { fortran: false, big_endian: true };
            let len = 8 * shape.iter().product::<usize>();
            let expected = CheckedHeader { dtype: Dtype::Float64, shape, layout, start: bytes.len(), len };
            assert_eq!(read(&bytes).unwrap(), expected);
        }
        let error = read(&dict("True", "(2, 3)")).unwrap_err();
        assert!(error.ends_with("it holds complex128 in Fortran order; save it in C order"), "{error}");
    }

    #[test]
    fn what_no_tensor_can_hold_is_refused_by_name() {
        let dict = |descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        for (descr, words) in [
            ("'|O'", "`a.npy` holds pickled Python objects (`|O`), expected one of bool, uint8,"),
            ("'<U3'", "holds strings (`<U3`)"),
            ("'|S3'", "holds byte strings (`|S3`)"),
            ("'<f16'", "holds extended floats (`<f16`)"),
            ("'<c32'", "holds complex numbers wider than complex128 (`<c32`)"),
            ("'<V1'", "holds raw bytes or 8-bit floats (`<V1`)"),
            ("'|V2'", "holds raw pairs of bytes (bfloat16 is `<V2`) (`|V2`)"),
            ("'<M8[ns]'", "holds dates or durations (`<M8[ns]`)"),
            ("[('a', '<f4'), ('b', '<i4', (2, 2))]", "holds structured elements"),
        ] {
            refuses(&dict(descr), words);
        }
    }

    #[test]
    fn hostile_headers_are_refused_before_they_are_parsed() {
        let shape = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
        refuses(&shape("(4294967296, 4294967296, 2)"), "multiply to more than 64 bits");
        refuses(&shape("(0, 4294967296, 4294967296, 2)"), "multiply to more than 64 bits");
        refuses(&shape("(99999999999999999999,)"), "multiply to more than 64 bits");
        refuses(&shape("(4611686018427387904,)"), "is not a valid tensor");
        refuses(&shape("(-1,)"), "dimension cannot be negative");
        refuses(&shape("(1.5,)"), "`.` does not belong there");
        refuses(&shape("(0x10,)"), "`x` does not belong there");
        refuses(&shape(&format!("({})", "1,".repeat(65))), "it has 65 axes, at most 64 are allowed");
        refuses(&"{".repeat(9000), "nested too deeply");
        refuses(&"(".repeat(9000), "nested too deeply");
        refuses("{'descr': '<f4", "a string has no end");
        refuses("{'descr': '<f4', 'shape': (1,)}", "fortran_order");
        refuses("[1]", "expected a python dict literal");
        let mut long = file(2, "");
        long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read(&long).unwrap_err().ends_with("takes 4294967295 bytes, at most 10000 are read"));
    }

    #[test]
    fn a_cut_header_is_truncated_at_every_length() {
        let bytes = file(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n");
        for end in 0..bytes.len() {
            let error = read(&bytes[..end]).unwrap_err();
            assert!(error.contains("is truncated"), "{end}: {error}");
        }
        assert!(read(b"PK\x03\x04").unwrap_err().contains("does not start like an npy file"));
    }
}
