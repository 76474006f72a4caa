//! Requests that nobody should send: each gets a clear error, and the server goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Server;
use crate::project::{ID, Project};

/// Sends a request with these header lines, and expects this status and these words.
#[track_caller]
fn check(server: &Server, head: &str, lines: &[String], body: &str, status: u16, words: &str) {
    let mut request = format!("{head} HTTP/1.1\r\n");
    lines.iter().for_each(|line| request += &format!("{line}\r\n"));
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let response = server.raw(request.as_bytes());
    assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{head} {lines:?}:\n{response}");
    assert!(response.contains(words) && response.contains(r#""ok":false"#), "{head} {lines:?}:\n{response}");
}

#[test]
fn strangers_are_refused() {
    let project = Project::with_port("right");
    let server = Server::start(&project, &[]);
    let host = format!("Host: {}", server.address);
    let token = format!("Authorization: {}", server.bearer());
    let line = |text: &str| text.to_owned();
    for head in ["GET /debug/status", "POST /debug/start", "GET /openapi.json", "GET /docs", "GET /nothing"] {
        check(&server, head, std::slice::from_ref(&host), "", 401, "has no token");
        check(
            &server,
            head,
            &[host.clone(), line("Authorization: Bearer 00")],
            "",
            401,
            "not the one of this server",
        );
        check(
            &server,
            head,
            &[line("Host: evil.example"), token.clone()],
            "",
            403,
            "`Host` names another server",
        );
        check(
            &server,
            head,
            &[host.clone(), token.clone(), line("Origin: http://evil.example")],
            "",
            403,
            "`Origin`",
        );
    }
    check(&server, "GET /debug/status?token=x", std::slice::from_ref(&host), "", 401, "has no token");
    let response = server.raw(b"GET /debug/status HTTP/1.1\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    // None of them reached the session.
    assert!(server.gets("/debug/status", 409)["error"].as_str().unwrap().contains("no debug session"));
    assert_eq!(server.posts("/debug/command", json!({"line": "help"}), 200)["kind"], "help");
}

#[test]
fn bad_requests_get_one_clear_error() {
    let project = Project::with_port("right");
    let server = Server::start(&project, &[]);
    let own = [format!("Host: {}", server.address), format!("Authorization: {}", server.bearer())];
    let json_type = [&own[..], &["Content-Type: application/json".to_owned()]].concat();
    check(
        &server,
        "POST /debug/start",
        &json_type,
        "{\"spec\": ",
        400,
        "the body is not what this end point takes",
    );
    check(&server, "POST /debug/start", &json_type, "[]", 400, "the body is not what");
    check(&server, "POST /debug/start", &json_type, "{}", 400, "missing field `spec`");
    check(
        &server,
        "POST /debug/start",
        &json_type,
        r#"{"spec": "a/b", "sepc": 1}"#,
        400,
        "unknown field `sepc`",
    );
    check(
        &server,
        "POST /debug/start",
        &json_type,
        r#"{"spec": "gated_mlp/blok"}"#,
        404,
        "did you mean `gated_mlp/block`?",
    );
    check(&server, "POST /debug/start", &json_type, r#"{"spec": "../../etc/passwd"}"#, 404, "does not exist");
    check(&server, "POST /debug/start", &own, r#"{"spec": "gated_mlp/block"}"#, 415, "application/json");
    check(&server, "POST /debug/start?wait=1e9", &json_type, r#"{"spec": "a/b"}"#, 400, "from 0 to 300");
    check(&server, "POST /debug/start?wiat=1", &json_type, r#"{"spec": "a/b"}"#, 400, "did you mean `wait`?");
    check(&server, "POST /debug/evaluate", &json_type, r#"{"expression": "1"}"#, 409, "no debug session");
    check(
        &server,
        "POST /debug/command",
        &json_type,
        r#"{"line": "contnue"}"#,
        400,
        "did you mean `continue`?",
    );
    check(&server, "POST /debug/command", &json_type, r#"{"command": "fly"}"#, 400, "unknown variant `fly`");
    check(&server, "POST /debug/command", &json_type, "{}", 400, "needs `line`");
    check(
        &server,
        "POST /debug/breakpoint",
        &json_type,
        r#"{"command": "clear"}"#,
        400,
        "unknown field `command`",
    );
    check(&server, "GET /debug/start", &own, "", 405, "takes POST, found GET");
    check(&server, "DELETE /debug/status", &own, "", 405, "takes GET, found DELETE");
    check(&server, "GET /debug/nothing", &own, "", 404, "there is no end point");
    let deep = format!("{{\"line\": {}", "[".repeat(30_000));
    check(&server, "POST /debug/command", &json_type, &deep, 400, "recursion limit");
    let long = format!(r#"{{"spec": "{}"}}"#, "x".repeat(70_000));
    check(&server, "POST /debug/start", &json_type, &long, 413, "more than 65536 bytes");
    // A length that was announced is refused before it is sent.
    let announced = format!(
        "POST /debug/start HTTP/1.1\r\n{}\r\nContent-Length: 99999999999\r\n\r\n",
        json_type.join("\r\n")
    );
    let response = server.raw(announced.as_bytes());
    assert!(response.starts_with("HTTP/1.1 413"), "{response}");
    for garbage in [&b"\x16\x03\x01\x02\x00"[..], b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n"] {
        let response = server.raw(garbage);
        assert!(!response.contains("HTTP/1.1 200"), "{response}");
    }
    let response = server.raw(format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(1 << 20)).as_bytes());
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{response}");
    server.gets("/debug/status", 409);
}

/// Expressions at the tap `norm` that are wrong, compute forever or need more memory than there is, and words of their errors.
pub(crate) fn hostile_expressions() -> Vec<(String, &'static str)> {
    let nested = format!("{}1{}", "(".repeat(20_000), ")".repeat(20_000));
    let wide = "y = norm.reshape([192, 1]) + norm.reshape([1, 192]); ";
    let texts = [
        ("nothing", "unknown name `nothing`"),
        ("actual +", "found the end"),
        ("actual.nothing()", "nothing"),
        ("import os", "os"),
        (&nested, "more than 100 levels"),
        (
            &format!("{wide}y.reshape([36864, 1]) + y.reshape([1, 36864])"),
            "11 GB, and 2.1 GB of the allowed memory are left",
        ),
        (&format!("{wide}{}y.sum()", "y = y @ y; ".repeat(5_000)), "takes more steps than are allowed"),
    ];
    texts.map(|(text, words)| (text.to_owned(), words)).to_vec()
}

#[test]
fn expressions_that_loop_or_allocate_are_errors_and_the_session_goes_on() {
    let project = Project::with_port("right");
    let server = Server::start(&project, &[ID]);
    assert_eq!(server.gets("/debug/status?wait=120", 200)["state"], "paused");
    server.posts("/debug/step/over?wait=60", json!({}), 200);
    for (wrong, words) in hostile_expressions() {
        let json = server.posts("/debug/evaluate", json!({"expression": wrong}), 422);
        let error = json["error"].as_str().unwrap();
        assert!(error.contains(words) && error.len() < 70_000, "{error}");
    }
    for (path, body) in [
        ("/debug/command", json!({"line": "show nothing"})),
        ("/debug/command", json!({"line": "inject nothing"})),
        ("/debug/command", json!({"line": "set norm zeros(1)"})),
        ("/debug/command", json!({"line": "save norm /nowhere/a.npy"})),
        ("/debug/breakpoint/remove", json!({"which": "77"})),
        ("/debug/breakpoint", json!({"pattern": "{"})),
        ("/debug/breakpoint", json!({"pattern": "*", "when": "("})),
    ] {
        server.posts(path, body, 422);
    }
    server.gets("/debug/tensors/nothing", 422);
    server.gets("/debug/tensors/..%2f..%2fetc%2fpasswd", 422);
    let one = server.posts("/debug/evaluate", json!({"expression": "1 + 1"}), 200);
    assert_eq!(one["values"][0]["values"], json!([2.0]));
}

#[test]
fn a_second_session_is_refused_in_this_server_and_in_another() {
    let project = Project::with_port("right");
    let server = Server::start(&project, &[ID]);
    let busy = server.posts("/debug/start", json!({"spec": ID}), 409);
    assert!(busy["error"].as_str().unwrap().contains("goes on, and a server has one at a time"), "{busy}");
    let other = Server::start(&project, &[]);
    let held = other.posts("/debug/start", json!({"spec": ID}), 409);
    assert!(held["error"].as_str().unwrap().contains(&server.id().to_string()), "names the holder: {held}");
    server.posts("/debug/terminate", json!({}), 200);
    other.posts("/debug/start", json!({"spec": ID}), 202);
    other.posts("/debug/terminate", json!({}), 200);
    server.posts("/debug/start", json!({"spec": ID}), 202);
}

#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn slow_clients_do_not_stop_others() {
    let project = Project::with_port("right");
    let server = Server::start(&project, &[]);
    let mut slow: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /debug/status HTTP/1.1\r\nHost:").unwrap();
    }
    server.gets("/debug/status", 409);
    // They are closed after the time for a header.
    slow[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let started = Instant::now();
    let _ = slow[0].read_to_end(&mut Vec::new());
    assert!(started.elapsed() < Duration::from_secs(50), "the connection stayed open");
    server.gets("/debug/status", 409);
}
