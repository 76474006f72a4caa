//! Another modulation of the same input, by scale and shift per channel. The input must be known.

use super::activation::is_golden;
use super::numbers::rms;
use super::per_index::group_ids;
use super::sampled_pair::SampledPair;
use super::{CauseKind, Explanation, Search};

/// At most this many earlier tensors of the same shape are tried as the input.
const INPUTS: usize = 4;

pub(super) fn explain(search: &Search) -> Vec<Explanation> {
    let pair = &search.pair;
    let shape = pair.shape();
    if !pair.same_shape() || shape.len() < 3 || pair.bound.eps() == 0.0 {
        return Vec::new();
    }
    search
        .inputs(INPUTS)
        .find_map(|other| {
            let x: Vec<f64> = search.with_values(other, |numbers| {
                Some(pair.positions.iter().map(|&position| numbers.at(position)).collect())
            })?;
            against(pair, &x, &other.name)
        })
        .into_iter()
        .collect()
}

/// Scale and shift per channel and batch.
struct Modulation {
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl Modulation {
    /// The modulation that turns `x` into `values`, fitted per group.
    fn fit(values: &[f64], x: &[f64], ids: &[u32], groups: usize) -> Option<Self> {
        let mut sums = vec![[0.0f64; 5]; groups];
        for ((&id, &x), &v) in ids.iter().zip(x).zip(values) {
            let [count, sx, sv, sxx, sxv] = &mut sums[id as usize];
            *count += 1.0;
            *sx += x;
            *sv += v;
            *sxx += x * x;
            *sxv += x * v;
        }
        let scale: Vec<f64> =
            sums.iter().map(|[n, sx, sv, sxx, sxv]| (n * sxv - sx * sv) / (n * sxx - sx * sx)).collect();
        let shift = sums.iter().zip(&scale).map(|([n, sx, sv, ..], scale)| (sv - scale * sx) / n).collect();
        scale.iter().all(|x| x.is_finite()).then_some(Self { scale, shift })
    }
}

fn against(pair: &SampledPair, x: &[f64], name: &str) -> Option<Explanation> {
    let (ids, groups) = group_ids(pair, &[0, pair.shape().len() - 1]);
    if groups * 4 > pair.positions.len() {
        return None;
    }
    let golden = Modulation::fit(&pair.e, x, &ids, groups)?;
    let at =
        |m: &Modulation, index: usize| m.scale[ids[index] as usize] * x[index] + m.shift[ids[index] as usize];
    if !is_golden(pair, |index| at(&golden, index)) {
        return None;
    }
    // Without a noticeable scale and shift, this stage is no modulation.
    let spread = |values: &[f64], around: f64| rms(values.iter().map(|x| x - around));
    if spread(&golden.scale, 1.0) < 1e-3 || spread(&golden.shift, 0.0) < 1e-3 * spread(&golden.scale, 0.0) {
        return None;
    }
    type Rule = (fn(f64, f64) -> (f64, f64), &'static str);
    const RULES: &[Rule] = &[
        (|scale, shift| (1.0 + shift, scale - 1.0), "with scale and shift exchanged"),
        (|scale, shift| (scale - 1.0, shift), "by scale, where the golden has 1 + scale"),
        (|scale, shift| (scale + 1.0, shift), "by 1 + scale, where the golden has scale"),
        (|scale, _| (scale, 0.0), "without the shift"),
        (|_, shift| (1.0, shift), "without the scale"),
        (|scale, shift| (2.0 - scale, shift), "with the opposite sign of the scale"),
        (|scale, shift| (scale, -shift), "with the opposite sign of the shift"),
        (|scale, shift| (scale, shift * scale), "with the shift applied before the scale"),
    ];
    RULES.iter().find_map(|(rule, words)| {
        let residual = pair.explained(0, |index| {
            let id = ids[index] as usize;
            let (scale, shift) = rule(golden.scale[id], golden.shift[id]);
            scale * x[index] + shift
        })?;
        Some(Explanation::new(CauseKind::Modulation, 1, residual, format!("`{name}` modulated {words}")))
    })
}
