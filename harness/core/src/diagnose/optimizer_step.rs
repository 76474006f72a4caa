//! Another step of an optimiser: a parameter or its state after the step, computed from the golden gradient, the golden
//! state and the weight before, with one thing different.
//!
//! The manifest says how the reference made the golden ([`StepFacts`]). The step is computed as the reference does it
//! first: only where that gives the golden is anything explained.

use super::activation::is_golden;
use super::factor_offset::is_deliberate;
use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, KnownTensor, Search};
use crate::golden::StepFacts;
use crate::number::Short;

/// The cost of these explanations: the reference says how it made the golden, so they assume less than others.
pub(super) const SURE: u8 = 0;
/// The words of torch and of MLX for the moments of Adam and the momentum of SGD.
const FIRST: &[&str] = &["exp_avg", "m"];
const SECOND: &[&str] = &["exp_avg_sq", "v"];
const MOMENTUM: &[&str] = &["momentum_buffer", "v"];

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let steps = search.checkpoint.known.steps();
    let Some((_, facts)) = steps.iter().find(|(name, _)| *name == search.checkpoint.name) else {
        return Vec::new();
    };
    if !search.pair.same_shape() || facts.amsgrad || facts.maximize {
        return Vec::new();
    }
    let Some(step) = Step::read(search, facts, &steps) else { return Vec::new() };
    let (golden, mistakes) = match &facts.slot {
        None => step.parameter(),
        Some(slot) => step.state(slot),
    };
    let pair = &search.pair;
    if golden.is_empty() || !is_golden(pair, |index| golden[index]) {
        return Vec::new();
    }
    let found = mistakes.into_iter().find_map(|mistake| {
        let residual = pair.explained(mistake.fitted, |index| mistake.values[index])?;
        Some(Explanation::new(mistake.kind, SURE, residual, mistake.text))
    });
    found.into_iter().collect()
}

/// A step that somebody may have written in place of the reference's.
struct Mistake {
    kind: CauseKind,
    text: String,
    values: Vec<f64>,
    /// How many numbers were fitted to the actual.
    fitted: usize,
}

impl Mistake {
    fn new(kind: CauseKind, text: impl Into<String>, values: Vec<f64>) -> Self {
        Self { kind, text: text.into(), values, fitted: 0 }
    }
}

/// Everything that the step of one parameter starts from, at the sampled positions.
struct Step<'a> {
    facts: &'a StepFacts,
    pair: &'a SampledPair<'a>,
    /// The weight before the step.
    weight: Vec<f64>,
    gradient: Vec<f64>,
    /// Other gradients of the same parameter, such as those before clipping, with their names.
    others: Vec<(String, Vec<f64>)>,
    /// First and second moment, or momentum, before the step.
    before: [Vec<f64>; 2],
    /// The same after the step.
    after: [Vec<f64>; 2],
    /// Weight decays of the reference's parameters, without zero.
    decays: Vec<f64>,
}

type Sides = (Vec<f64>, Vec<Mistake>);

