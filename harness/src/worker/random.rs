//! Detects draws from MLX's global random state. A port cannot draw the same numbers as its reference.
//!
//! mlx-rs does not expose the state. So the worker seeds it before the run, and compares the next draw after the run.

use mlx_rs::error::Exception;
use mlx_rs::random::{RandomState, randint, seed};

use mlx_parity_core::run_folder::Drew;

/// An arbitrary seed that no port is likely to use.
const SEED: u64 = 0x6d6c_785f_7061_7269;
/// Largest number of draws that is counted. Above it, the number is reported as unknown.
const COUNTED: u32 = 4096;

/// Seeds this thread's random state and so resets the number of draws to 0.
pub(super) fn reset_draws() -> Result<(), Exception> {
    seed(SEED)
}

/// Returns the number of draws without a key on this thread since [`reset_draws`], or `None` if there were none.
pub(super) fn draws() -> Result<Option<Drew>, Exception> {
    let drawn = draw(None)?;
    let mut state = RandomState::with_seed(SEED)?;
    for times in 0..=COUNTED {
        if draw(Some(&state.next_key()?))? == drawn {
            return Ok((times > 0).then_some(Drew { times: Some(times) }));
        }
    }
    Ok(Some(Drew { times: None }))
}

/// Returns four random numbers. Two different states give the same numbers with a probability of 2^-120.
fn draw(key: Option<&mlx_rs::Array>) -> Result<Vec<i32>, Exception> {
    let drawn = randint::<_, i32>(0, 1 << 30, &[4], key)?;
    drawn.eval()?;
    Ok(drawn.try_as_slice::<i32>().map_err(|error| Exception::custom(error.to_string()))?.to_vec())
}

#[cfg(test)]
mod tests {
    use mlx_rs::random::{key, normal};

    use super::*;

    #[test]
    fn draws_without_a_key_are_counted() {
        reset_draws().unwrap();
        assert_eq!(draws().unwrap(), None);
        for times in [1, 2, 7] {
            reset_draws().unwrap();
            for _ in 0..times {
                normal::<f32>(&[3], None, None, None).unwrap();
            }
            assert_eq!(draws().unwrap(), Some(Drew { times: Some(times) }));
        }
        reset_draws().unwrap();
        normal::<f32>(&[3], None, None, Some(&key(7).unwrap())).unwrap();
        assert_eq!(draws().unwrap(), None);
    }

    #[test]
    fn a_port_that_seeds_is_detected() {
        reset_draws().unwrap();
        seed(42).unwrap();
        assert_eq!(draws().unwrap(), Some(Drew { times: None }));
    }
}
