//! Slots of a cache, matched by the positions that they hold.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

use crate::tensor::{Dtype, Tensor, TensorView};

/// Positions that a message names before it counts the others.
const NAMED: usize = 6;

/// Which slot of a port's cache holds what the reference has in each of its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMatch {
    axis: usize,
    /// The position of each slot of the reference.
    positions: Vec<i64>,
    /// For each slot of the reference, the slot of the port with the same position.
    slots: Vec<usize>,
}

/// Why slots cannot be matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotsError {
    /// The key of the spec, or the golden, cannot be used.
    Spec(String),
    /// The port's tensor does not have one row per slot.
    Shape(String),
    /// The port's cache holds other positions than the reference's.
    Positions(String),
}

impl SlotMatch {
    /// Matches the slots of two caches along `axis`. Both tensors hold one position per slot. A negative position marks
    /// a slot of the port as empty.
    ///
    /// # Errors
    ///
    /// When the reference holds a position twice or has an empty slot, and when the port's positions are not exactly
    /// those of the reference.
    pub fn new(axis: usize, expected: &Tensor, actual: &Tensor) -> Result<Self, SlotsError> {
        let positions =
            numbers(expected).map_err(|found| SlotsError::Spec(format!("expected positions: {found}")))?;
        let held = numbers(actual).map_err(SlotsError::Shape)?;
        let mut wanted = HashSet::new();
        if let Some(wrong) = positions.iter().find(|position| **position < 0 || !wanted.insert(**position)) {
            let text =
                format!("expected positions: {wrong} is negative or appears twice, expected one per slot");
            return Err(SlotsError::Spec(text));
        }
        let mut slot_of: BTreeMap<i64, usize> = BTreeMap::new();
        let mut twice = Vec::new();
        for (slot, &position) in held.iter().enumerate().filter(|(_, position)| **position >= 0) {
            match slot_of.entry(position) {
                Entry::Vacant(free) => drop(free.insert(slot)),
                Entry::Occupied(first) => twice.push((position, *first.get(), slot)),
            }
        }
        let extra: Vec<String> = slot_of
            .iter()
            .filter(|(position, _)| !wanted.contains(position))
            .map(|(position, slot)| format!("{position} (slot {slot})"))
            .collect();
        let missing: Vec<String> = positions
            .iter()
            .filter(|position| !slot_of.contains_key(position))
            .map(ToString::to_string)
            .collect();
        if missing.is_empty() && extra.is_empty() && twice.is_empty() {
            let slots = positions.iter().filter_map(|position| slot_of.get(position).copied()).collect();
            return Ok(Self { axis, positions, slots });
        }
        let mut parts = Vec::new();
        match missing.len() {
            0 => {}
            1 => parts.push(format!("position {} is missing from the cache", missing[0])),
            _ => parts.push(format!("positions {} are missing from the cache", named(&missing))),
        }
        if let Some((position, first, slot)) = twice.first() {
            let others =
                if twice.len() > 1 { format!(", and {} more", twice.len() - 1) } else { String::new() };
            parts.push(format!("position {position} is held twice, in slots {first} and {slot}{others}"));
        }
        match extra.len() {
            0 => {}
            1 => parts.push(format!("position {} should not be in the cache", extra[0])),
            _ => parts.push(format!("positions {} should not be in the cache", named(&extra))),
        }
        Err(SlotsError::Positions(parts.join("; ")))
    }

    /// Returns the shape that a port's tensor of this shape has after [`SlotMatch::matched`], with one row per slot of the
    /// reference; the shape as it is if it has other axes.
    pub fn matched_shape(axis: usize, expected: &[usize], actual: &[usize]) -> Vec<usize> {
        let mut shape = actual.to_vec();
        if let (true, Some(length), Some(&wanted)) =
            (expected.len() == actual.len(), shape.get_mut(axis), expected.get(axis))
        {
            *length = wanted;
        }
        shape
    }

    /// Returns the rows of the port's tensor in the order of the reference's slots, without those of empty slots.
    ///
    /// # Errors
    ///
    /// When the tensor has no such axis, or too few rows along it.
    pub fn matched(&self, actual: &TensorView<'_>) -> Result<Tensor, SlotsError> {
        let rows = self.rows(actual.shape())?;
        let size = actual.dtype().size();
        let mut shape = actual.shape().to_vec();
        shape[self.axis] = self.slots.len();
        let run = rows.inner * size;
        let mut bytes = vec![0; rows.outer * self.slots.len() * run];
        for (row, out) in bytes.chunks_mut(run.max(1)).enumerate() {
            let (outer, slot) = (row / self.slots.len().max(1), row % self.slots.len().max(1));
            actual.gather((outer * rows.slots + self.slots[slot]) * rows.inner, out);
        }
        Ok(made(actual.dtype(), shape, bytes))
    }

