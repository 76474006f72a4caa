//! Debug sessions over REST, with a real HTTP client.

use serde_json::{Value, json};

use crate::client::Server;
#[cfg(target_os = "linux")]
use crate::processes::resident;
use crate::processes::{is_alive, signal, until};
use crate::project::{ID, Project};

#[test]
fn the_basic_workflow_starts_breaks_polls_looks_and_ends() {
    let project = Project::with_port("scaled");
    let server = Server::start(&project, &[]);
    assert!(server.gets("/debug/status", 409)["error"].as_str().unwrap().contains("no debug session"));
    // Nobody waits for the build: the breakpoint and the order to go on take effect when the worker stands.
    server.posts("/debug/start", json!({"spec": ID}), 202);
    let set = server.posts("/debug/breakpoint", json!({"pattern": "gated"}), 200);
    assert_eq!(set["breakpoints"][0]["pattern"], "gated");
    let (status, going) = server.post("/debug/continue_async", json!({}));
    assert!(status == 202 || status == 200, "{going}");
    let status = server.gets("/debug/status?wait=120", 200);
    assert_eq!((&status["kind"], &status["state"]), (&json!("status"), &json!("paused")), "{status}");
    let location = server.gets("/debug/location", 200);
    assert_eq!(
        (&location["kind"], &location["tap"]["name"]),
        (&json!("location"), &json!("gated")),
        "{location}"
    );
    assert_eq!(location["tap"]["status"], "fail");
    assert!(location["reference"]["lines"].as_array().is_some_and(|lines| lines.len() > 5), "{location}");
    let shape = server.posts("/debug/evaluate", json!({"expression": "actual.shape"}), 200);
    assert_eq!(shape["values"][0]["values"], json!([1.0, 6.0, 48.0]), "{shape}");
    let ended = server.posts("/debug/terminate", json!({}), 200);
    assert_eq!((&ended["kind"], &ended["how"]), (&json!("ended"), &json!("terminated")), "{ended}");
    assert_eq!(server.gets("/debug/status", 200)["state"], "ended");
    server.posts("/debug/start", json!({"spec": "gated_mlp/other"}), 404);
    assert_eq!(server.gets("/debug/status", 200)["state"], "ended", "a start that fails changes nothing");
    // The trace stays.
    let folder = server.gets("/debug/status", 200)["folder"].as_str().unwrap().to_owned();
    let trace = std::fs::read_to_string(format!("{folder}/trace.jsonl")).unwrap();
    assert!(trace.contains("\"gated\"") && trace.contains("actual.shape"));
}

