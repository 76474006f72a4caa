//! Ids that were chosen: one per position, or a set per row.

use super::scores::Scores;
use super::{Beside, Choices, Found, OtherChoice, SHOWN, counted, index_of};
use crate::gate::Class;
use crate::tensor::{Dtype, TensorView};

/// From this number of rows on, a reference that is undecided in most of them proves nothing.
const MANY: u64 = 8;

/// One id per position, each the one with the highest score.
pub(super) fn tokens(
    expected: &TensorView<'_>,
    actual: &TensorView<'_>,
    ties: f64,
    beside: &Beside<'_>,
) -> Found {
    judge(
        expected,
        actual,
        Form { axes: expected.shape(), width: 1, noun: ["position", "positions"] },
        Some(ties),
        beside,
    )
}

/// A set of ids per row of the last axis.
pub(super) fn sets(
    expected: &TensorView<'_>,
    actual: &TensorView<'_>,
    ties: Option<f64>,
    beside: &Beside<'_>,
) -> Found {
    let Some((&width, axes)) = expected.shape().split_last() else {
        return Found::failed(
            Class::Spec,
            "`compare: set` needs rows of ids, but the tensor is a single number",
        );
    };
    judge(expected, actual, Form { axes, width, noun: ["row", "rows"] }, ties, beside)
}

/// How ids are arranged.
struct Form<'a> {
    /// The axes that count rows.
    axes: &'a [usize],
    /// Ids per row.
    width: usize,
    noun: [&'static str; 2],
}

fn judge(
    expected: &TensorView<'_>,
    actual: &TensorView<'_>,
    form: Form<'_>,
    ties: Option<f64>,
    beside: &Beside<'_>,
) -> Found {
    let scores = ties.and(beside.scores.as_ref());
    if ties.is_some() && scores.is_none() {
        return Found::failed(Class::Missing, "there are no scores of the reference to judge ties by");
    }
    if let Some(misfit) = scores.and_then(|scores| scores.misfit(form.axes)) {
        return Found::failed(Class::Spec, misfit);
    }
    let (expected, actual) = (ids(expected), ids(actual));
    let rows = form.axes.iter().product::<usize>();
    let row = |ids: &'_ [i64], row: usize| ids[row * form.width..][..form.width].to_vec();
    let limit = ties.zip(scores).map(|(ties, scores)| ties * scores.unit());
    let mut choices = Choices {
        rows: rows as u64,
        equal: 0,
        reordered: 0,
        ties: 0,
        decided: 0,
        near: 0,
        divergence: beside.divergence,
        overlap: None,
        other: Vec::new(),
    };
    let (mut tied, mut decided) = (Vec::new(), Vec::new());
    let (mut used, mut mismatched, mut unlikely) = (0f64, 0, None);
    for at in 0..rows {
        let (e, a) = (row(&expected, at), row(&actual, at));
        if let Some((scores, limit)) = scores.zip(limit) {
            let highest = scores.highest(at, form.width + 1);
            if let [.., last, next] = highest[..]
                && highest.len() > form.width
                && last - next <= limit
            {
                choices.near += 1;
            }
            let least = highest.get(form.width.min(highest.len()).wrapping_sub(1)).copied();
            let chosen =
                |id: &i64| scores.of(at, *id).zip(least).is_some_and(|(own, least)| own >= least - limit);
            if unlikely.is_none() && !e.iter().all(chosen) {
                unlikely = Some(at);
            }
        }
        let (only_e, only_a) = (without(&e, &a), without(&a, &e));
        if only_e.is_empty() {
            choices.equal += 1;
            choices.reordered += u64::from(e != a);
            continue;
        }
        let apart = scores.map(|scores| apart(scores, at, &only_e, &only_a));
        let tie = apart.zip(ties).is_some_and(|(apart, ties)| apart <= ties);
        used = used.max(apart.zip(ties).map_or(f64::INFINITY, |(apart, ties)| apart / ties));
        let count = only_a.len() as u64;
        let index = index_of(form.axes, at);
        let other = OtherChoice { index, expected: only_e, actual: only_a, apart, tie };
        if tie {
            choices.ties += 1;
            tied.push(other);
        } else {
            choices.decided += 1;
            mismatched += count;
            decided.push(other);
        }
    }
    choices.other = decided.into_iter().chain(tied).take(SHOWN).collect();
    let text = words(&choices, &form, scores.is_some());
    let fault = if let Some(at) = unlikely {
        let chosen = format!("{:?}", row(&expected, at));
        Some((
            Class::Spec,
            format!(
                "the golden's own choice {chosen} at {:?} does not have the highest scores: name the scores that the reference \
             chooses from, after its masks and biases",
                index_of(form.axes, at)
            ),
        ))
    } else if choices.rows >= MANY && 2 * choices.near > choices.rows {
        Some((
            Class::Untestable,
            format!(
                "the reference is undecided in {} of {} {}, so agreement would prove nothing",
                choices.near, choices.rows, form.noun[1]
            ),
        ))
    } else if choices.decided > 0 {
        let first =
            choices.other.first().map(|other| format!("; first {}", other.text())).unwrap_or_default();
        Some((Class::Choice, format!("{text}{first}{}", offset(&expected, &actual, form.width))))
    } else {
        None
    };
    Found { choices: Some(choices), used: Some(used), mismatched: Some(mismatched), fault, agreement: text }
}

