//! The part of a tensor that ranges select, as in `[1:2, 3:]`.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bounds;

/// One range per leading axis of a tensor. Axes without a range are whole, and every axis stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorPart {
    ranges: Vec<(Option<i64>, Option<i64>)>,
}

impl TensorPart {
    /// Reads `[1:2, 3:]`. A negative bound counts from the end of its axis.
    ///
    /// # Errors
    ///
    /// What was found, when the text has another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let inside = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let inside = inside.ok_or_else(|| format!("`{text}` is not in brackets"))?;
        let ranges = inside.split(',').map(range).collect::<Result<Vec<_>, String>>()?;
        if ranges.len() > bounds::RANK {
            return Err(format!(
                "`{text}` has {} ranges, and a tensor at most {} axes",
                ranges.len(),
                bounds::RANK
            ));
        }
        if ranges.iter().all(|range| *range == (None, None)) {
            return Err(format!("`{text}` is the whole tensor; leave it out"));
        }
        Ok(Self { ranges })
    }

    /// Returns the selected indices of each axis of a tensor with this shape.
    ///
    /// # Errors
    ///
    /// When the tensor has fewer axes, or a range is empty or leaves its axis.
    pub fn of(&self, shape: &[usize]) -> Result<Vec<Range<usize>>, String> {
        if self.ranges.len() > shape.len() {
            return Err(format!("`{self}` has {} ranges, but the shape is {shape:?}", self.ranges.len()));
        }
        let mut parts: Vec<Range<usize>> = shape.iter().map(|&length| 0..length).collect();
        for (axis, (range, part)) in self.ranges.iter().zip(&mut parts).enumerate() {
            let length = part.end;
            let bound = |bound: Option<i64>, default: usize| match bound {
                None => Some(default),
                Some(bound) if bound < 0 => {
                    length.checked_sub(usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX))
                }
                Some(bound) => usize::try_from(bound).ok(),
            };
            let selected = bound(range.0, 0).zip(bound(range.1, length));
            let selected = selected.filter(|&(start, end)| start < end && end <= length);
            let Some((start, end)) = selected else {
                return Err(format!(
                    "`{self}` selects nothing on axis {axis}, or leaves it: the shape is {shape:?}"
                ));
            };
            *part = start..end;
        }
        Ok(parts)
    }
}

fn range(text: &str) -> Result<(Option<i64>, Option<i64>), String> {
    let wrong = || format!("`{}` is not a range such as `1:2`, `3:`, `:-1` or `:`", text.trim());
    let (start, end) = text.split_once(':').ok_or_else(wrong)?;
    let bound = |text: &str| match text.trim() {
        "" => Ok(None),
        text => text.parse::<i64>().map(Some).map_err(|_| wrong()),
    };
    Ok((bound(start)?, bound(end)?))
}

impl fmt::Display for TensorPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: Option<i64>| bound.map(|bound| bound.to_string()).unwrap_or_default();
        let ranges: Vec<String> =
            self.ranges.iter().map(|&(start, end)| format!("{}:{}", bound(start), bound(end))).collect();
        write!(f, "[{}]", ranges.join(", "))
    }
}

impl Serialize for TensorPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TensorPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shape: &[usize], expected: &[Range<usize>]) {
        let part = TensorPart::parse(text).unwrap();
        assert_eq!(part.of(shape).unwrap(), expected);
        assert_eq!(TensorPart::parse(&part.to_string()).unwrap(), part);
    }

    #[test]
    fn ranges_select_as_in_numpy_and_keep_every_axis() {
        check("[1:2, 3:]", &[2, 8, 4], &[1..2, 3..8, 0..4]);
        check("[:, -1:]", &[2, 8], &[0..2, 7..8]);
        check(" [ : , : -1 ] ", &[2, 8], &[0..2, 0..7]);
    }

    #[test]
    fn what_numpy_would_clamp_or_drop_is_an_error() {
        let of = |text: &str, shape: &[usize]| TensorPart::parse(text).unwrap().of(shape).unwrap_err();
        assert_eq!(
            of("[:, 9:]", &[2, 8]),
            "`[:, 9:]` selects nothing on axis 1, or leaves it: the shape is [2, 8]"
        );
        assert!(of("[:9]", &[8]).contains("leaves it"));
        assert!(of("[-9:]", &[8]).contains("leaves it"));
        assert!(of("[2:1]", &[8]).contains("selects nothing"));
        assert_eq!(of("[:, 1:]", &[8]), "`[:, 1:]` has 2 ranges, but the shape is [8]");
        let wrong = |text: &str| TensorPart::parse(text).unwrap_err();
        assert_eq!(wrong("1:2"), "`1:2` is not in brackets");
        assert_eq!(wrong("[1]"), "`1` is not a range such as `1:2`, `3:`, `:-1` or `:`");
        assert!(wrong("[1:x]").contains("not a range"));
        assert!(wrong("[::2]").contains("not a range"));
        assert_eq!(wrong("[:, :]"), "`[:, :]` is the whole tensor; leave it out");
        assert!(wrong("[1:,1:,1:,1:,1:,1:,1:,1:,1:,1:,1:,1:,1:,1:,1:,1:,1:]").contains("at most 16 axes"));
    }
}