    /// Returns the port's tensor with the reference's rows in the port's slots. Empty slots stay as they are.
    ///
    /// `expected` must have the shape that [`SlotMatch::matched`] gives, and the same dtype.
    ///
    /// # Errors
    ///
    /// When the tensor has no such axis, or too few rows along it.
    pub fn put(&self, actual: &TensorView<'_>, expected: &TensorView<'_>) -> Result<Tensor, SlotsError> {
        let rows = self.rows(actual.shape())?;
        let run = rows.inner * actual.dtype().size();
        let mut bytes = vec![0; actual.len() * actual.dtype().size()];
        actual.gather(0, &mut bytes);
        for outer in 0..rows.outer {
            for (row, slot) in self.slots.iter().enumerate() {
                let to = (outer * rows.slots + slot) * run;
                expected.gather((outer * self.slots.len() + row) * rows.inner, &mut bytes[to..to + run]);
            }
        }
        Ok(made(actual.dtype(), actual.shape().to_vec(), bytes))
    }

    /// Returns the position and the port's slot of an element of the matched tensor.
    pub fn place_of(&self, index: &[usize]) -> Option<(i64, usize)> {
        let row = *index.get(self.axis)?;
        Some((*self.positions.get(row)?, *self.slots.get(row)?))
    }

    fn rows(&self, shape: &[usize]) -> Result<Rows, SlotsError> {
        let Some(&slots) = shape.get(self.axis) else {
            let text = format!("`positions` names axis {}, but the shape is {shape:?}", self.axis);
            return Err(SlotsError::Spec(text));
        };
        if let Some(last) = self.slots.iter().max().filter(|last| **last >= slots) {
            let text = format!(
                "axis {} of {shape:?} has {slots} slots, but slot {last} holds a position",
                self.axis
            );
            return Err(SlotsError::Shape(text));
        }
        let inner = shape[self.axis + 1..].iter().product();
        Ok(Rows { outer: shape[..self.axis].iter().product(), slots, inner })
    }
}

/// A shape around the axis with the slots.
struct Rows {
    /// Elements of all axes before.
    outer: usize,
    slots: usize,
    /// Elements of all axes behind.
    inner: usize,
}

/// The integers of a tensor of one axis.
fn numbers(tensor: &Tensor) -> Result<Vec<i64>, String> {
    let dtype = tensor.dtype();
    if tensor.shape().len() != 1 || !dtype.is_integer() {
        return Err(format!("has {dtype} {:?}, expected one integer per slot", tensor.shape()));
    }
    let mut bytes = vec![0; tensor.len() * dtype.size()];
    tensor.view().gather(0, &mut bytes);
    Ok(bytes.chunks_exact(dtype.size()).map(|element| integer(dtype, element)).collect())
}

/// An integer in native byte order. One that is too large for `i64` is no position.
fn integer(dtype: Dtype, bytes: &[u8]) -> i64 {
    macro_rules! read {
        ($($dtype:ident: $kind:ty),*) => {
            match dtype {
                $(Dtype::$dtype => i64::try_from(bytemuck::pod_read_unaligned::<$kind>(bytes)).unwrap_or(i64::MAX),)*
                _ => -1,
            }
        };
    }
    read!(Int8: i8, Int16: i16, Int32: i32, Int64: i64, Uint8: u8, Uint16: u16, Uint32: u32, Uint64: u64)
}

/// The first of several names, and the number of the others.
fn named(names: &[String]) -> String {
    match names {
        [first, .., last] if names.len() <= NAMED => {
            let between: String = names[1..names.len() - 1].iter().map(|name| format!(", {name}")).collect();
            format!("{first}{between} and {last}")
        }
        _ => {
            let shown = names.len().min(NAMED);
            format!("{} and {} more", names[..shown].join(", "), names.len() - shown)
        }
    }
}

