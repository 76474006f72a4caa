//! Faults in the cache of Mistral, which rotates.

#[path = "../parity/mistral.rs"]
mod right;

use mlx_parity::Suite;
use mlx_rs::Array;
use mlx_rs::error::Exception;
use parity_tests::cache::{Cache, RotatingCache, State};
use parity_tests::qwen3::{Rope, rotate};

use right::{loaded, with_cache};

/// The slots of a cache after an update: what each one holds, by its number among the old slots and the new tokens. It gets the
/// window, the number of tokens before, and the number of new ones.
type Order = fn(i32, i32, i32) -> Vec<i32>;

/// What a cache does to the tokens that come in, from this position on.
type Stored = fn(State, i32) -> Result<State, Exception>;

/// The fault's name, and the cache that makes it.
const FAULTS: &[(&str, right::NewCache)] = &[
    ("holds_one_more", |window| Box::new(RotatingCache::new(window + 1))),
    ("holds_one_less", |window| Box::new(RotatingCache::new(window - 1))),
    // The prompt is stored from slot 0 on, and then the next slot is taken to be the position modulo the window.
    ("rotates_from_zero", |window| {
        FaultyCache::boxed(window, stored, |window, before, new| {
            if new > 1 {
                return (before.min(window) + new - window..before.min(window) + new).collect();
            }
            (0..window).map(|slot| if slot == before % window { window } else { slot }).collect()
        })
    }),
    // The slot of the newest token, not of the oldest, is overwritten.
    ("newest_overwritten", |window| {
        FaultyCache::boxed(window, stored, |window, before, new| {
            if new > 1 {
                return rotated(window, before, new);
            }
            (0..window).map(|slot| if slot == (before - 1) % window { window } else { slot }).collect()
        })
    }),
    ("first_tokens_kept", |window| {
        FaultyCache::boxed(window, stored, |window, before, new| {
            if new > 1 { (0..window).collect() } else { rotated(window, before, new) }
        })
    }),
    // The positions are those of the slots.
    ("positions_of_slots", |window| {
        FaultyCache::boxed(
            window,
            |state, start| {
                let count = state.keys.dim(2);
                let positions: Vec<i32> = (start..start + count).map(|position| position % 6).collect();
                Ok(State { positions: Array::from_slice(&positions, &[count]), ..state })
            },
            rotated,
        )
    }),
    // Keys come into the cache before they are rotated.
    ("keys_before_rotation", |window| {
        FaultyCache::boxed(
            window,
            |state, start| {
                let (cos, sin) =
                    Rope::new(8, 1e4).tables(start..start + state.keys.dim(2), state.keys.dtype())?;
                let keys = rotate(&state.keys, (&cos, &sin.negative()?))?;
                Ok(State { keys, ..state })
            },
            rotated,
        )
    }),
];

pub(crate) fn ports(suite: Suite) -> Suite {
    let suite = right::ports(suite)
        // The mask lets each query see one token more than the window has.
        .port("mistral::rotating/mask_one_longer", |run| {
            let (mut model, prompt, steps) = loaded(run)?;
            let mut cache = model.new_cache();
            for layer in &mut model.model.layers {
                layer.self_attn.sizes.window = layer.self_attn.sizes.window.map(|window| window + 1);
            }
            Ok(model.generate(&prompt, steps, &mut cache)?)
        });
    FAULTS.iter().fold(suite, |suite, &(fault, new)| {
        suite.port(format!("mistral::rotating/{fault}"), move |run| with_cache(run, new))
    })
}

/// Tokens as they are.
fn stored(state: State, _: i32) -> Result<State, Exception> {
    Ok(state)
}

/// The right order.
fn rotated(window: i32, before: i32, new: i32) -> Vec<i32> {
    let (seen, old) = (before + new, before.min(window));
    (0..seen.min(window))
        .map(|slot| (slot, slot + (seen - 1 - slot) / window * window))
        .map(|(slot, position)| if position < before { slot } else { old + position - before })
        .collect()
}

/// A cache with a fault in what it stores, or in which slot.
#[derive(Debug)]
struct FaultyCache {
    window: i32,
    seen: i32,
    state: Option<State>,
    store: Stored,
    order: Order,
}

impl FaultyCache {
    fn boxed(window: i32, store: Stored, order: Order) -> Box<dyn Cache> {
        Box::new(Self { window, seen: 0, state: None, store, order })
    }
}

impl Cache for FaultyCache {
    fn seen(&self) -> i32 {
        self.seen
    }

    fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    fn update(&mut self, new: State) -> Result<(), Exception> {
        let (before, count) = (self.seen, new.keys.dim(2));
        let new = (self.store)(new, before)?;
        let all = match self.state.take() {
            Some(state) => state.followed_by(&new)?,
            None => new,
        };
        let slots = (self.order)(self.window, before, count);
        self.state = Some(all.taken(&slots)?.tapped()?);
        self.seen += count;
        Ok(())
    }
}
