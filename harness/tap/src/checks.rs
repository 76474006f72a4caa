//! Small checks for model code, in places where a wrong number would go unnoticed.
//!
//! MLX reads past the end of an array without an error, and `zip` drops what is left over. Each check returns an error that
//! names the value and the line of the caller. None of them evaluates an array.

use std::fmt::Display;
use std::panic::Location;

use mlx_rs::error::Exception;

/// The magnitude that [`not_tiny`] requires.
pub const TINY: f64 = 1e-10;

/// Returns `index` if it is at least 0 and below `len`.
///
/// MLX takes an index that is too large without an error, and reads whatever lies there.
///
/// ```
/// use mlx_parity_tap::checked_index;
///
/// let sigmas = [1.0, 0.5, 0.0];
/// let step = checked_index("step", 2, sigmas.len())?;
/// assert_eq!(sigmas[step], 0.0);
/// let error = checked_index("step", 3, sigmas.len()).unwrap_err();
/// assert!(error.what().starts_with("`step` is 3, expected 0 to 2 ("));
/// # Ok::<(), mlx_rs::error::Exception>(())
/// ```
///
/// # Errors
/// When the index is outside, or when either number does not fit into 64 bits.
#[track_caller]
pub fn checked_index<I>(what: &str, index: I, len: impl TryInto<i64>) -> Result<I, Exception>
where
    I: Copy + Display + TryInto<i64>,
{
    let len = len.try_into().unwrap_or(-1);
    if index.try_into().is_ok_and(|index| (0..len).contains(&index)) {
        return Ok(index);
    }
    let allowed = if len > 0 {
        format!("expected 0 to {}", len - 1)
    } else {
        "but there is nothing to index".to_owned()
    };
    Err(failed(&format!("`{what}` is {index}, {allowed}"), Location::caller()))
}

/// Checks that two sequences have the same length, before they are zipped or indexed together.
///
/// ```
/// use mlx_parity_tap::same_len;
///
/// let (sigmas, timesteps) = ([1.0, 0.5], [1000, 500, 0]);
/// let error = same_len("sigmas", sigmas.len(), "timesteps", timesteps.len()).unwrap_err();
/// assert!(error.what().starts_with("`sigmas` has length 2, but `timesteps` has length 3 ("));
/// same_len("sigmas", 2, "timesteps", 2)?;
/// # Ok::<(), mlx_rs::error::Exception>(())
/// ```
///
/// # Errors
/// When the lengths differ.
#[track_caller]
pub fn same_len<L: PartialEq + Display>(a: &str, a_len: L, b: &str, b_len: L) -> Result<(), Exception> {
    if a_len == b_len {
        return Ok(());
    }
    Err(failed(&format!("`{a}` has length {a_len}, but `{b}` has length {b_len}"), Location::caller()))
}

/// Returns `value` if its magnitude is above [`TINY`] and finite: a divisor, a norm, the width of a range.
///
/// ```
/// use mlx_parity_tap::not_tiny;
///
/// assert_eq!(not_tiny("sigma", 0.5f32)?, 0.5);
/// let error = not_tiny("sigma", 0.0f32).unwrap_err();
/// assert!(error.what().starts_with("`sigma` is 0, expected a finite number with a magnitude above 1e-10 ("));
/// # Ok::<(), mlx_rs::error::Exception>(())
/// ```
///
/// # Errors
/// When the value is too small, NaN or infinite.
#[track_caller]
pub fn not_tiny<V: Copy + Display + Into<f64>>(what: &str, value: V) -> Result<V, Exception> {
    let magnitude = value.into().abs();
    if magnitude > TINY && magnitude.is_finite() {
        return Ok(value);
    }
    let text = format!("`{what}` is {value}, expected a finite number with a magnitude above {TINY:e}");
    Err(failed(&text, Location::caller()))
}

fn failed(text: &str, place: &Location<'_>) -> Exception {
    Exception::custom(format!("{text} ({}:{})", place.file(), place.line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_must_be_inside() {
        assert_eq!(checked_index("i", 0usize, 1usize).unwrap(), 0);
        assert_eq!(checked_index("i", 3i32, 4usize).unwrap(), 3);
        for (index, len) in [(-1i32, 4usize), (4, 4), (0, 0)] {
            let error = checked_index("i", index, len).unwrap_err();
            assert!(error.what().contains(&format!("`i` is {index}, ")), "{}", error.what());
            assert!(error.what().contains("checks.rs:"), "names the caller: {}", error.what());
        }
        assert!(checked_index("i", u64::MAX, 4usize).is_err());
        assert!(checked_index("i", 0, -3).unwrap_err().what().contains("nothing to index"));
    }

    #[test]
    fn lengths_must_agree() {
        assert!(same_len("a", 3, "b", 3).is_ok());
        assert!(
            same_len("a", 3, "b", 4).unwrap_err().what().contains("`a` has length 3, but `b` has length 4")
        );
    }

    #[test]
    fn a_divisor_must_not_be_tiny() {
        assert_eq!(not_tiny("x", -2e-10f64).unwrap(), -2e-10);
        for value in [0.0, 1e-10, -1e-11, f64::NAN, f64::INFINITY] {
            assert!(not_tiny("x", value).is_err(), "{value}");
        }
    }
}
