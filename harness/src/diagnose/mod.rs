//! A failing pair becomes what kind of wrong it is, told from the values and from nothing else.
//!
//! Each family of explanations is a module with one function, `look`. It predicts the actual from the golden, and from
//! the goldens around it where these are its inputs, and claims an explanation only when what is left of the error is near
//! the floor or the tolerance (`residual.rs`). A wrong explanation is worse than none.
//!
//! Explanations are tried on at most a million elements, wherever they lie in mapped memory, first on a few. What still
//! grows with the tensor is a few numbers a row, and the copy of a neighbour that the spec lays out otherwise.

mod attention;
mod cause;
mod chunks;
mod field;
mod finite;
mod function;
mod kind;
mod layout;
mod linear;
mod modulation;
mod norm;
mod others;
mod position;
mod precision;
mod quantised;
mod residual;
mod rope;
mod rope_input;
mod rope_table;
mod scale;
mod scene;
mod vectors;

pub use cause::{Cause, Residual};
pub use kind::Kind;
pub use scene::{Alone, Other, Others, Scene};

use scene::Pair;

/// Most causes that are told.
const MOST: usize = 3;
/// An explanation that leaves so much more than another one as good is none.
const WORSE: f64 = 3.0;

/// A family of explanations: those that hold for a failing pair.
type Family = fn(&Looked) -> Vec<Found>;

/// The families, in rounds: a later one is asked only when no earlier one has an explanation, since what it tells is
/// less specific.
const ROUNDS: &[&[Family]] = &[
    &[finite::look],
    &[
        layout::look,
        chunks::look,
        scale::look,
        others::look,
        function::look,
        norm::look,
        modulation::look,
        attention::look,
        rope::look,
        quantised::look,
        linear::look,
        precision::look,
    ],
    &[vectors::look],
    &[position::look],
];

/// What kind of wrong the actual is, best explanation first, at most three; nothing when no explanation holds.
///
/// It never ends the process that asks: whatever goes wrong in here costs the causes and a line on standard error.
pub fn diagnose(scene: &Scene) -> Vec<Cause> {
    let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| causes(scene)));
    looked.unwrap_or_else(|_| {
        eprintln!("the cause of `{}` could not be looked for; please report this", scene.name);
        Vec::new()
    })
}

fn causes(scene: &Scene) -> Vec<Cause> {
    if scene.actual.is_empty() || scene.expected.is_empty() {
        return Vec::new();
    }
    let looked = Looked { pair: Pair::new(scene), scene };
    for round in ROUNDS {
        let mut found: Vec<Found> = round.iter().flat_map(|look| look(&looked)).collect();
        found.sort_by(|x, y| {
            (x.cost, x.residual.part)
                .partial_cmp(&(y.cost, y.residual.part))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        if let Some(best) = found.first().map(|found| found.cost) {
            // What needs more to say the same is no second opinion.
            let least = found
                .iter()
                .filter(|found| found.cost == best)
                .map(|found| found.residual.rms)
                .fold(f64::INFINITY, f64::min);
            found.retain(|found| found.cost == best && found.residual.rms <= WORSE * least);
            found.truncate(MOST);
            let sampled = looked.pair.sampled();
            return found.into_iter().map(|found| found.told(sampled)).collect();
        }
    }
    Vec::new()
}

/// A scene, with what every family needs of it.
struct Looked<'s, 'a> {
    pair: Pair<'a>,
    scene: &'s Scene<'a>,
}

impl Looked<'_, '_> {
    /// The tensors before that are of the same shape, element for element, nearest first.
    fn inputs(&self, most: usize) -> impl Iterator<Item = &Other> {
        let shape = self.pair.shape();
        self.scene.others.before().iter().filter(move |other| other.field_shape() == shape).take(most)
    }

    /// Lengths that occur in the shapes here, those of the checkpoint itself first.
    fn lengths(&self) -> Vec<usize> {
        let own = self.pair.expected.shape().iter().rev();
        let others = self.scene.others.before().iter().take(8).flat_map(|other| other.shape.iter().rev());
        let mut lengths: Vec<usize> = Vec::new();
        for &length in own.chain(others) {
            if !lengths.contains(&length) {
                lengths.push(length);
            }
        }
        lengths
    }
}

/// An explanation that holds.
struct Found {
    kind: Kind,
    /// How much has to be assumed: of two explanations that hold, the one that assumes less is told.
    cost: u8,
    residual: Residual,
    text: String,
}

impl Found {
    fn new(kind: Kind, cost: u8, residual: Residual, text: String) -> Self {
        Self { kind, cost, residual, text }
    }

    fn told(self, sampled: Option<u64>) -> Cause {
        Cause { kind: self.kind, text: self.text, residual: self.residual, sampled }
    }
}