/// A tensor of bytes that were counted for its shape. They are in native byte order.
fn made(dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8>) -> Tensor {
    match Tensor::from_vec(dtype, shape, bytes) {
        Ok(tensor) => tensor,
        Err(error) => unreachable!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(positions: &[i32]) -> Tensor {
        let bytes = positions.iter().flat_map(|position| position.to_le_bytes()).collect();
        Tensor::from_vec(Dtype::Int32, vec![positions.len()], bytes).unwrap()
    }

    fn floats(shape: &[usize], values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Tensor::from_vec(Dtype::Float32, shape.to_vec(), bytes).unwrap()
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        let mut bytes = vec![0; tensor.len() * 4];
        tensor.view().gather(0, &mut bytes);
        bytes.chunks(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
    }

    #[track_caller]
    fn differs(expected: &[i32], actual: &[i32], text: &str) {
        let found = SlotMatch::new(0, &ids(expected), &ids(actual)).unwrap_err();
        assert_eq!(found, SlotsError::Positions(text.to_owned()));
    }

    #[test]
    fn rows_are_matched_by_position_and_empty_slots_are_left_out() {
        let found = SlotMatch::new(1, &ids(&[3, 4, 5]), &ids(&[-1, 5, 3, 4])).unwrap();
        let actual = floats(&[2, 4, 1], &[9., 50., 30., 40., 8., 51., 31., 41.]);
        let matched = found.matched(&actual.view()).unwrap();
        assert_eq!(matched.shape(), [2, 3, 1]);
        assert_eq!(values(&matched), [30., 40., 50., 31., 41., 51.]);
        let put = found.put(&actual.view(), &floats(&[2, 3, 1], &[1., 2., 3., 4., 5., 6.]).view()).unwrap();
        assert_eq!(values(&put), [9., 3., 1., 2., 8., 6., 4., 5.]);
        assert_eq!(found.place_of(&[1, 2, 0]), Some((5, 1)));
        assert_eq!(SlotMatch::matched_shape(1, &[2, 3, 1], &[2, 4, 1]), [2, 3, 1]);
        assert_eq!(SlotMatch::matched_shape(1, &[2, 3], &[2, 4, 1]), [2, 4, 1]);
    }

    #[test]
    fn other_positions_are_named() {
        differs(&[3, 17], &[3, -1], "position 17 is missing from the cache");
        differs(&[3, 4, 5], &[3], "positions 4 and 5 are missing from the cache");
        differs(&[3, 4], &[3, 4, 3], "position 3 is held twice, in slots 0 and 2");
        differs(&[3, 4], &[4, 3, 5], "position 5 (slot 2) should not be in the cache");
        differs(
            &[3, 4],
            &[2, 3, 3],
            "position 4 is missing from the cache; position 3 is held twice, in slots 1 and 2; \
             position 2 (slot 0) should not be in the cache",
        );
        let many: Vec<i32> = (0..9).collect();
        differs(&many, &[], "positions 0, 1, 2, 3, 4, 5 and 3 more are missing from the cache");
        differs(
            &[],
            &[0, 1, 2],
            "positions 0 (slot 0), 1 (slot 1) and 2 (slot 2) should not be in the cache",
        );
    }

    #[test]
    fn tensors_without_a_position_per_slot_are_refused() {
        let spec = |text: &str| SlotsError::Spec(text.to_owned());
        let of = |expected: &Tensor, actual: &Tensor| SlotMatch::new(0, expected, actual).unwrap_err();
        let twice = "expected positions: 3 is negative or appears twice, expected one per slot";
        assert_eq!(of(&ids(&[3, 3]), &ids(&[3])), spec(twice));
        let empty = "expected positions: -1 is negative or appears twice, expected one per slot";
        assert_eq!(of(&ids(&[-1]), &ids(&[3])), spec(empty));
        let two_axes = floats(&[1, 1], &[1.0]);
        let text = "has float32 [1, 1], expected one integer per slot";
        assert_eq!(of(&ids(&[1]), &two_axes), SlotsError::Shape(text.to_owned()));
        assert_eq!(of(&two_axes, &ids(&[1])), spec(&format!("expected positions: {text}")));
    }

    #[test]
    fn a_tensor_with_fewer_rows_than_slots_does_not_match() {
        let found = SlotMatch::new(1, &ids(&[0, 1]), &ids(&[0, 1])).unwrap();
        let short = found.matched(&floats(&[2, 1], &[1., 2.]).view()).unwrap_err();
        let text = "axis 1 of [2, 1] has 1 slots, but slot 1 holds a position";
        assert_eq!(short, SlotsError::Shape(text.to_owned()));
        let flat = found.matched(&floats(&[2], &[1., 2.]).view()).unwrap_err();
        assert_eq!(flat, SlotsError::Spec("`positions` names axis 1, but the shape is [2]".to_owned()));
    }
}
