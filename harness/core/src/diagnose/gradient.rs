//! Another gradient of the same parameter: a sum in place of a mean, or a gradient that is not clipped or clipped otherwise.

use super::optimizer_step::{SURE, values};
use super::{CauseKind, Explanation, Search};
use crate::number::Short;
use crate::spec::Stage;

/// A count of samples, tokens or micro-batches that a mean may divide by.
const MOST: f64 = 1e6;

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    if search.checkpoint.stage != Some(Stage::Gradient) || !pair.same_shape() {
        return Vec::new();
    }
    clipping(search).or_else(|| count(search)).into_iter().collect()
}

/// The gradient from before this one, where the reference clips between the two.
fn clipping(search: &Search) -> Option<Explanation> {
    let (pair, checkpoint) = (&search.pair, search.checkpoint);
    let own = checkpoint.name.split_once('.')?.1;
    let earlier = checkpoint.known.before().iter().find(|other| {
        other.name.split_once('.').is_some_and(|(_, end)| end == own) && other.name != checkpoint.name
    })?;
    let given = values(search, earlier)?;
    let explanation = |residual, text| Some(Explanation::new(CauseKind::Clipping, SURE, residual, text));
    if let Some(residual) = pair.explained(0, |index| given[index]) {
        return explanation(residual, format!("`{}`: nothing is clipped", earlier.name));
    }
    let bound = pair.a.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    if let Some(residual) = pair.explained(1, |index| given[index].clamp(-bound, bound)) {
        let text = format!(
            "`{}` with each element clipped to {}, where the reference clips the norm",
            earlier.name,
            Short(bound)
        );
        return explanation(residual, text);
    }
    let ratio = |to: &[f64]| -> f64 {
        let both: f64 = to.iter().zip(&given).map(|(to, from)| to * from).sum();
        both / given.iter().map(|x| x * x).sum::<f64>()
    };
    let (found, right) = (ratio(&pair.a), ratio(&pair.e));
    let residual =
        pair.explained_both(1, |index| found / right * pair.e[index], |index| right / found * pair.a[index])?;
    let text = format!(
        "`{}` times {}, where clipping multiplies it by {}: another norm, or the norm of other gradients",
        earlier.name,
        Short(found),
        Short(right)
    );
    explanation(residual, text)
}

/// The golden times or over a whole number: a sum in place of a mean, or the reverse.
fn count(search: &Search) -> Option<Explanation> {
    let pair = &search.pair;
    let (both, own) =
        pair.e.iter().zip(&pair.a).fold((0.0, 0.0), |(both, own), (e, a)| (both + e * a, own + e * e));
    let factor: f64 = both / own;
    let (count, words) = match factor.abs() >= 1.0 {
        true => (factor, "a sum, where the reference has a mean"),
        false => (factor.recip(), "a mean, where the reference has a sum"),
    };
    let whole = count.round();
    if !(2.0..=MOST).contains(&whole) || (count / whole - 1.0).abs() > 1e-4 {
        return None;
    }
    let exact = if factor >= 1.0 { whole } else { whole.recip() };
    let residual = pair.explained_both(1, |index| exact * pair.e[index], |index| pair.a[index] / exact)?;
    let over = if factor >= 1.0 { "times" } else { "over" };
    let text = format!("the golden {over} {whole}: {words} over {whole} samples, tokens or micro-batches");
    Some(Explanation::new(CauseKind::GradientScale, SURE, residual, text))
}
