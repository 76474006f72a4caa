//! The list of tools.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::reply::{Reply, result};
use super::wait::Wait;
use super::{Tooling, causes, debug_tools, run_tools};
use crate::failure::{Failure, FailureKind};

/// A tool without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

type Call = fn(&Tooling, JsonObject) -> Result<Reply, Failure>;

/// One tool.
struct Entry {
    name: &'static str,
    about: &'static str,
    /// Whether it changes nothing.
    reads: bool,
    schema: fn() -> JsonObject,
    call: Call,
}

fn entry<T: DeserializeOwned + JsonSchema>(
    name: &'static str,
    about: &'static str,
    reads: bool,
    call: Call,
) -> Entry {
    Entry { name, about, reads, schema: schema::<T>, call }
}

/// Reads the arguments, and calls `work` with them.
macro_rules! with {
    ($kind:ty, $work:expr) => {
        |tooling, given| arguments::<$kind>(given).and_then(|arguments| $work(tooling, arguments))
    };
}

fn entries() -> Vec<Entry> {
    vec![
        entry::<run_tools::ListSpecs>(
            "list_specs",
            "List the specs of the project with their checkpoints, and spec files with mistakes",
            true,
            with!(run_tools::ListSpecs, run_tools::list_specs),
        ),
        entry::<Nothing>(
            "list_runs",
            "List the runs of the suite, newest first",
            true,
            with!(Nothing, |tooling, _| run_tools::list_runs(tooling)),
        ),
        entry::<run_tools::RunSpec>(
            "run_spec",
            "Build the suite, run one spec or all of them, and return what is green, what is red, and the first faulty stage \
             of each red spec. A long run goes on in the background; ask run_status",
            false,
            with!(run_tools::RunSpec, run_tools::run_spec),
        ),
        entry::<Wait>(
            "run_status",
            "Wait for the run that run_spec started, and return its results, or how far it has come",
            true,
            with!(Wait, run_tools::run_status),
        ),
        entry::<Nothing>(
            "stop_run",
            "Stop the run that run_spec started",
            false,
            with!(Nothing, |tooling, _| run_tools::stop_run(tooling)),
        ),
        entry::<run_tools::OfRun>(
            "first_divergence",
            "For each red spec of a run: the first red checkpoint, the first faulty stage (wrong although its inputs are \
             the goldens), its causes, and where to look. The newest run by default",
            true,
            with!(run_tools::OfRun, run_tools::first_divergence),
        ),
        entry::<run_tools::OfCheckpoint>(
            "checkpoint_detail",
            "Everything that a run measured at one checkpoint, with its causes and pictures",
            true,
            with!(run_tools::OfCheckpoint, run_tools::checkpoint_detail),
        ),
        entry::<run_tools::CompareRuns>(
            "compare_runs",
            "What changed between two runs, per checkpoint, worst first",
            true,
            with!(run_tools::CompareRuns, run_tools::compare_runs),
        ),
        entry::<Nothing>(
            "list_causes",
            "List the kinds of causes and facts that a diagnosis can name",
            true,
            with!(Nothing, |_, _| causes::list()),
        ),
        entry::<causes::Explain>(
            "explain_cause",
            "What one kind of cause or fact means, and what to look at in the port",
            true,
            with!(causes::Explain, |_, explain| causes::explain(&explain)),
        ),
        entry::<debug_tools::Start>(
            "debug_start",
            "Start a debug session: build the suite and stand before the port of a spec starts. One session at a time",
            false,
            with!(debug_tools::Start, debug_tools::start),
        ),
        entry::<debug_tools::Line>(
            "debug_command",
            "Perform one command line of the debug session: break PATTERN|failed|nan [when EXPR] [first|hit N], breaks, \
             remove N, clear, continue, next, into, out, until PATTERN, location, vars [PATTERN], show NAME [SLICE], eval EXPR, \
             inject [NAME], set NAME EXPR, save NAME FILE, diagnose, note TEXT, restart, start SPEC, terminate. \
             Expressions know `actual` and `golden` at the current tap, and NAME, golden.NAME, input.NAME, weight.NAME",
            false,
            with!(debug_tools::Line, debug_tools::command),
        ),
        entry::<Wait>(
            "debug_status",
            "The state of the debug session. With wait_seconds, wait until the port stands or has ended",
            true,
            with!(Wait, debug_tools::status),
        ),
        entry::<Wait>(
            "debug_pause",
            "Ask the running port to stop at its next tap",
            false,
            with!(Wait, debug_tools::pause),
        ),
        entry::<Nothing>(
            "debug_terminate",
            "End the debug session. Its trace stays",
            false,
            with!(Nothing, |tooling, _| debug_tools::terminate(tooling)),
        ),
    ]
}

/// The tools, as a client sees them.
pub(super) fn list() -> Vec<Tool> {
    let tool = |entry: Entry| {
        let hints = ToolAnnotations::new().read_only(entry.reads).destructive(false).open_world(false);
        let mut tool = Tool::new(entry.name, entry.about, (entry.schema)());
        tool.annotations = Some(hints);
        tool
    };
    entries().into_iter().map(tool).collect()
}

/// Calls a tool.
pub(super) fn call(
    tooling: &Tooling,
    name: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorData> {
    let entries = entries();
    let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
        let near = mlx_parity_core::text::suggest::did_you_mean(name, names.iter().copied());
        return Err(ErrorData::invalid_params(format!("there is no tool `{name}`{near}"), None));
    };
    Ok(result((entry.call)(tooling, arguments)))
}

fn arguments<T: DeserializeOwned>(given: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(given)).map_err(|error| {
        Failure::new(FailureKind::Malformed, format!("the arguments are not those of the tool: {error}"))
    })
}

fn schema<T: JsonSchema>() -> JsonObject {
    match schemars::schema_for!(T).to_value() {
        Value::Object(mut schema) => {
            schema.remove("$schema");
            schema.remove("title");
            schema
        }
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_own_name_a_text_and_a_schema_of_an_object() {
        let tools = list();
        for (at, tool) in tools.iter().enumerate() {
            assert!(tools[..at].iter().all(|earlier| earlier.name != tool.name), "{}", tool.name);
            assert!(tool.description.as_ref().is_some_and(|text| text.len() > 20), "{}", tool.name);
            assert_eq!(tool.input_schema.get("type"), Some(&Value::from("object")), "{}", tool.name);
            assert_eq!(
                tool.input_schema.get("additionalProperties"),
                Some(&Value::from(false)),
                "{}",
                tool.name
            );
        }
    }
}