impl<'a> Step<'a> {
    fn read(search: &'a Search, facts: &'a StepFacts, steps: &[(&str, &StepFacts)]) -> Option<Self> {
        let known = search.checkpoint.known;
        let goldens = || known.before().iter().chain(known.after());
        let of_step = |number: u32, slots: Option<&[&str]>| {
            let name = steps.iter().find(|(_, other)| {
                let same_slot = match (slots, &other.slot) {
                    (None, None) => true,
                    (Some(slots), Some(slot)) => slots.contains(&slot.as_str()),
                    _ => false,
                };
                other.number == number && other.parameter == facts.parameter && same_slot
            });
            name.and_then(|(name, _)| goldens().find(|golden| golden.name == **name))
        };
        let weight = match facts.number {
            1 => known.weights().iter().find(|weight| weight.name == facts.parameter)?,
            number => of_step(number - 1, None)?,
        };
        let weight = values(search, weight)?;
        let wanted = facts.gradient.as_ref()?;
        let gradient = values(search, goldens().find(|golden| golden.name == *wanted)?)?;
        let end = wanted.split_once('.')?.1;
        let others = known.before().iter().filter(|other| {
            other.name != *wanted
                && other.name.split_once('.').is_some_and(|(_, own)| own == end)
                && !steps.iter().any(|(name, _)| *name == other.name)
        });
        let others = others.filter_map(|other| Some((other.name.clone(), values(search, other)?))).collect();
        let slots = if facts.is_adam() { [FIRST, SECOND] } else { [MOMENTUM, &[]] };
        let none = || vec![0.0; weight.len()];
        let before = slots.map(|slots| match facts.number {
            1 => Some(none()),
            number => of_step(number - 1, Some(slots)).and_then(|golden| values(search, golden)),
        });
        let own = search.checkpoint.name;
        let after = slots.map(|slots| {
            let golden = of_step(facts.number, Some(slots)).filter(|golden| golden.name != own)?;
            values(search, golden)
        });
        let [first, second] = before;
        let before = [first.unwrap_or_default(), second.unwrap_or_default()];
        let mut step = Self {
            facts,
            pair: &search.pair,
            weight,
            gradient,
            others,
            before,
            after: [Vec::new(), Vec::new()],
            decays: decays(steps),
        };
        let made = step.moments(&step.gradient, 0.0, facts.betas);
        let [first, second] = after;
        let [own_first, own_second] = made;
        step.after = [first.unwrap_or(own_first), second.unwrap_or(own_second)];
        Some(step)
    }

    /// Both moments after a step with this gradient, to which `decay` times the weight is added.
    fn moments(&self, gradient: &[f64], decay: f64, betas: Option<(f64, f64)>) -> [Vec<f64>; 2] {
        let gradient: Vec<f64> =
            gradient.iter().zip(&self.weight).map(|(gradient, weight)| gradient + decay * weight).collect();
        let mix = |before: &[f64], keep: f64, add: f64, of: &dyn Fn(f64) -> f64| -> Vec<f64> {
            before
                .iter()
                .zip(&gradient)
                .map(|(before, gradient)| keep * before + add * of(*gradient))
                .collect()
        };
        match betas {
            Some((first, second)) => [
                mix(&self.before[0], first, 1.0 - first, &|x| x),
                mix(&self.before[1], second, 1.0 - second, &|x| x * x),
            ],
            None => {
                // In its first step, torch takes the gradient itself.
                let add = if self.facts.number == 1 { 1.0 } else { 1.0 - self.facts.dampening };
                [mix(&self.before[0], self.facts.momentum, add, &|x| x), Vec::new()]
            }
        }
    }

    /// The optimiser's state after the step, and mistakes in it.
    fn state(&self, slot: &str) -> Sides {
        let at = usize::from(self.facts.is_adam() && SECOND.contains(&slot));
        let coupled = if self.facts.is_coupled() { self.facts.weight_decay } else { 0.0 };
        let of = |gradient: &[f64], decay: f64| {
            let [first, second] = self.moments(gradient, decay, self.facts.betas);
            if at == 0 { first } else { second }
        };
        let golden = of(&self.gradient, coupled);
        let mut mistakes = Vec::new();
        for (name, other) in &self.others {
            let text =
                format!("the state of a step with `{name}`, where the reference uses `{}`", self.used());
            mistakes.push(Mistake::new(CauseKind::Clipping, text, of(other, coupled)));
        }
        match coupled > 0.0 {
            true => {
                let text = "the gradient without weight decay, which this optimiser adds to it".to_owned();
                mistakes.push(Mistake::new(CauseKind::WeightDecay, text, of(&self.gradient, 0.0)));
            }
            false => mistakes.extend(self.decays.iter().map(|&decay| {
                let text = format!(
                    "weight decay {} is added to the gradient, where the reference keeps it apart",
                    Short(decay)
                );
                Mistake::new(CauseKind::WeightDecay, text, of(&self.gradient, decay))
            })),
        }
        if let (1, Some((first, second))) = (self.facts.number, self.facts.betas) {
            let ratio = fitted_ratio(&self.pair.a, &self.pair.e);
            let own = if at == 0 { first } else { second };
            let other = 1.0 - ratio * (1.0 - own);
            if is_deliberate(ratio) && (0.0..1.0).contains(&other) {
                let text =
                    format!("beta{} is {}, where the reference has {}", at + 1, Short(other), Short(own));
                let values = golden.iter().map(|x| ratio * x).collect();
                mistakes.push(Mistake { fitted: 1, ..Mistake::new(CauseKind::Constant, text, values) });
            }
        }
        (golden, mistakes)
    }

