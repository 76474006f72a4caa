//! Caches of keys and values that know which position each of their slots holds.

use std::fmt::Debug;

use mlx_parity_tap::{scope, tap};
use mlx_rs::error::Exception;
use mlx_rs::{Array, ops};

/// Keys and values of some tokens, and their positions in the sequence.
#[derive(Debug, Clone)]
pub struct State {
    /// Position per slot, `[slots]`.
    pub positions: Array,
    /// Rotated keys, `[batch, heads, slots, features]`.
    pub keys: Array,
    /// Values, `[batch, heads, slots, features]`.
    pub values: Array,
}

/// The keys and values of one layer.
pub trait Cache: Debug {
    /// Number of tokens so far, including those that the cache no longer holds.
    fn seen(&self) -> i32;

    /// What the cache holds.
    fn state(&self) -> Option<&State>;

    /// Adds the tokens that follow those so far, and drops what no later token sees.
    ///
    /// # Errors
    /// When shapes do not fit.
    fn update(&mut self, new: State) -> Result<(), Exception>;
}

impl State {
    /// The keys and values of tokens from position `start` on.
    pub fn new(keys: Array, values: Array, start: i32) -> Self {
        let positions: Vec<i32> = (start..start + keys.dim(2)).collect();
        let positions = Array::from_slice(&positions, &[positions.len() as i32]);
        Self { positions, keys, values }
    }

    /// The slots of both, one after the other.
    ///
    /// # Errors
    /// When shapes do not fit.
    pub fn followed_by(&self, new: &Self) -> Result<Self, Exception> {
        Ok(Self {
            positions: ops::concatenate(&[&self.positions, &new.positions], 0)?,
            keys: ops::concatenate(&[&self.keys, &new.keys], 2)?,
            values: ops::concatenate(&[&self.values, &new.values], 2)?,
        })
    }

    /// The slots with these numbers, in this order.
    ///
    /// # Errors
    /// When MLX cannot take them.
    pub fn taken(&self, slots: &[i32]) -> Result<Self, Exception> {
        let slots = Array::from_slice(slots, &[slots.len() as i32]);
        Ok(Self {
            positions: self.positions.take_axis(&slots, 0)?,
            keys: self.keys.take_axis(&slots, 2)?,
            values: self.values.take_axis(&slots, 2)?,
        })
    }

    /// Taps all three below `cache`, and returns what to continue with.
    ///
    /// # Errors
    /// When a tap fails.
    pub fn tapped(self) -> Result<Self, Exception> {
        let _scope = scope("cache", None);
        Ok(Self {
            positions: tap("positions", self.positions)?,
            keys: tap("keys", self.keys)?,
            values: tap("values", self.values)?,
        })
    }
}

/// A cache of the last `window` tokens. The slot of a token is its position modulo the window, so a new token overwrites the
/// oldest, and nothing moves.
#[derive(Debug, Clone)]
pub struct RotatingCache {
    window: i32,
    seen: i32,
    state: Option<State>,
}

impl RotatingCache {
    /// An empty cache.
    pub fn new(window: i32) -> Self {
        Self { window, seen: 0, state: None }
    }
}

impl Cache for RotatingCache {
    fn seen(&self) -> i32 {
        self.seen
    }

    fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    fn update(&mut self, new: State) -> Result<(), Exception> {
        let (before, window) = (self.seen, self.window);
        let seen = before + new.keys.dim(2);
        let old = before.min(window);
        // The latest token of each slot. It stays where it is, or comes from the new ones.
        let slots: Vec<i32> = (0..seen.min(window))
            .map(|slot| (slot, slot + (seen - 1 - slot) / window * window))
            .map(|(slot, position)| if position < before { slot } else { old + position - before })
            .collect();
        let all = match self.state.take() {
            Some(state) => state.followed_by(&new)?,
            None => new,
        };
        self.state = Some(all.taken(&slots)?.tapped()?);
        self.seen = seen;
        Ok(())
    }
}

/// A cache of all tokens, in order.
#[derive(Debug, Clone, Default)]
pub struct FullCache {
    state: Option<State>,
}

impl FullCache {
    /// Drops all but the first `length` tokens, as after a rejected draft.
    ///
    /// # Errors
    /// When MLX cannot take them.
    pub fn truncate(&mut self, length: i32) -> Result<(), Exception> {
        if let Some(state) = self.state.take() {
            self.state = Some(state.taken(&(0..length).collect::<Vec<_>>())?);
        }
        Ok(())
    }

    /// Taps what the cache holds.
    ///
    /// # Errors
    /// When a tap fails.
    pub fn tap_state(&mut self) -> Result<(), Exception> {
        self.state = self.state.take().map(State::tapped).transpose()?;
        Ok(())
    }
}

impl Cache for FullCache {
    fn seen(&self) -> i32 {
        self.state.as_ref().map_or(0, |state| state.keys.dim(2))
    }

    fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    fn update(&mut self, new: State) -> Result<(), Exception> {
        self.state = Some(match self.state.take() {
            Some(state) => state.followed_by(&new)?,
            None => new,
        });
        Ok(())
    }
}
