//! The list of end points.

/// One end point.
pub(super) struct Endpoint {
    pub(super) method: Method,
    /// The path, as axum writes it.
    pub(super) path: &'static str,
    pub(super) action: Action,
    /// What it does, in one or two sentences.
    pub(super) about: &'static str,
    /// Fields of the query.
    pub(super) query: &'static [Field],
    /// Fields of the JSON body, for POST.
    pub(super) body: &'static [Field],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// What an end point does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Starts a session.
    Start,
    /// Performs the command with this name. Its fields are those of the body, of the query and of the path.
    Command(&'static str),
    /// Performs any command, as a line or as JSON.
    AnyCommand,
    Pause,
    Status,
    /// Lists the records of the session.
    History,
    OpenApi,
    Docs,
}

/// One field of a query or of a body.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Its type in JSON schema.
    pub(super) kind: &'static str,
    pub(super) required: bool,
    pub(super) about: &'static str,
}

const fn needed(name: &'static str, kind: &'static str, about: &'static str) -> Field {
    Field { name, kind, required: true, about }
}

const fn optional(name: &'static str, kind: &'static str, about: &'static str) -> Field {
    Field { name, kind, required: false, about }
}

const WAIT: Field = optional(
    "wait",
    "number",
    "Seconds to wait for the next stop, from 0 (the default) to 300; then the answer is 202",
);
const PATTERN: Field = optional("pattern", "string", "Only names that match; `*` stands for any characters");

const fn get(path: &'static str, action: Action, about: &'static str, query: &'static [Field]) -> Endpoint {
    Endpoint { method: Method::Get, path, action, about, query, body: &[] }
}

/// An end point with which the port goes on.
const fn goes_on(path: &'static str, command: &'static str, about: &'static str) -> Endpoint {
    Endpoint {
        method: Method::Post,
        path,
        action: Action::Command(command),
        about,
        query: &[WAIT],
        body: &[],
    }
}

const fn post(path: &'static str, action: Action, about: &'static str, body: &'static [Field]) -> Endpoint {
    Endpoint { method: Method::Post, path, action, about, query: &[WAIT], body }
}