    /// The parameter after the step, and mistakes in it.
    fn parameter(&self) -> Sides {
        let facts = self.facts;
        let kept = if facts.is_coupled() { 0.0 } else { facts.weight_decay };
        let update = self.update(Divisor::of(facts));
        let golden = self.moved(kept, &update);
        let opposite: Vec<f64> = update.iter().map(|step| -step).collect();
        let mut mistakes = vec![
            Mistake::new(
                CauseKind::NotTrained,
                "the weight from before the step: the optimiser did not change this parameter",
                self.weight.clone(),
            ),
            Mistake::new(
                CauseKind::Sign,
                "the step is added, where the reference subtracts it",
                self.moved(kept, &opposite),
            ),
        ];
        if facts.is_adam() {
            mistakes.extend(self.other_divisors(kept));
        }
        mistakes.extend(self.other_decays());
        let steps = |values: &[f64]| -> Vec<f64> {
            values.iter().zip(&self.weight).map(|(after, before)| after - before).collect()
        };
        let ratio = fitted_ratio(&steps(&self.pair.a), &steps(&golden));
        if ratio.is_finite() && ratio > 0.0 && is_deliberate(ratio) {
            let values =
                golden.iter().zip(&self.weight).map(|(after, before)| before + ratio * (after - before));
            let text = format!(
                "the step times {}: a learning rate of {}, where the reference has {}",
                Short(ratio),
                Short(ratio * facts.lr),
                Short(facts.lr)
            );
            let mistake = Mistake::new(CauseKind::Constant, text, values.collect());
            mistakes.push(Mistake { fitted: 1, ..mistake });
        }
        (golden, mistakes)
    }

    fn other_divisors(&self, kept: f64) -> Vec<Mistake> {
        let right = Divisor::of(self.facts);
        let of = |divisor: Divisor| self.moved(kept, &self.update(divisor));
        let mut mistakes = Vec::new();
        if self.facts.bias_correction {
            let none = Divisor { corrects_first: false, corrects_second: false, ..right };
            for (divisor, which) in [
                (none, "of both moments"),
                (Divisor { corrects_second: true, ..none }, "of the first moment"),
                (Divisor { corrects_first: true, ..none }, "of the second moment"),
            ] {
                let text = format!("Adam without the bias correction {which}");
                mistakes.push(Mistake::new(CauseKind::BiasCorrection, text, of(divisor)));
            }
        } else {
            let text = "Adam with bias correction, which the reference leaves out";
            let corrected = Divisor { corrects_first: true, corrects_second: true, ..right };
            mistakes.push(Mistake::new(CauseKind::BiasCorrection, text, of(corrected)));
        }
        for (eps, text) in [
            (Eps::InRoot, "eps is added inside the root, where the reference adds it outside"),
            (Eps::BeforeCorrection, "eps is added before the second moment is corrected"),
        ] {
            mistakes.push(Mistake::new(CauseKind::EpsPlace, text, of(Divisor { eps, ..right })));
        }
        mistakes
    }

    fn other_decays(&self) -> Vec<Mistake> {
        let facts = self.facts;
        let mut mistakes = Vec::new();
        let mut push =
            |text: String, values| mistakes.push(Mistake::new(CauseKind::WeightDecay, text, values));
        let update = self.update(Divisor::of(facts));
        if facts.weight_decay > 0.0 && !facts.is_coupled() {
            push("no weight decay".to_owned(), self.moved(0.0, &update));
            let by_decay = facts.weight_decay / facts.lr;
            push("weight decay without the learning rate".to_owned(), self.moved(by_decay, &update));
        }
        for &decay in self.decays.iter().filter(|decay| **decay != facts.weight_decay) {
            let text = format!(
                "weight decay {}, which the reference has for other parameters, and {} here",
                Short(decay),
                Short(facts.weight_decay)
            );
            push(text, self.moved(decay, &update));
        }
        mistakes
    }

