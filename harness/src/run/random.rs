//! Whether a port drew from MLX's global random state: what it drew cannot be what its reference drew.
//!
//! mlx-rs keeps that state to itself, so it is set to a known one, and told by the next draw.

use mlx_rs::error::Exception;
use mlx_rs::random::{RandomState, randint, seed};

use super::folder::Drew;

/// Any number that nobody else would seed with.
const SEED: u64 = 0x6d6c_785f_7061_7269;
/// So many draws are counted; a port that drew more is told so without a number.
const COUNTED: u32 = 4096;

/// Makes this thread's random state a known one. What was drawn before no longer counts.
pub(super) fn forget_draws() -> Result<(), Exception> {
    seed(SEED)
}

/// What this thread drew without a key since [`forget_draws`]; nothing, as it should be, is `None`.
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

/// Numbers that two states have in common once in 2^120 cases.
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
    fn draws_are_counted_and_keys_are_none() {
        forget_draws().unwrap();
        assert_eq!(draws().unwrap(), None);
        for times in [1, 2, 7] {
            forget_draws().unwrap();
            for _ in 0..times {
                normal::<f32>(&[3], None, None, None).unwrap();
            }
            assert_eq!(draws().unwrap(), Some(Drew { times: Some(times) }));
        }
        forget_draws().unwrap();
        normal::<f32>(&[3], None, None, Some(&key(7).unwrap())).unwrap();
        assert_eq!(draws().unwrap(), None);
    }

    #[test]
    fn a_port_that_seeds_is_found_too() {
        forget_draws().unwrap();
        seed(42).unwrap();
        assert_eq!(draws().unwrap(), Some(Drew { times: None }));
    }
}
