//! Specs, runs and debug sessions over MCP, with rmcp's own client.

use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams, ResourceContents};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};

use crate::hostile::hostile_expressions;
use crate::processes::{is_alive, signal, until};
use crate::project::{ID, Project};

/// A server that an MCP client started.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    service: RunningService<RoleClient, ()>,
    /// The process of the server.
    process: u32,
}

/// The text and the JSON of a tool's answer.
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) data: Value,
    /// The addresses of resources that show more.
    pub(crate) links: Vec<String>,
    pub(crate) failed: bool,
}

impl Client {
    /// Starts `cargo xtask mcp`, as an agent does.
    pub(crate) fn start(project: &Project) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let mut command: tokio::process::Command = project.xtask(&["mcp"]).into();
        command.stderr(Stdio::null());
        let (service, process) = runtime.block_on(async {
            let (transport, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
            let process = transport.id().unwrap();
            (().serve(transport).await.unwrap(), process)
        });
        Self { runtime, service, process }
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Told {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.runtime.block_on(self.service.call_tool(request)).unwrap();
        let texts = result.content.iter().filter_map(|block| Some(block.as_text()?.text.clone()));
        let text = texts.collect::<Vec<_>>().join("\n");
        let links =
            result.content.iter().filter_map(|block| Some(block.as_resource_link()?.uri.clone())).collect();
        let data = result.structured_content.unwrap_or_default();
        Told { text, data, links, failed: result.is_error == Some(true) }
    }

    /// Expects an answer without an error, and returns its JSON.
    #[track_caller]
    pub(crate) fn tells(&self, tool: &str, arguments: Value) -> Value {
        let told = self.call(tool, arguments);
        assert!(!told.failed, "{tool}: {}", told.text);
        told.data
    }

    /// Expects an error with these words.
    #[track_caller]
    fn refuses(&self, tool: &str, arguments: Value, words: &str) {
        let told = self.call(tool, arguments);
        assert!(told.failed && told.text.contains(words), "{tool}: {}", told.text);
        assert_eq!(told.data["ok"], false, "{tool}: {}", told.data);
    }

    fn reads(&self, uri: &str) -> Result<ResourceContents, String> {
        let request = ReadResourceRequestParams::new(uri);
        let read = self.runtime.block_on(self.service.read_resource(request));
        read.map(|mut read| read.contents.remove(0)).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn text(&self, uri: &str) -> String {
        match self.reads(uri).unwrap() {
            ResourceContents::TextResourceContents { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_agent_runs_finds_looks_repairs_and_compares() {
    let project = Project::with_port("scaled");
    let client = Client::start(&project);
    let specs = client.tells("list_specs", json!({"filter": ID}));
    assert_eq!(specs["specs"][0]["names"]["names"], json!(["norm", "gated", "out"]), "{specs}");
    let ran = client.tells("run_spec", json!({"spec": ID, "wait_seconds": 120}));
    assert_eq!((&ran["state"], &ran["green"]), (&json!("done"), &json!(false)), "{ran}");
    let red = ran["run"].as_str().unwrap().to_owned();
    let stage = &ran["specs"][0]["first_faulty_stage"];
    assert_eq!((&stage["checkpoint"], &stage["known"]), (&json!("gated"), &json!(true)), "{ran}");
    assert_eq!(ran["specs"][0]["first_divergence"]["checkpoint"], "gated");
    let found = client.call("first_divergence", json!({}));
    assert_eq!(found.data["red"][0]["first_faulty_stage"]["causes"], stage["causes"]);
    let kind = stage["causes"][0]["kind"].as_str().unwrap();
    assert!(found.text.contains("gated_mlp/block::gated: value differs"), "{}", found.text);
    let detail = client.tells("checkpoint_detail", json!({"spec": ID, "checkpoint": "gated"}));
    assert_eq!(
        (&detail["status"], &detail["record"]["checkpoint"]),
        (&json!("fail"), &json!("gated")),
        "{detail}"
    );
    let cause = client.tells("explain_cause", json!({"kind": kind}));
    assert!(cause["look_at"].as_str().is_some_and(|text| text.len() > 10), "{cause}");
    // The repair of the port, and the run that proves it.
    project.set_port("scaled", "right");
    let ran = client.tells("run_spec", json!({"spec": ID, "wait_seconds": 120}));
    assert_eq!((&ran["green"], &ran["summary"]["failed"]), (&json!(true), &json!(0)), "{ran}");
    let compared = client.tells("compare_runs", json!({"before": red}));
    assert!(compared["fixed"].as_u64().unwrap() >= 2 && compared["now_red"] == 0, "{compared}");
    assert_eq!(compared["changes"][0]["change"], "fixed", "{compared}");
    let runs = client.tells("list_runs", json!({}));
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
    // What the tools leave out is in resources.
    let report = client.text(&format!("parity://runs/{red}/report.txt"));
    assert!(report.contains("gated_mlp/block::gated: value differs"), "{report}");
    let records = client.text(&format!("parity://runs/{red}/{ID}/records.jsonl"));
    assert!(records.starts_with(r#"{"kind":"checkpoint""#), "{records}");
    let listed = client.runtime.block_on(client.service.list_all_resources()).unwrap();
    assert!(listed.iter().any(|one| one.uri.ends_with("/trials.jsonl")), "{listed:?}");
    for resource in &listed {
        client.reads(&resource.uri).unwrap();
    }
}

#[test]
fn pictures_and_traces_are_resources() {
    let project = Project::with_port("shape");
    project.declare(
        "  - {name: gated, dtype: float32, shape: [6, 48], squeeze: [0], stage: image, noise: 8, range: [-0.1, 0.1]}",
    );
    let client = Client::start(&project);
    client.tells("run_spec", json!({"spec": ID, "wait_seconds": 120}));
    client.tells("debug_start", json!({"spec": ID, "wait_seconds": 120}));
    client.tells("debug_command", json!({"line": "note seen"}));
    client.tells("debug_terminate", json!({}));
    let told = client.call("checkpoint_detail", json!({"spec": ID, "checkpoint": "gated"}));
    assert_eq!(told.links.len(), 3, "{}", told.text);
    let listed = client.runtime.block_on(client.service.list_all_resources()).unwrap();
    for link in &told.links {
        assert!(listed.iter().any(|one| one.uri == *link), "{link} is not listed: {listed:?}");
        let ResourceContents::BlobResourceContents { blob, .. } = client.reads(link).unwrap() else {
            panic!("{link} is no picture")
        };
        assert!(blob.starts_with("iVBORw0KGgo"), "{link} is no PNG");
    }
    let trace = listed.iter().find(|one| one.uri.starts_with("parity://debug/")).unwrap();
    assert!(client.text(&trace.uri).contains("note seen"));
}

#[test]
fn hostile_calls_get_clear_errors_and_the_server_goes_on() {
    let project = Project::with_port("right");
    let client = Client::start(&project);
    client.refuses("list_specs", json!({"filtre": "x"}), "unknown field `filtre`");
    client.refuses("run_spec", json!({"spec": "gated_mlp/blok"}), "did you mean `gated_mlp/block`?");
    client.refuses("run_spec", json!({"spec": ID, "wait_seconds": 1e9}), "expected 0 to 600");
    client.refuses("run_status", json!({}), "no run was started");
    client.refuses("first_divergence", json!({}), "nothing has been run yet");
    client.refuses("explain_cause", json!({"kind": "norm_esp"}), "did you mean `norm_eps`?");
    client.refuses("debug_status", json!({}), "there is no debug session");
    client.refuses("debug_command", json!({"line": "contnue"}), "did you mean `continue`?");
    client.refuses("debug_command", json!({"line": ""}), "the line is empty");
    client.refuses("debug_start", json!({"spec": "../x"}), "does not exist");
    for uri in [
        "parity://runs/../../Cargo.toml",
        "parity://runs/%2e%2e/%2e%2e/cargo.json",
        "file:///etc/passwd",
        "parity://x/a.txt",
    ] {
        assert!(client.reads(uri).is_err(), "{uri}");
    }
    let unknown = client.runtime.block_on(client.service.call_tool(CallToolRequestParams::new("list_spec")));
    assert!(unknown.unwrap_err().to_string().contains("did you mean `list_specs`?"));
    let kinds = client.tells("list_causes", json!({}));
    assert!(kinds["kinds"].as_array().unwrap().len() > 40);
    // A run that goes on is polled, refuses a second one, and is stopped.
    project.set_port("right", "waits");
    let going = client.tells("run_spec", json!({"spec": ID, "wait_seconds": 0}));
    assert_eq!(going["state"], "running", "{going}");
    client.refuses("run_spec", json!({}), "goes on");
    assert_eq!(client.tells("run_status", json!({}))["state"], "running");
    assert_eq!(client.tells("stop_run", json!({}))["state"], "stopped");
}

#[test]
fn a_session_that_waits_for_the_device_says_who_holds_it() {
    let project = Project::with_port("waits");
    let client = Client::start(&project);
    client.tells("run_spec", json!({"spec": ID, "wait_seconds": 0}));
    let worker = || std::fs::read_to_string(project.path("count")).unwrap_or_default().trim().to_owned();
    until(|| !worker().is_empty());
    let suite = parent(&worker());
    let told = client.call("debug_start", json!({"spec": ID, "wait_seconds": 0}));
    assert_eq!(told.data["device"], format!("held by pid {suite}, which runs `{ID}`"), "{}", told.text);
    assert!(told.text.contains(&format!("  device   held by pid {suite}")), "{}", told.text);
    // The device is free when the run has ended.
    client.tells("stop_run", json!({}));
    let status = client.tells("debug_status", json!({"wait_seconds": 60}));
    assert_eq!((&status["state"], &status["device"]), (&json!("paused"), &Value::Null), "{status}");
}

#[test]
fn hostile_expressions_are_errors_and_the_session_goes_on() {
    let project = Project::with_port("right");
    let client = Client::start(&project);
    client.tells("debug_start", json!({"spec": ID, "wait_seconds": 120}));
    client.tells("debug_command", json!({"line": "next"}));
    for (wrong, words) in hostile_expressions() {
        client.refuses("debug_command", json!({"line": format!("eval {wrong}")}), words);
    }
    let one = client.tells("debug_command", json!({"line": "eval 1 + 1"}));
    assert_eq!(one["values"][0]["values"], json!([2.0]));
}

#[test]
fn the_tools_are_those_of_the_guide() {
    let project = Project::with_port("right");
    let client = Client::start(&project);
    let tools = client.runtime.block_on(client.service.list_all_tools()).unwrap();
    let names: Vec<String> = tools.iter().map(|tool| tool.name.to_string()).collect();
    insta::assert_snapshot!(names.join("\n"));
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/servers.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for name in &names {
        assert!(guide.contains(&format!("`{name}`")), "docs/src/servers.md does not name `{name}`");
    }
}

#[test]
fn a_run_ends_with_a_server_that_is_killed() {
    let project = Project::with_port("waits");
    let client = Client::start(&project);
    client.tells("run_spec", json!({"spec": ID, "wait_seconds": 0}));
    let worker = || std::fs::read_to_string(project.path("count")).unwrap_or_default().trim().to_owned();
    until(|| !worker().is_empty());
    let (worker, suite) = (worker(), parent(&worker()));
    assert!(is_alive(&worker) && is_alive(&suite));
    signal("-KILL", &client.process.to_string());
    until(|| !is_alive(&worker) && !is_alive(&suite));
    // The next server works.
    std::fs::write(project.path("go"), "").unwrap();
    let ran = Client::start(&project).tells("run_spec", json!({"spec": ID, "wait_seconds": 120}));
    assert_eq!(ran["green"], true, "{ran}");
}

#[test]
fn a_session_ends_with_a_server_that_is_killed() {
    let project = Project::with_port("right");
    let client = Client::start(&project);
    client.tells("debug_start", json!({"spec": ID, "wait_seconds": 120}));
    let status = client.tells("debug_command", json!({"line": "status"}));
    let worker = status["worker"].to_string();
    let suite = parent(&worker);
    assert!(is_alive(&worker) && is_alive(&suite));
    signal("-KILL", &client.process.to_string());
    until(|| !is_alive(&worker) && !is_alive(&suite));
    // The trace stays, and the next server has the device.
    assert!(project.trace().iter().any(|line| line["text"] == "status"));
    let again = Client::start(&project).tells("debug_start", json!({"spec": ID, "wait_seconds": 120}));
    assert_eq!(again["why"]["reason"], "start", "{again}");
}

/// The process that started this one.
fn parent(process: &str) -> String {
    let output = std::process::Command::new("ps").args(["-o", "ppid=", "-p", process]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
