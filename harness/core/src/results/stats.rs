//! Statistics of the port's own tensors: the text of the snapshot, and the comparison of two such texts.
//!
//! They warn about drift. They are not goldens: only checkpoints decide whether the port is right.

use std::collections::BTreeMap;
use std::fmt;

use super::run_data::RunData;
use crate::record::Record;
use crate::spec::{Inject, Spec};
use crate::tensor::Dtype;
use crate::text::times;

/// The name of the trial that compares a port's statistics with the accepted snapshot.
pub const STATS: &str = "stats";

/// The description in the header of every snapshot.
pub const SNAPSHOT_DESCRIPTION: &str =
    "Accepted statistics of the port: they reveal changes, and are not goldens";

/// Returns the file of an accepted snapshot with these statistics, as insta writes it.
pub fn snapshot_file(text: &str) -> String {
    format!(
        "---\nsource: harness/src/suite/snapshot.rs\ndescription: \"{SNAPSHOT_DESCRIPTION}\"\n---\n{}\n",
        text.trim_end()
    )
}

/// How far `min`, `max`, `mean`, `std` and `absmax` may move, as a fraction of the accepted `absmax`.
///
/// The limit is the larger of this and [`DRIFT_EPSILONS`] epsilons of the dtype. It leaves room for differences between
/// CPU and Metal and between MLX versions. Integers, bools, dtypes, shapes and counts of NaN and infinities must not
/// change at all.
pub(super) const DRIFT: f64 = 1e-3;
/// The limit of [`DRIFT`] in epsilons: multiples of the distance from 1 to the next number of the dtype.
pub(super) const DRIFT_EPSILONS: f64 = 4.0;

/// Returns whether specs have the trial [`STATS`]. They do unless the environment injects goldens. A spec's own
/// `inject` does not matter.
pub fn has_stats(inject: &Inject) -> bool {
    *inject == Inject::Declared
}

/// Returns the statistics of a whole run up to the spec's own level, one line per hit, in the order of the spec.
///
/// # Errors
/// When the run covers only part of the port; the error is one line.
pub fn stats_text(spec: &Spec, data: &RunData) -> Result<String, String> {
    if let Some(why) = data.incomplete(spec) {
        return Err(why);
    }
    let mut met: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in data.records() {
        met.entry(&record.checkpoint).or_default().push(record);
    }
    let mut text = String::new();
    for checkpoint in spec.checkpoints.iter().filter(|checkpoint| checkpoint.level <= spec.level) {
        let records = met.get(checkpoint.name.as_str()).map_or(&[][..], Vec::as_slice);
        if records.len() != checkpoint.hits as usize {
            let (name, hits) = (&checkpoint.name, checkpoint.hits);
            return Err(match records.len() {
                0 => format!("`{name}` was never reached"),
                count => format!("`{name}` was reached {}, but the spec declares {hits}", times(count)),
            });
        }
        for record in records {
            let line = StatsLine::of(record).ok_or_else(|| {
                format!("`{}` was not measured: {}", checkpoint.name, record.verdict.detail)
            })?;
            text.push_str(&format!("{line}\n"));
        }
    }
    Ok(text)
}

/// The statistics of one hit.
#[derive(Debug, Clone, PartialEq)]
struct StatsLine {
    /// `name` for the first hit, `name@1` for the second.
    name: String,
    dtype: Dtype,
    shape: String,
    /// In the order of [`VALUES`].
    values: [f64; VALUES.len()],
    /// In the order of [`COUNTS`].
    counts: [u64; COUNTS.len()],
    /// Whether the elements are ids, which have no statistics: a tie may change any of them.
    ids: bool,
}

/// What follows the shape of a tensor of ids.
const IDS: &str = "ids";

const VALUES: [&str; 5] = ["min", "max", "mean", "std", "absmax"];
const COUNTS: [&str; 3] = ["nan", "inf", "-inf"];

impl StatsLine {
    fn of(record: &Record) -> Option<Self> {
        let (actual, stats) = (record.actual.as_ref()?, &record.metrics.as_ref()?.actual);
        let hit = if record.hit == 0 { String::new() } else { format!("@{}", record.hit) };
        let (name, shape) = (format!("{}{hit}", record.checkpoint), format!("{:?}", actual.shape));
        if record.is_of_ids() {
            return Some(Self::of_ids(name, actual.dtype, shape));
        }
        Some(Self {
            ids: false,
            name,
            dtype: actual.dtype,
            shape,
            values: [stats.min, stats.max, stats.mean, stats.std, stats.absmax],
            counts: [stats.nan, stats.positive_infinity, stats.negative_infinity],
        })
    }

