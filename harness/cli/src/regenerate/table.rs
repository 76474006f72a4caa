//! The changes of a set as a table for people.

use std::fmt::Write as _;

use super::changes::{SetChanges, TensorChange, TensorChangeKind, TensorVersion};
use super::reproduce::CHANGED_FLOOR;
use mlx_parity_core::gate::Floor;
use mlx_parity_core::report::multiple;
use mlx_parity_core::spec::list::counted;
use mlx_parity_core::text::printable::clean;

/// How many rows are shown unless all are asked for.
const SHOWN: usize = 12;

/// The changes of one set as a table, the largest first; `full` shows all of them.
pub(super) fn table(changes: &SetChanges, full: bool) -> String {
    let mut text = format!("  {}\n", clean(&summary(changes)));
    if changes.rows.is_empty() {
        return text;
    }
    let shown = if full { changes.rows.len() } else { SHOWN.min(changes.rows.len()) };
    let width = changes.rows[..shown].iter().map(|row| label(row).chars().count()).max().unwrap_or(0).max(28);
    let _ = writeln!(
        text,
        "\n    {:<width$}  {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "", "min", "max", "mean", "std", "floor", "its rms"
    );
    for row in &changes.rows[..shown] {
        let _ = writeln!(text, "  {}", clean(&headline(row)));
        for (word, side) in [("old", &row.old), ("new", &row.new)] {
            if let Some(side) = side {
                let _ = writeln!(text, "    {:<width$}  {}", format!("{word}  {}", side.kind), numbers(side));
            }
        }
    }
    if changes.rows.len() > shown {
        let _ = writeln!(text, "  … and {} more; --full shows all", changes.rows.len() - shown);
    }
    text
}

/// One line that counts the tensors by how they changed.
pub(super) fn summary(changes: &SetChanges) -> String {
    let count = |kind| changes.rows.iter().filter(|row| row.kind() == kind).count();
    let mut words: Vec<String> = [
        (count(TensorChangeKind::Changed), "changed"),
        (count(TensorChangeKind::Retyped), "with a different dtype or shape"),
        (count(TensorChangeKind::Added), "added"),
        (count(TensorChangeKind::Removed), "removed"),
        (count(TensorChangeKind::Floor), "with a different floor only"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    words.push(format!("{} the same", changes.same));
    let grown =
        changes.rows.iter().filter(|row| row.floor_growth().is_some_and(|times| times > CHANGED_FLOOR));
    let grown = grown.count();
    words.extend((grown > 0).then(|| format!("{} grew", counted(grown, "floor"))));
    if changes.rows.is_empty() && !changes.manifest_changes.is_empty() {
        words.push(format!("but the manifest changes: {}", changes.manifest_changes.join(", ")));
    }
    format!("{}: {}", counted(changes.rows.len() + changes.same, "tensor"), words.join(", "))
}

fn label(row: &TensorChange) -> String {
    let side = row.new.as_ref().or(row.old.as_ref());
    format!("old  {}", side.map_or("", |side| &side.kind))
}

fn headline(row: &TensorChange) -> String {
    let what = match row.kind() {
        TensorChangeKind::Added => "added".to_owned(),
        TensorChangeKind::Removed => "removed".to_owned(),
        TensorChangeKind::Retyped => "with a different dtype or shape".to_owned(),
        TensorChangeKind::Floor => "a different floor, the same elements".to_owned(),
        TensorChangeKind::Changed => match &row.difference {
            None => "changed; the old one cannot be read".to_owned(),
            Some(difference) => {
                let floor = difference
                    .times_floor
                    .as_ref()
                    .map(|times| format!(", {} its floor", multiple(times.max)))
                    .unwrap_or_default();
                format!(
                    "differs by up to {:.2e}{floor}, in {:.1} % of its elements",
                    difference.max_abs,
                    100.0 * (1.0 - difference.exact_fraction)
                )
            }
        },
    };
    format!("{} {}  {what}{}", row.role.name(), row.name, floor_change(row).unwrap_or_default())
}

/// A floor that grew, shrank or was removed.
fn floor_change(row: &TensorChange) -> Option<String> {
    let (old, new) = (row.old.as_ref()?.floor, row.new.as_ref()?.floor);
    match (old, new) {
        (Some(old), Some(new)) if new.over(&old) > CHANGED_FLOOR => {
            Some(format!("; its floor grew {}", multiple(new.over(&old))))
        }
        (Some(old), Some(new)) if old.over(&new) > CHANGED_FLOOR => {
            Some(format!("; its floor shrank {}", multiple(old.over(&new))))
        }
        (Some(_), None) => Some("; it no longer has a floor".to_owned()),
        _ => None,
    }
}

fn numbers(side: &TensorVersion) -> String {
    let part = |part: fn(&Floor) -> f64| {
        side.floor.as_ref().map_or_else(|| "-".to_owned(), |floor| format!("{:.1e}", part(floor)))
    };
    let floor = format!("{:>9} {:>9}", part(|floor| floor.max), part(|floor| floor.rms));
    let Some(stats) = &side.stats else {
        return format!("{:>10} {:>10} {:>10} {:>10} {floor}", "-", "-", "-", "-");
    };
    let wrong = stats.nan + stats.positive_infinity + stats.negative_infinity;
    let wrong = if wrong > 0 { format!("  {wrong} not finite") } else { String::new() };
    let [min, max, mean, std] = [stats.min, stats.max, stats.mean, stats.std].map(number);
    format!("{min:>10} {max:>10} {mean:>10} {std:>10} {floor}{wrong}")
}

/// Returns four digits, whatever the size.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        _ if value == 0.0 => "0".to_owned(),
        size if (1e-3..1e5).contains(&size) => {
            let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
            format!("{value:.digits$}")
        }
        _ => format!("{value:.2e}"),
    }
}
