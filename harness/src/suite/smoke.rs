//! The trial `parity::smoke`: MLX computes on this machine. It is listed first, because nothing else means anything without it.

use std::time::Duration;

use super::context::Context;
use crate::worker::{Errand, Pace, SMOKE_FILE, Smoke, run_errand};
use mlx_parity_core::files::regular;
use mlx_parity_core::run_folder::Exit;
use mlx_parity_core::settings::names::SMOKE;
use mlx_parity_core::text::error_chain;

/// The check takes milliseconds; this allows for a machine that is busy or loads MLX for the first time.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How many lines of the output of a failed check are shown.
const LINES: usize = 8;

/// Starts the check in a process of its own, and returns what is wrong.
pub(super) fn smoke(context: &Context) -> Result<(), String> {
    let message = |error: mlx_parity_core::run_folder::FolderError| error_chain(&error);
    let folder = context.suite_folder()?.smoke().map_err(message)?;
    let _held = folder.lock().map_err(message)?;
    let _ = std::fs::remove_file(folder.file(SMOKE_FILE));
    // It takes milliseconds, so it does not wait for the device, which another run can hold for long.
    let errand = Errand { folder: &folder, variable: SMOKE, value: folder.file("") };
    let exit = run_errand(&errand, TIMEOUT, || Pace::Counts);
    let result: Option<Smoke> = folder.read_json(SMOKE_FILE).map_err(message)?;
    let problem = match (result, exit) {
        (Some(Smoke { problem: None }), Exit::Done) => return Ok(()),
        (Some(Smoke { problem: Some(problem) }), _) => problem,
        (_, exit) => {
            let output = regular::read_text(&folder.output(), regular::TEXT).unwrap_or_default();
            let lines: Vec<&str> = output.lines().collect();
            let shown = lines[lines.len().saturating_sub(LINES)..].join("\n");
            format!("the process that computes a few small tensors ended with {exit:?}\n{shown}")
        }
    };
    Err(format!(
        "MLX does not compute on this machine, so no other result can be trusted; run `{} doctor`\n{problem}",
        mlx_parity_core::text::program::program()
    ))
}
