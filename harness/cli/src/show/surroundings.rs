//! What surrounds a tap: the lines of the port's source, and of the log.

use std::path::Path;

use mlx_parity_core::files::regular;
use mlx_parity_core::record::Location;
use mlx_parity_core::run_folder::TAP_LINE;
use mlx_parity_core::text::printable::clean;

/// Lines on each side.
const AROUND: usize = 5;

/// The lines around the tap in the port's source as it is now, or why there are none.
pub(super) fn source_lines(root: &Path, place: &Location) -> Result<Vec<String>, String> {
    let path = root.join(&place.file);
    let text =
        regular::read_text(&path, regular::TEXT).map_err(|error| format!("`{}`: {error}", place.file))?;
    let lines: Vec<&str> = text.lines().collect();
    let at = (place.line as usize).saturating_sub(1);
    if at >= lines.len() {
        return Err(format!(
            "`{}` has {} lines now, and the tap was in line {}",
            place.file,
            lines.len(),
            place.line
        ));
    }
    Ok(around(&lines, at))
}

/// The lines of the log around the tap's own line; empty if the log has none.
pub(super) fn log_lines(log: &Path, name: &str) -> Vec<String> {
    let Ok(text) = regular::read_text(log, regular::TEXT) else { return Vec::new() };
    let lines: Vec<&str> = text.lines().collect();
    let own = format!("{TAP_LINE}{name}");
    lines.iter().position(|line| *line == own).map(|at| around(&lines, at)).unwrap_or_default()
}

fn around(lines: &[&str], at: usize) -> Vec<String> {
    let (start, end) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(lines.len()));
    let width = end.to_string().len();
    let shown = (start..end).map(|index| {
        let mark = if index == at { '>' } else { ' ' };
        format!("{mark} {:>width$} | {}", index + 1, clean(lines[index])).trim_end().to_owned()
    });
    shown.collect()
}