/// `512 positions: 509 equal, 3 ties, 0 decided differences; KL mean 2e-6, p99 9e-6, max 1e-5`.
fn words(choices: &Choices, form: &Form<'_>, has_ties: bool) -> String {
    let mut text = counted(choices.rows, form.noun[0], form.noun[1]);
    if form.width != 1 {
        text += &format!(" of {}", form.width);
    }
    text += &format!(": {} equal", choices.equal);
    if choices.reordered > 0 {
        text += &format!(" ({} in another order)", choices.reordered);
    }
    if has_ties {
        text += &format!(", {}", counted(choices.ties, "tie", "ties"));
        text += &format!(", {}", counted(choices.decided, "decided difference", "decided differences"));
    } else {
        text += &format!(", {} different", choices.decided);
    }
    if let Some(divergence) = &choices.divergence {
        text += &format!("; {}", divergence.text());
    }
    text
}

/// How far the scores of exchanged ids are apart, in units.
fn apart(scores: &Scores<'_>, row: usize, expected: &[i64], actual: &[i64]) -> f64 {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for id in expected.iter().chain(actual) {
        match scores.of(row, *id) {
            Some(score) if !score.is_nan() => (low, high) = (low.min(score), high.max(score)),
            _ => return f64::INFINITY,
        }
    }
    match high - low {
        0.0 => 0.0,
        apart if apart.is_nan() => f64::INFINITY,
        apart => apart / scores.unit(),
    }
}

/// The ids of `these` that are not in `others`, each as often as it is missing there.
fn without(these: &[i64], others: &[i64]) -> Vec<i64> {
    let mut left = others.to_vec();
    let mut found = Vec::new();
    for id in these {
        match left.iter().position(|other| other == id) {
            Some(at) => drop(left.swap_remove(at)),
            None => found.push(*id),
        }
    }
    found
}

/// What is said when every id is off by the same number.
fn offset(expected: &[i64], actual: &[i64], width: usize) -> String {
    let sorted = |ids: &[i64]| {
        let rows = ids.chunks(width.max(1)).map(|row| {
            let mut row = row.to_vec();
            row.sort_unstable();
            row
        });
        rows.collect::<Vec<_>>().concat()
    };
    let (expected, actual) = (sorted(expected), sorted(actual));
    let mut pairs = expected.iter().zip(&actual).map(|(e, a)| a.wrapping_sub(*e));
    let Some(first) = pairs.next().filter(|first| *first != 0 && expected.len() >= 3) else {
        return String::new();
    };
    match pairs.all(|other| other == first) {
        true if first > 0 => format!("; every id is the golden's plus {first}"),
        true => format!("; every id is the golden's minus {}", first.unsigned_abs()),
        false => String::new(),
    }
}

/// All elements in row-major order. Numbers that int64 cannot hold are no ids.
pub(super) fn ids(view: &TensorView<'_>) -> Vec<i64> {
    let size = view.dtype().size();
    let mut bytes = vec![0; view.len() * size];
    view.gather(0, &mut bytes);
    let read = |x: &[u8]| -> i64 {
        match view.dtype() {
            Dtype::Bool | Dtype::Uint8 => x[0].into(),
            Dtype::Int8 => i64::from(x[0] as i8),
            Dtype::Uint16 => bytemuck::pod_read_unaligned::<u16>(x).into(),
            Dtype::Int16 => bytemuck::pod_read_unaligned::<i16>(x).into(),
            Dtype::Uint32 => bytemuck::pod_read_unaligned::<u32>(x).into(),
            Dtype::Int32 => bytemuck::pod_read_unaligned::<i32>(x).into(),
            Dtype::Uint64 => i64::try_from(bytemuck::pod_read_unaligned::<u64>(x)).unwrap_or(-1),
            Dtype::Int64 => bytemuck::pod_read_unaligned(x),
            // The spec's check refuses floats.
            Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64 | Dtype::Complex64 => -1,
        }
    };
    bytes.chunks_exact(size).map(read).collect()
}
