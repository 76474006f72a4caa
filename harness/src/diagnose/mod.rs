//! A failing pair becomes what kind of wrong it is, told from the values and from nothing else.
//!
//! Each family of explanations is a module with one function, `look`. It predicts the actual from the golden, and from
//! the goldens around it where these are its inputs, and claims an explanation only when what is left of the error is near
//! the floor or the tolerance (`residual.rs`). A wrong explanation is worse than none: what predicts nothing is a fact
//! (`facts.rs`), and is told only where nothing explains the error.
//!
//! Explanations are tried on some elements, wherever they lie in mapped memory, first on a few: on all of a small tensor, on
//! runs from all over a large one, since every page of a neighbour that is looked at may have to be read from disk. All that
//! is looked at is taken out of a [`Budget`], which the failures of a run share. What still grows with the tensor is a few
//! numbers a row, and the copy of a neighbour that the spec lays out otherwise.

mod agreement;
mod attention;
mod budget;
mod cause;
mod chunks;
mod facts;
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

pub use budget::Budget;
pub use cause::{Cause, Diagnosis, Fact, Residual};
pub use kind::{FactKind, Kind};
pub use scene::{Alone, Other, Others, Scene};

use residual::Explained;
use scene::Pair;

use crate::tensor::Tensor;

/// Most causes, and most facts, that are told.
const MOST: usize = 3;
/// An explanation that leaves so much more than another one as good is none.
const WORSE: f64 = 3.0;

/// A family of explanations: those that hold for a failing pair.
type Family = fn(&Looked) -> Vec<Found>;

/// The families, in rounds: a later one is asked only when no earlier one has an explanation, since what it tells is
/// less specific.
const ROUNDS: &[&[Family]] = &[
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
        linear::look,
        precision::look,
    ],
    &[vectors::look],
];

/// What kind of wrong the actual is; where nothing explains it, what can be seen of it.
///
/// It never ends the process that asks: whatever goes wrong in here costs the diagnosis and a line on standard error.
pub fn diagnose(scene: &Scene) -> Diagnosis {
    let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if scene.actual.is_empty() || scene.expected.is_empty() {
            return Diagnosis::default();
        }
        let looked = Looked { pair: Pair::new(scene), scene };
        let causes = causes(&looked);
        if scene.budget.is_spent() {
            eprintln!(
                "the search for the cause of `{}` was cut short: it is large, or not the first",
                scene.name
            );
        }
        let facts = if causes.is_empty() { facts::look(&looked) } else { Vec::new() };
        Diagnosis { causes, facts }
    }));
    looked.unwrap_or_else(|_| {
        eprintln!("the cause of `{}` could not be looked for; please report this", scene.name);
        Diagnosis::default()
    })
}

fn causes(looked: &Looked) -> Vec<Cause> {
    for round in ROUNDS {
        let in_time = round.iter().take_while(|_| !looked.scene.budget.is_spent());
        let mut found: Vec<Found> = in_time.flat_map(|look| look(looked)).collect();
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
    /// The values of another tensor, as far as there is work left for them.
    fn tensor(&self, other: &Other) -> Option<Tensor> {
        let Scene { others, budget, .. } = self.scene;
        let work = others.work(other) + other.len().min(self.pair.positions.len());
        budget.spend(work).then(|| others.tensor(other)).flatten()
    }

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

/// An explanation that holds: without an [`Explained`] there is none.
struct Found {
    kind: Kind,
    /// How much has to be assumed: of two explanations that hold, the one that assumes less is told.
    cost: u8,
    residual: Explained,
    text: String,
}

impl Found {
    fn new(kind: Kind, cost: u8, residual: Explained, text: String) -> Self {
        Self { kind, cost, residual, text }
    }

    fn told(self, sampled: Option<u64>) -> Cause {
        Cause { kind: self.kind, text: self.text, residual: *self.residual, sampled }
    }
}
