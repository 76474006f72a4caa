//! The times of stages as a Chrome trace, which Perfetto and `chrome://tracing` open.

use serde::Serialize;
use serde_json::{Value, json};

use crate::results::RunResults;

/// A trace file.
#[derive(Serialize)]
struct TraceFile {
    #[serde(rename = "traceEvents")]
    events: Vec<Value>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
}

/// Returns the stages of a run as a Chrome trace: one track per spec, one slice per checkpoint, and the memory of MLX as a
/// counter.
///
/// The slices follow each other without gaps: the time in which taps were compared is not the port's, and is left out. In a
/// timed run, the times are those of warm runs.
///
/// # Errors
/// When the trace cannot be written as JSON.
pub fn chrome_trace(run: &RunResults) -> Result<String, serde_json::Error> {
    let mut events = vec![named("process_name", 0, "parity")];
    for (track, account) in run.accounts().enumerate() {
        let track = track + 1;
        events.push(named("thread_name", track, &account.spec.id));
        let mut now = 0.0;
        for trial in account.selected() {
            let Some(record) = &trial.record else { continue };
            let millis = trial.warm_millis.unwrap_or(record.millis);
            // A damaged record can hold any number here.
            let micros = if millis.is_finite() { (1000.0 * millis).max(0.0) } else { 0.0 };
            let shape = record.actual.as_ref().map(|actual| format!("{} {:?}", actual.dtype, actual.shape));
            let place = record.location.as_ref().map(|place| format!("{}:{}", place.file, place.line));
            events.push(json!({
                "name": trial.name, "cat": record.stage.as_deref().unwrap_or("checkpoint"), "ph": "X", "ts": now,
                "dur": micros, "pid": 1, "tid": track,
                "args": {"tensor": shape, "tap": place, "status": record.verdict.status},
            }));
            now += micros;
            if let Some(memory) = record.memory {
                events.push(json!({
                    "name": format!("memory of {}", account.spec.id), "ph": "C", "ts": now, "pid": 1, "tid": track,
                    "args": {"active": memory.active_bytes},
                }));
            }
        }
    }
    serde_json::to_string(&TraceFile { events, unit: "ms" })
}

fn named(what: &str, track: usize, name: &str) -> Value {
    json!({"name": what, "ph": "M", "pid": 1, "tid": track, "args": {"name": name}})
}
