//! Another window: periodic or symmetric, of another shape, of another length, or at another place of the frame.
//!
//! A window is recognised by its numbers, so that it does not matter whether the reference computes or loads it.

use std::f64::consts::TAU;
use std::fmt;

use super::super::candidate::Candidate;
use super::super::stage::Stage;
use crate::diagnose::CauseKind;
use crate::recipe::{Binary, Leaf, Op};
use crate::replay::{Array, Change};

/// The fewest elements of a window. Few numbers could be those of a window by chance.
const FEWEST: usize = 8;
/// How far the numbers of a window may be from their formula: the rounding of float32.
const NEAR: f64 = 1e-6;

pub(super) fn candidates(stage: &Stage, node: usize) -> Vec<Candidate> {
    let factors: Vec<usize> = match stage.op(node) {
        Op::Binary(Binary::Mul | Binary::Div) => stage.operands(node).map(|(_, operand)| operand).collect(),
        _ => Vec::new(),
    };
    let own = (node == stage.target).then_some(node);
    factors.into_iter().chain(own).flat_map(|at| of_value(stage, at)).collect()
}

/// Other windows in place of a node, if its value is a window.
fn of_value(stage: &Stage, node: usize) -> Vec<Candidate> {
    let Some(value) = stage.value(node) else { return Vec::new() };
    let Some(own) = recognised(&value) else { return Vec::new() };
    (own.others().into_iter())
        .map(|other| {
            let numbers = other.numbers().into();
            let table = Op::Leaf(Leaf::Table { shape: value.shape().to_vec(), numbers });
            let change = Change::node(node, table, Vec::new());
            Candidate::new(CauseKind::Window, 1, change, format!("{other} in place of {own}"))
        })
        .collect()
}