    fn of_ids(name: String, dtype: Dtype, shape: String) -> Self {
        Self { name, dtype, shape, values: [0.0; VALUES.len()], counts: [0; COUNTS.len()], ids: true }
    }

    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(": ")?;
        let (dtype, rest) = rest.split_once(' ')?;
        let (shape, rest) = rest.split_at(rest.find(']')? + 1);
        if rest.trim() == IDS {
            return Some(Self::of_ids(name.to_owned(), Dtype::from_name(dtype)?, shape.to_owned()));
        }
        let mut words = rest.split_whitespace();
        let mut next = |label: &str| words.next().filter(|word| *word == label).and_then(|_| words.next());
        let mut values = [0.0; VALUES.len()];
        for (value, label) in values.iter_mut().zip(VALUES) {
            *value = next(label)?.parse().ok()?;
        }
        let mut counts = [0; COUNTS.len()];
        for (count, label) in counts.iter_mut().zip(COUNTS) {
            *count = next(label)?.parse().ok()?;
        }
        let dtype = Dtype::from_name(dtype)?;
        Some(Self { name: name.to_owned(), dtype, shape: shape.to_owned(), values, counts, ids: false })
    }

    /// How far the values of this accepted line may move.
    fn tolerance(&self) -> f64 {
        let absmax = self.values[VALUES.len() - 1];
        match self.dtype.epsilon() {
            Some(epsilon) if absmax.is_finite() => (DRIFT_EPSILONS * epsilon).max(DRIFT) * absmax,
            _ => 0.0,
        }
    }
}

impl fmt::Display for StatsLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.name, self.dtype, self.shape)?;
        if self.ids {
            return write!(f, " {IDS}");
        }
        for (label, value) in VALUES.iter().zip(self.values) {
            write!(f, " {label} {value:.6e}")?;
        }
        for (label, count) in COUNTS.iter().zip(self.counts) {
            write!(f, " {label} {count}")?;
        }
        Ok(())
    }
}

/// Returns one line per statistic of `new` that differs from `accepted` by more than its tolerance.
pub fn moved(accepted: &str, new: &str) -> Vec<String> {
    let read = |text: &str| -> Result<BTreeMap<String, StatsLine>, String> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines
            .map(|line| {
                StatsLine::parse(line).map(|read| (read.name.clone(), read)).ok_or_else(|| line.to_owned())
            })
            .collect()
    };
    let (accepted, new) = match (read(accepted), read(new)) {
        (Ok(accepted), Ok(new)) => (accepted, new),
        (Err(line), _) | (_, Err(line)) => {
            return vec![format!("not a line of statistics: `{line}`")];
        }
    };
    let mut found = Vec::new();
    for (name, old) in &accepted {
        match new.get(name) {
            Some(new) => changes(old, new, &mut found),
            None => found.push(format!("{name}  is no longer a checkpoint at this level")),
        }
    }
    let added = new.keys().filter(|name| !accepted.contains_key(*name));
    found.extend(added.map(|name| format!("{name}  is new")));
    found
}