pub(super) const ENDPOINTS: &[Endpoint] = &[
    post(
        "/debug/start",
        Action::Start,
        "Starts a session: builds the suite and stands before the port starts. Poll the status, or wait.",
        &[
            needed("spec", "string", "The spec, as `model/component`"),
            optional("release", "boolean", "Builds and runs with optimisation"),
            optional(
                "idle_seconds",
                "integer",
                "Seconds without a command after which the worker ends; 1800 by default",
            ),
        ],
    ),
    goes_on("/debug/restart", "restart", "Builds again and starts the same spec. Breakpoints stay."),
    post(
        "/debug/breakpoint",
        Action::Command("break"),
        "Adds a breakpoint. Also possible while the session starts.",
        &[
            needed(
                "pattern",
                "string",
                "Names of taps: `*` for any characters, `{i}` for a number that `when` can use",
            ),
            optional("on", "string", "`any` (the default), `failed` or `nan`: the results at which to stop"),
            optional("when", "string", "Stops only where this expression is not zero"),
            optional("hit", "integer", "Stops only at this one of the matching hits, from 1"),
        ],
    ),
    post(
        "/debug/breakpoint/remove",
        Action::Command("remove"),
        "Removes breakpoints.",
        &[needed("which", "string", "The number or the pattern of breakpoints")],
    ),
    get("/debug/breakpoints", Action::Command("breaks"), "Lists the breakpoints.", &[]),
    post("/debug/breakpoints/clear", Action::Command("clear"), "Removes every breakpoint.", &[]),
    goes_on(
        "/debug/continue_async",
        "continue",
        "Goes on to the next breakpoint or to the end. Returns at once, unless `wait` is given. While the session starts, it \
         takes effect as soon as the worker stands.",
    ),
    goes_on("/debug/step/over", "next", "Goes on to the next declared checkpoint."),
    goes_on("/debug/step/into", "into", "Goes on to the next tap of any level, declared or not."),
    goes_on("/debug/step/out", "out", "Goes on to the first declared checkpoint outside the current scope."),
    Endpoint {
        method: Method::Post,
        path: "/debug/pause",
        action: Action::Pause,
        about: "Asks a running port to stop at its next tap.",
        query: &[WAIT],
        body: &[],
    },
    get(
        "/debug/status",
        Action::Status,
        "The state of the session: `starting`, `paused`, `running` or `ended`. With `wait`, waits until the port stands or has \
         ended.",
        &[WAIT],
    ),
    get(
        "/debug/location",
        Action::Command("location"),
        "The tap at which the port stands, its scopes, and the lines of the port and of the reference.",
        &[],
    ),
    get("/debug/variables", Action::Command("vars"), "Taps seen so far, inputs and weights.", &[PATTERN]),
    post(
        "/debug/evaluate",
        Action::Command("eval"),
        "Evaluates an expression over the tensors of the session.",
        &[needed("expression", "string", "Such as `abs(actual - golden).max()`")],
    ),
    get(
        "/debug/checkpoints",
        Action::History,
        "The checkpoints that the port has reached in this run, in order, with their results. Also while it runs.",
        &[
            optional("from", "integer", "The number of the first one, from 0"),
            optional("limit", "integer", "How many, at most 1000; 200 by default"),
        ],
    ),
    get(
        "/debug/tensors",
        Action::Command("vars"),
        "Lists the tensors: the same as `/debug/variables`.",
        &[PATTERN],
    ),
    get(
        "/debug/tensors/{*name}",
        Action::Command("show"),
        "One tensor: dtype, shape, statistics and values. Names are those of expressions, such as `golden` or `weight.up.weight`.",
        &[optional("slice", "string", "A part of it, as in NumPy: `0, :, 3`")],
    ),
    post(
        "/debug/command",
        Action::AnyCommand,
        "Performs any command: a line of the prompt, or the command as JSON, such as `{\"command\": \"inject\"}`. Commands \
         without an end point of their own are `until`, `inject`, `set`, `save`, `diagnose`, `note` and `help`.",
        &[
            optional("line", "string", "A line, such as `set gated actual / 2`"),
            optional("command", "string", "The name of a command; its arguments are further fields"),
        ],
    ),
    post(
        "/debug/terminate",
        Action::Command("terminate"),
        "Ends the worker. The trace stays in the session's folder. The server goes on.",
        &[],
    ),
    get("/openapi.json", Action::OpenApi, "This list as an OpenAPI document.", &[]),
    get("/docs", Action::Docs, "A page to read about the end points and to try them.", &[]),
];

impl Endpoint {
    /// The path as OpenAPI writes it.
    pub(super) fn open_path(&self) -> String {
        self.path.replace("{*", "{")
    }

    /// Whether a request to `path` means this end point.
    pub(super) fn matches(&self, path: &str) -> bool {
        match self.path.split_once("{*") {
            Some((start, _)) => path.strip_prefix(start).is_some_and(|name| !name.is_empty()),
            None => path == self.path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_an_end_point_exists_and_takes_the_fields() {
        for endpoint in ENDPOINTS {
            let Action::Command(name) = endpoint.action else { continue };
            let mut json = serde_json::json!({"command": name});
            let in_path = endpoint.path.contains("{*name}").then_some("name");
            let in_query = endpoint.query.iter().map(|field| field.name).filter(|name| *name != "wait");
            for field in in_path.into_iter().chain(in_query) {
                json[field] = "x".into();
            }
            for field in endpoint.body {
                json[field.name] = match field.kind {
                    "integer" => 1.into(),
                    _ if field.name == "on" => "failed".into(),
                    _ => "x".into(),
                };
            }
            let command = serde_json::from_value::<mlx_parity_cli::debug::Command>(json.clone());
            assert!(command.is_ok(), "{}: {json}: {command:?}", endpoint.path);
        }
    }
}
