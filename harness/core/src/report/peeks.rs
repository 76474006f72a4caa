//! The tensors that `PARITY_PEEK` named.

use std::fmt::Write as _;

use crate::compare::Stats;
use crate::results::Account;
use crate::run_folder::{MOST_PEEKS, Peek};
use crate::spec::hit_name;
use crate::text::glob::matches;
use crate::text::printable::clean;
use crate::text::suggest::did_you_mean;

/// How many of the first elements are printed.
const FIRST: usize = 6;

/// Returns two lines per tensor that `PARITY_PEEK` named, and one per pattern without a tap; empty without `PARITY_PEEK`.
pub(super) fn peeks_text(account: &Account) -> String {
    let data = &account.data;
    let mut text = String::new();
    for peek in data.peeks.iter().take(MOST_PEEKS) {
        let name = hit_name(&peek.tap, peek.hit);
        let (tensor, place) = (&peek.tensor, &peek.location);
        let shown = format!("{name}  {} {:?}  {}:{}", tensor.dtype, tensor.shape, place.file, place.line);
        let _ = writeln!(text, "  peek      {}", clean(&shown));
        let _ = writeln!(text, "            {}", clean(&values(peek)));
    }
    if data.peeks.len() > MOST_PEEKS {
        let _ = writeln!(text, "  peek      only the first {MOST_PEEKS} hits are shown; name fewer taps");
    }
    let taps = data.taps();
    for pattern in data.peek().iter().filter(|pattern| !taps.iter().any(|tap| matches(pattern, tap))) {
        let near = did_you_mean(pattern, taps.iter().copied());
        let first: Vec<String> = taps.iter().take(4).map(|tap| format!("`{tap}`")).collect();
        let first = if first.is_empty() || !near.is_empty() {
            String::new()
        } else {
            format!(", such as {}", first.join(", "))
        };
        let line =
            format!("no tap matches `{pattern}`{near}; the port reached {} names of taps{first}", taps.len());
        let _ = writeln!(text, "  peek      {}", clean(&line));
    }
    text
}

/// The statistics and the first elements of one tensor.
fn values(peek: &Peek) -> String {
    match &peek.stats {
        Some(stats) => stats_text(stats),
        None => peek.problem.clone().unwrap_or_else(|| "not evaluated".to_owned()),
    }
}

/// Statistics and first elements in one line.
pub(super) fn stats_text(stats: &Stats) -> String {
    let number = |value: f64| format!("{value:.6}");
    let number = |value: f64| match value.abs() {
        small if small != 0.0 && !(1e-3..1e6).contains(&small) => format!("{value:.4e}"),
        _ => number(value),
    };
    let mut text = format!(
        "min {}, max {}, mean {}, std {}",
        number(stats.min),
        number(stats.max),
        number(stats.mean),
        number(stats.std)
    );
    for (count, what) in
        [(stats.nan, "NaN"), (stats.positive_infinity, "inf"), (stats.negative_infinity, "-inf")]
    {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    let first: Vec<String> = stats.first.iter().take(FIRST).map(ToString::to_string).collect();
    let more = if stats.first.len() > FIRST { ", …" } else { "" };
    let _ = write!(text, ", first [{}{more}]", first.join(", "));
    text
}