#[test]
fn every_end_point_answers() {
    let project = Project::with_port("scaled");
    let server = Server::start(&project, &[ID]);
    assert_eq!(server.gets("/debug/status?wait=120", 200)["state"], "paused");
    let first = server.posts("/debug/step/into?wait=60", json!({}), 200);
    assert_eq!((&first["kind"], &first["tap"]["name"]), (&json!("stopped"), &json!("norm")), "{first}");
    server.posts("/debug/breakpoint", json!({"pattern": "*", "on": "failed", "hit": 1}), 200);
    server.posts("/debug/breakpoint", json!({"pattern": "out", "when": "used > 1"}), 200);
    assert_eq!(server.gets("/debug/breakpoints", 200)["breakpoints"].as_array().unwrap().len(), 2);
    let one = server.posts("/debug/breakpoint/remove", json!({"which": 2}), 200);
    assert_eq!(one["breakpoints"].as_array().unwrap().len(), 1, "{one}");
    let red = server.posts("/debug/continue_async?wait=60", json!({}), 200);
    assert_eq!(
        (&red["why"]["reason"], &red["tap"]["name"]),
        (&json!("breakpoint"), &json!("gated")),
        "{red}"
    );
    assert_eq!(server.posts("/debug/breakpoints/clear", json!({}), 200)["breakpoints"], json!([]));
    let variables = server.gets("/debug/variables?pattern=*gate*", 200);
    let names: Vec<&str> =
        variables["variables"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.iter().any(|name| name.contains("gated")), "{names:?}");
    assert_eq!(server.gets("/debug/tensors?pattern=*gate*", 200)["variables"], variables["variables"]);
    let tensor = server.gets("/debug/tensors/golden?slice=0,%200,%20:4", 200);
    assert_eq!((&tensor["kind"], &tensor["value"]["shape"]), (&json!("tensor"), &json!([4])), "{tensor}");
    let history = server.gets("/debug/checkpoints", 200);
    let reached = history["checkpoints"].as_array().unwrap();
    assert_eq!((&reached[0]["name"], &reached[0]["status"]), (&json!("norm"), &json!("pass")), "{history}");
    assert_eq!(reached.last().unwrap()["status"], "fail", "{history}");
    let part = server.gets("/debug/checkpoints?from=1&limit=1", 200);
    assert_eq!(part["checkpoints"].as_array().unwrap().len(), 1);
    assert_eq!(part["left_out"].as_u64().unwrap() as usize, reached.len() - 2);
    server.gets("/debug/location", 200);
    server.posts("/debug/evaluate", json!({"expression": "actual.shape"}), 200);
    let cause = server.posts("/debug/command", json!({"line": "diagnose"}), 200);
    assert_eq!(cause["kind"], "diagnosis", "{cause}");
    let set = server.posts(
        "/debug/command",
        json!({"command": "set", "name": "gated", "expression": "actual / 1.01"}),
        200,
    );
    assert_eq!((&set["kind"], &set["now"]), (&json!("changed"), &json!(true)), "{set}");
    let out = server.posts("/debug/step/out?wait=60", json!({}), 422);
    assert!(out["error"].as_str().unwrap().contains("no scope is open"), "{out}");
    let next = server.posts("/debug/step/over?wait=60", json!({}), 200);
    assert_eq!((&next["tap"]["name"], &next["altered"]), (&json!("out"), &json!(true)), "{next}");
    let end = server.posts("/debug/continue_async?wait=60", json!({}), 200);
    assert_eq!(end["why"]["reason"], "returned", "{end}");
    let again = server.posts("/debug/restart?wait=60", json!({}), 200);
    assert_eq!(again["why"]["reason"], "start", "{again}");
    server.posts("/debug/terminate", json!({}), 200);
    server.posts("/debug/start?wait=60", json!({"spec": ID}), 200);
    // A pause needs a port that runs, and a step out needs a scope: other tests have both.
    let silent = server.described().silent();
    let expected = ["POST /debug/pause", "POST /debug/step/out", "GET /docs", "GET /openapi.json"];
    assert_eq!(silent, expected, "no answer was checked");
}

#[test]
fn an_answer_with_another_field_or_without_one_is_not_as_described() {
    let project = Project::with_port("right");
    let server = Server::start(&project, &[ID]);
    server.gets("/debug/status?wait=120", 200);
    let stop = server.posts("/debug/step/over?wait=60", json!({}), 200);
    let schema = json!({"$ref": "#/components/schemas/StoppedAnswer"});
    let problems = |answer: &Value| server.described().problems(&schema, answer);
    assert!(problems(&stop).is_empty());
    for (place, name) in
        [("", "why"), ("", "ok"), ("/tap", "actual"), ("/tap/actual_stats", "mean"), ("/goes_on", "tensor")]
    {
        let mut less = stop.clone();
        less.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        assert_eq!(problems(&less).len(), 1, "without {place}/{name}");
        let mut more = stop.clone();
        more.pointer_mut(place).unwrap()["other"] = 1.into();
        assert_eq!(problems(&more).len(), 1, "{place} has another field");
    }
    let mut wrong = stop;
    wrong["tap"]["actual_stats"]["max"] = "huge".into();
    assert!(!problems(&wrong).is_empty());
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "slow: a thousand stops"]
fn a_thousand_stops_leak_nothing() {
    let project = Project::with_port("loops");
    let server = Server::start(&project, &[ID]);
    server.gets("/debug/status?wait=120", 200);
    let steps = |count: usize| {
        for _ in 0..count {
            server.posts("/debug/step/into?wait=60", json!({}), 200);
            server.posts("/debug/evaluate", json!({"expression": "abs(actual).max()"}), 200);
        }
    };
    steps(150);
    let worker = server.gets("/debug/status", 200)["worker"].as_u64().unwrap();
    let resident = || [worker, u64::from(server.id())].map(resident);
    let before = resident();
    steps(1000);
    let after = resident();
    println!("resident kB: worker and server {before:?}, after 1,000 stops {after:?}");
    for (before, after) in before.iter().zip(after) {
        assert!(after < before + (16 << 10), "{before} kB grew to {after} kB");
    }
}