/// The window with these numbers, along the only axis that is longer than 1.
fn recognised(value: &Array) -> Option<Window> {
    let is_vector = value.shape().iter().filter(|length| **length > 1).count() == 1;
    if !is_vector || value.is_complex() || value.len() < FEWEST {
        return None;
    }
    let numbers = value.values();
    let frame = numbers.len();
    let used = frame - numbers.iter().filter(|number| **number == 0.0).count();
    // Most windows start with a zero, and symmetric ones also end with one. A symmetric window is a periodic one that is shorter
    // by one, with a zero at its end, so even lengths come first.
    let mut lengths = vec![frame, used, used + 1, used + 2];
    lengths.retain(|length| (FEWEST..=frame).contains(length));
    lengths[1..].sort_by_key(|length| length % 2);
    let lengths = lengths.into_iter();
    let all = lengths.flat_map(|length| Window::all(frame, length));
    all.filter(|window| window.shape != Shape::Rectangle).find(|window| {
        let far = |(at, number): (usize, &f64)| (window.number(at) - number).abs();
        numbers.iter().enumerate().all(|one| far(one) <= NEAR)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Hann,
    Hamming,
    Blackman,
    RootHann,
    Povey,
    Triangle,
    Rectangle,
}

/// A window inside a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    shape: Shape,
    is_periodic: bool,
    length: usize,
    /// Elements of the frame before the window.
    start: usize,
    frame: usize,
}

impl Window {
    /// Every window of a length, at the places of a frame where libraries put it.
    fn all(frame: usize, length: usize) -> Vec<Self> {
        use Shape::{Blackman, Hamming, Hann, Povey, Rectangle, RootHann, Triangle};
        let mut starts = vec![(frame - length) / 2, 0, frame - length];
        starts.dedup();
        let shapes = [Hann, Hamming, Blackman, RootHann, Povey, Triangle, Rectangle];
        let kinds =
            shapes.into_iter().flat_map(|shape| [true, false].map(|is_periodic| (shape, is_periodic)));
        kinds
            .flat_map(|(shape, is_periodic)| {
                starts.iter().map(move |&start| Self { shape, is_periodic, length, start, frame })
            })
            .collect()
    }

    /// Windows that a port may have in place of this one: with one difference in place and length, and any shape.
    fn others(&self) -> Vec<Self> {
        let lengths = [self.length, self.frame].into_iter().filter(|length| *length <= self.frame);
        let mut found: Vec<Self> = Vec::new();
        for other in lengths.flat_map(|length| Self::all(self.frame, length)) {
            let moves = other.start != self.start && other.length == self.length;
            let differences = usize::from(moves) + usize::from(other.length != self.length);
            let changes = usize::from(other.shape != self.shape || other.is_periodic != self.is_periodic);
            let is_periodic_rectangle = other.shape == Shape::Rectangle && !other.is_periodic;
            if differences + changes == 1 && !is_periodic_rectangle && !found.contains(&other) {
                found.push(other);
            }
        }
        found
    }

    fn number(&self, at: usize) -> f64 {
        let Some(at) = at.checked_sub(self.start).filter(|at| *at < self.length) else { return 0.0 };
        let steps = if self.is_periodic { self.length } else { self.length - 1 };
        let share = at as f64 / steps as f64;
        let hann = 0.5 - 0.5 * (TAU * share).cos();
        match self.shape {
            Shape::Hann => hann,
            Shape::Hamming => 0.54 - 0.46 * (TAU * share).cos(),
            Shape::Blackman => 0.42 - 0.5 * (TAU * share).cos() + 0.08 * (2.0 * TAU * share).cos(),
            Shape::RootHann => hann.max(0.0).sqrt(),
            Shape::Povey => hann.max(0.0).powf(0.85),
            Shape::Triangle => 1.0 - (2.0 * share - 1.0).abs(),
            Shape::Rectangle => 1.0,
        }
    }

    fn numbers(&self) -> Vec<f64> {
        (0..self.frame).map(|at| self.number(at)).collect()
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let symmetry = if self.is_periodic { "periodic" } else { "symmetric" };
        match self.shape {
            Shape::Rectangle => f.write_str("no window")?,
            Shape::Hann => write!(f, "a {symmetry} Hann window of {}", self.length)?,
            Shape::Hamming => write!(f, "a {symmetry} Hamming window of {}", self.length)?,
            Shape::Blackman => write!(f, "a {symmetry} Blackman window of {}", self.length)?,
            Shape::RootHann => write!(f, "the root of a {symmetry} Hann window of {}", self.length)?,
            Shape::Povey => write!(f, "a {symmetry} Povey window of {}", self.length)?,
            Shape::Triangle => write!(f, "a {symmetry} triangular window of {}", self.length)?,
        }
        match self.frame - self.length {
            0 => Ok(()),
            _ if self.start == 0 => write!(f, " at the start of {}", self.frame),
            rest if self.start == rest => write!(f, " at the end of {}", self.frame),
            _ => write!(f, " in the middle of {}", self.frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(shape: Shape, is_periodic: bool, length: usize, start: usize, frame: usize) -> Window {
        Window { shape, is_periodic, length, start, frame }
    }

    #[track_caller]
    fn is_recognised(window: Window) {
        let value = Array::new(vec![1, window.frame], window.numbers()).unwrap();
        assert_eq!(recognised(&value), Some(window), "{window}");
    }

    #[test]
    fn windows_are_recognised_by_their_numbers() {
        is_recognised(window(Shape::Hann, true, 400, 0, 400));
        is_recognised(window(Shape::Hann, false, 400, 56, 512));
        is_recognised(window(Shape::Hamming, true, 200, 0, 256));
        is_recognised(window(Shape::Povey, false, 25, 3, 32));
    }

    #[test]
    fn other_vectors_are_no_windows() {
        for numbers in [vec![1.0; 16], (0..16).map(f64::from).collect(), vec![0.0; 16], vec![0.5; 4]] {
            assert_eq!(recognised(&Array::new(vec![numbers.len()], numbers).unwrap()), None);
        }
    }

    #[test]
    fn others_differ_in_one_way_and_say_how() {
        let own = window(Shape::Hann, true, 400, 0, 400);
        let words: Vec<String> = own.others().iter().map(ToString::to_string).collect();
        assert!(words.contains(&"a symmetric Hann window of 400".to_owned()), "{words:?}");
        assert!(words.contains(&"no window".to_owned()) && !words.contains(&own.to_string()), "{words:?}");
        let short = window(Shape::Hann, false, 400, 56, 512);
        let words: Vec<String> = short.others().iter().map(ToString::to_string).collect();
        assert!(
            words.contains(&"a symmetric Hann window of 400 at the start of 512".to_owned()),
            "{words:?}"
        );
        assert!(words.contains(&"a symmetric Hann window of 512".to_owned()), "{words:?}");
    }
}