fn changes(old: &StatsLine, new: &StatsLine, found: &mut Vec<String>) {
    let name = &old.name;
    if (old.dtype, &old.shape, old.ids) != (new.dtype, &new.shape, new.ids) {
        // The statistics of a different tensor cannot be compared.
        let ids = |line: &StatsLine| if line.ids { " ids" } else { "" };
        let tensor = |line: &StatsLine| format!("{} {}{}", line.dtype, line.shape, ids(line));
        found.push(format!("{name}  tensor: accepted {}, now {}", tensor(old), tensor(new)));
        return;
    }
    let tolerance = old.tolerance();
    for ((label, was), now) in VALUES.iter().zip(old.values).zip(new.values) {
        // Both are NaN when no element is finite.
        let same = was == now || (was.is_nan() && now.is_nan()) || (now - was).abs() <= tolerance;
        if !same {
            let off = (now - was).abs();
            found.push(format!(
                "{name}  {label}: accepted {was:.6e}, now {now:.6e}, off by {off:.2e}, tolerance {tolerance:.2e}"
            ));
        }
    }
    for ((label, was), now) in COUNTS.iter().zip(old.counts).zip(new.counts) {
        if was != now {
            found.push(format!("{name}  {label}: accepted {was}, now {now}, tolerance 0"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str = "norm: float32 [1, 6] min -3.000000e0 max 2.000000e0 mean 1.000000e-3 std 1.000000e0 \
                        absmax 3.000000e0 nan 0 inf 0 -inf 0";

    #[track_caller]
    fn check(from: &str, to: &str, expected: &[&str]) {
        assert!(LINE.contains(from));
        assert_eq!(moved(LINE, &LINE.replacen(from, to, 1)), expected);
    }

    #[test]
    fn a_statistic_beyond_its_tolerance_is_reported_with_both_numbers() {
        check("min -3", "min -3", &[]);
        // The tolerance is a thousandth of absmax, whatever the value of the statistic.
        check("mean 1.000000e-3", "mean 3.900000e-3", &[]);
        check(
            "mean 1.000000e-3",
            "mean 4.100000e-3",
            &["norm  mean: accepted 1.000000e-3, now 4.100000e-3, off by 3.10e-3, tolerance 3.00e-3"],
        );
        check("nan 0", "nan 1", &["norm  nan: accepted 0, now 1, tolerance 0"]);
        check("[1, 6]", "[6]", &["norm  tensor: accepted float32 [1, 6], now float32 [6]"]);
        check("norm", "norm2", &["norm  is no longer a checkpoint at this level", "norm2  is new"]);
        check(
            "max 2.000000e0",
            "max NaN",
            &["norm  max: accepted 2.000000e0, now NaN, off by NaN, tolerance 3.00e-3"],
        );
        check("float32", "bfloat16", &["norm  tensor: accepted float32 [1, 6], now bfloat16 [1, 6]"]);
        check(" std", " sdt", &[&format!("not a line of statistics: `{}`", LINE.replace(" std", " sdt"))]);
    }

    #[test]
    fn the_tolerance_is_that_of_the_dtype() {
        let line = |dtype: &str, std: &str| {
            LINE.replace("float32", dtype).replace("std 1.000000e0", &format!("std {std}"))
        };
        // 4 x 2^-7 of 3 is 0.094.
        assert!(moved(&line("bfloat16", "1.0"), &line("bfloat16", "1.09")).is_empty());
        assert_eq!(moved(&line("bfloat16", "1.0"), &line("bfloat16", "1.1")).len(), 1);
        assert_eq!(moved(&line("int32", "1.0"), &line("int32", "1.000001")).len(), 1);
    }

    #[test]
    fn ids_have_a_dtype_and_a_shape_only() {
        let line = "tokens: uint32 [1, 6] ids";
        assert_eq!(StatsLine::parse(line).unwrap().to_string(), line);
        assert!(moved(line, line).is_empty());
        assert_eq!(
            moved(line, &line.replace("6", "7")),
            ["tokens  tensor: accepted uint32 [1, 6] ids, now uint32 [1, 7] ids"]
        );
        assert_eq!(moved(LINE, "norm: float32 [1, 6] ids").len(), 1, "a gate for ids is a change");
    }

    #[test]
    fn two_tensors_without_finite_elements_are_equal() {
        let line = "x: float32 [2] min NaN max NaN mean NaN std NaN absmax NaN nan 2 inf 0 -inf 0";
        assert!(moved(line, line).is_empty());
        assert_eq!(moved(line, &line.replace("absmax NaN", "absmax 1.0")).len(), 1);
    }

    proptest! {
        #[test]
        fn a_line_comes_back_as_it_was(
            values in prop::array::uniform5(prop::num::f64::ANY),
            counts in prop::array::uniform3(any::<u64>()),
            shape in prop::collection::vec(0usize..99, 0..4),
        ) {
            let line = StatsLine {
                name: "blocks.0.out@1".into(),
                dtype: Dtype::Float16,
                shape: format!("{shape:?}"),
                values,
                counts,
                ids: false,
            };
            let text = line.to_string();
            let read = StatsLine::parse(&text).unwrap();
            prop_assert_eq!(read.to_string(), text.as_str());
            prop_assert_eq!((read.name, read.shape, read.counts), (line.name, line.shape, counts));
            prop_assert!(moved(&text, &text).is_empty());
        }

        #[test]
        fn any_text_can_be_compared_with_any_other(accepted in ".{0,80}", new in ".{0,80}") {
            moved(&accepted, &new);
        }
    }
}