#[test]
fn the_list_of_end_points_and_the_page_come_from_the_program() {
    let project = Project::with_port("right");
    let server = Server::start(&project, &[]);
    let (status, document) = server.get("/openapi.json");
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let paths: Vec<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
    insta::assert_snapshot!(paths.join("\n"));
    let page = server.raw(
        format!("GET /docs?token={} HTTP/1.1\r\nHost: {}\r\n\r\n", server.token, server.address).as_bytes(),
    );
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\n")
            && page.contains("content-security-policy: default-src 'none'")
    );
    assert!(page.contains("/debug/continue_async") && !page.contains(&server.token));
    // Nothing is loaded from another place.
    assert!(!page.contains("src=") && !page.contains("https://"), "{page}");
}

#[test]
fn a_running_port_is_paused_and_the_session_ends_with_the_server() {
    let project = Project::with_port("waits");
    let mut server = Server::start(&project, &[ID]);
    assert_eq!(server.gets("/debug/status?wait=120", 200)["state"], "paused");
    server.posts("/debug/pause", json!({}), 409);
    server.posts("/debug/breakpoint", json!({"pattern": "gated"}), 200);
    server.posts("/debug/continue_async?wait=60", json!({}), 200);
    server.posts("/debug/continue_async", json!({}), 202);
    // While the port runs, its state can be asked for, and nothing else is performed.
    let busy = server.posts("/debug/evaluate", json!({"expression": "1"}), 409);
    assert!(busy["error"].as_str().unwrap().contains("the port is running"), "{busy}");
    assert_eq!(server.gets("/debug/status", 200)["state"], "running");
    server.posts("/debug/pause", json!({}), 202);
    let quick = server.gets("/debug/checkpoints", 200);
    assert_eq!(quick["state"], "running", "{quick}");
    std::fs::write(project.path("go"), "").unwrap();
    assert_eq!(server.gets("/debug/status?wait=60", 200)["state"], "paused");
    let location = server.gets("/debug/location", 200);
    assert_eq!(
        (&location["tap"]["name"], &location["why"]["reason"]),
        (&json!("out"), &json!("pause")),
        "{location}"
    );
    let worker = server.gets("/debug/status", 200)["worker"].as_u64().unwrap();
    let status = std::process::Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    assert!(status.unwrap().success());
    assert_eq!(server.wait(), Some(0));
    assert!(
        !std::path::Path::new(&format!("/proc/{worker}")).exists(),
        "the worker {worker} outlived the server"
    );
}

#[test]
fn a_session_ends_with_a_server_that_is_killed() {
    let project = Project::with_port("right");
    let mut server = Server::start(&project, &[ID]);
    server.gets("/debug/status?wait=120", 200);
    server.posts("/debug/step/over?wait=60", json!({}), 200);
    let worker = server.gets("/debug/status", 200)["worker"].to_string();
    signal("-KILL", &server.id().to_string());
    assert_eq!(server.wait(), None);
    until(|| !is_alive(&worker));
    assert_eq!(project.trace().last().unwrap()["event"], "answer");
}