    /// The weight, decayed, less the update.
    fn moved(&self, decay: f64, update: &[f64]) -> Vec<f64> {
        let keep = 1.0 - self.facts.lr * decay;
        self.weight.iter().zip(update).map(|(weight, update)| keep * weight - update).collect()
    }

    fn update(&self, divisor: Divisor) -> Vec<f64> {
        let (facts, [first, second]) = (self.facts, &self.after);
        if facts.is_adam() {
            return first.iter().zip(second).map(|(m, v)| facts.lr * divisor.quotient(*m, *v)).collect();
        }
        let decayed =
            self.gradient.iter().zip(&self.weight).map(|(x, weight)| x + facts.weight_decay * weight);
        match (facts.momentum > 0.0, facts.nesterov) {
            (false, _) => decayed.map(|x| facts.lr * x).collect(),
            (true, false) => first.iter().map(|m| facts.lr * m).collect(),
            (true, true) => decayed.zip(first).map(|(x, m)| facts.lr * (x + facts.momentum * m)).collect(),
        }
    }

    fn used(&self) -> &str {
        self.facts.gradient.as_deref().unwrap_or_default()
    }
}

impl StepFacts {
    fn is_adam(&self) -> bool {
        matches!(self.optimizer.as_str(), "adam" | "adamw")
    }

    /// Whether weight decay is a part of the gradient.
    fn is_coupled(&self) -> bool {
        self.optimizer != "adamw"
    }
}

/// Where eps is added.
#[derive(Clone, Copy)]
enum Eps {
    Outside,
    InRoot,
    BeforeCorrection,
}

/// How Adam divides the moments.
#[derive(Clone, Copy)]
struct Divisor {
    corrects_first: bool,
    corrects_second: bool,
    eps: Eps,
    value: f64,
    /// `1 - beta^step` of both moments.
    first: f64,
    second: f64,
}

impl Divisor {
    fn of(facts: &StepFacts) -> Self {
        let (first, second) = facts.betas.unwrap_or_default();
        let left = |beta: f64| 1.0 - beta.powi(i32::try_from(facts.number).unwrap_or(i32::MAX));
        Self {
            corrects_first: facts.bias_correction,
            corrects_second: facts.bias_correction,
            eps: Eps::Outside,
            value: facts.eps,
            first: left(first),
            second: left(second),
        }
    }

    fn quotient(self, m: f64, v: f64) -> f64 {
        let m = if self.corrects_first { m / self.first } else { m };
        let corrected = if self.corrects_second { v / self.second } else { v };
        match self.eps {
            Eps::Outside => m / (corrected.sqrt() + self.value),
            Eps::InRoot => m / (corrected + self.value).sqrt(),
            Eps::BeforeCorrection => {
                let root = if self.corrects_second { self.second.sqrt() } else { 1.0 };
                m / ((v.sqrt() + self.value) / root)
            }
        }
    }
}

/// The weight decays that occur in the reference, without zero, each once.
fn decays(steps: &[(&str, &StepFacts)]) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for decay in steps.iter().map(|(_, facts)| facts.weight_decay) {
        if decay > 0.0 && !found.contains(&decay) {
            found.push(decay);
        }
    }
    found
}

/// The factor that brings `from` nearest to `to`.
fn fitted_ratio(to: &[f64], from: &[f64]) -> f64 {
    let (mut both, mut own) = (0.0, 0.0);
    for (to, from) in to.iter().zip(from).filter(|(to, from)| to.is_finite() && from.is_finite()) {
        both += to * from;
        own += from * from;
    }
    both / own
}

/// The values of another tensor of the same shape at the sampled positions.
pub(super) fn values(search: &Search, known: &KnownTensor) -> Option<Vec<f64>> {
    if known.float64_shape() != search.pair.shape() {
        return None;
    }
    search.with_values(known, |numbers| {
        Some(search.pair.positions.iter().map(|&position| numbers.at(position)).collect())
    })
}
