"""`python SCRIPT --debug` with commands from a pipe: where it stops, what it shows, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from debug_tools import LOOP, answers, environment, session, stops, write_script

from parity_export.debug_text import words


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path)


def test_a_session_in_words(script: Path) -> None:
    lines = ["break *.up hit 2", "continue", "location", "show input.x 0, :2", "eval", "i, \\", "step", "", "continue"]
    done = session(script, *lines)
    assert done.returncode == 0, done.stderr
    # The last digits depend on the machine.
    assert re.sub(r"(\.\d\d\d)\d+", r"\1", done.stdout).splitlines() == [
        "DEBUG session: the reference stands before its start",
        "(parity) break *.up hit 2",
        "  1  *.up hit 2",
        "(parity) continue",
        "the reference speaks",
        "stopped at `step.1.up`, by breakpoint 1",
        "  actual    float32 [3, 4]  min -1.989, max 1.984, mean -0.286, std 1.353",
        "  reference reference.py:14 (reference)",
        "(parity) location",
        "stopped at `step.1.up`, by breakpoint 1",
        "  taps      4 taps reached",
        "  scopes    step.1",
        "  actual    float32 [3, 4]  min -1.989, max 1.984, mean -0.286, std 1.353",
        "  reference reference.py:14 (reference)",
        '     9 |     x = rec.input("x", draw.standard_normal((3, dim)).astype(np.float32))',
        '    10 |     print("the reference speaks")',
        '    11 |     for i in rec.axis("step", rounds):',
        '    12 |         value = x @ w["up"]',
        '    13 |         x = rec.save("norm", np.tanh(value))',
        '  > 14 |         rec.save("up", x * np.float32(1 + i))',
        "    15 |     pass",
        "    16 |     if fails:",
        '    17 |         raise RuntimeError("no such luck")',
        '    18 |     rec.save("out", np.where(x > 0, x, np.float32("nan")))',
        "    19 |",
        "(parity) show input.x 0, :2",
        "input.x: float32 [3, 4]",
        "  stats     min -0.921, max 1.366, mean 0.070, std 0.722",
        "[-0.544 -0.316  ]",
        "(parity) eval",
        "... i, \\",
        "... step",
        "(1, 1)",
        "(parity) continue",
        "the reference has returned after 5 taps",
        "ended: the session ended as asked",
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["next", "next", "next", "next", "next", "next"],
         ["step.0.norm", "step.0.up", "step.1.norm", "step.1.up", "out", "returned"]),
        (["break step.*", "continue", "continue", "continue"], ["step.0.norm", "step.0.up", "step.1.norm"]),
        (["break *.up first", "continue", "continue"], ["step.0.up", "returned"]),
        (["break *.norm when step == 1", "continue", "continue"], ["step.1.norm", "returned"]),
        (["break step.{t}.norm when t == 1", "c", "c"], ["step.1.norm", "returned"]),
        (["break * when actual.max() > 1", "continue"], ["step.1.up"]),
        (["break nan", "continue", "continue"], ["out", "returned"]),
        (["break step.* nan", "break o* nan first", "continue", "continue"], ["out", "returned"]),
        (["until step.1.norm", "until step.?.up"], ["step.1.norm", "step.1.up"]),
        (["next", "out", "out"], ["step.0.norm", "step.1.norm", "out"]),
        (["break *.up", "break out", "remove 1", "continue"], ["out"]),
        (["break *.up", "break *.norm", "remove *.norm", "continue"], ["step.0.up"]),
        (["break *.up", "clear", "continue"], ["returned"]),
        (["# a remark", "", "break *.up when taps['step.0.norm'].shape == value.shape", "continue"], ["step.0.up"]),
    ],
)  # fmt: skip
def test_where_a_session_stops(script: Path, lines: list[str], expected: list[str]) -> None:
    assert stops(answers(script, *lines)) == expected


def test_a_condition_that_fails_stops_and_says_so(script: Path) -> None:
    found = answers(script, "break *.up when nowhere > 1", "continue", "terminate")
    assert found[1]["why"] == {"reason": "breakpoint", "numbers": [1]}
    assert found[1]["note"] == "the condition of breakpoint 1 failed: NameError: name 'nowhere' is not defined"


def test_answers_as_json(script: Path, tmp_path: Path) -> None:
    lines = ["next", "location", "vars *norm", "show weight.up", "eval taps['x'].shape", "status", "terminate"]
    found = answers(script, *lines)
    assert [(answer["kind"], answer["command"]) for answer in found] == [
        ("stopped", "next"), ("location", "location"), ("variables", "vars"), ("tensor", "show"), ("values", "eval"),
        ("status", "status"), ("ended", "terminate"),
    ]  # fmt: skip
    assert all(answer["ok"] for answer in found)
    stop, location, variables, shown, evaluated, status, end = found
    assert (stop["why"], stop["stop"], stop["taps"], stop["scopes"]) == ({"reason": "step"}, 1, 1, ["step.0"])
    tap = stop["tap"]
    assert (tap["name"], tap["hit"], tap["actual"]) == ("step.0.norm", 0, {"dtype": "float32", "shape": [3, 4]})
    assert location["place"] == {"file": "reference.py", "line": 13, "function": "reference"}
    assert (location["source"]["line"], location["source"]["first"], len(location["source"]["lines"])) == (13, 8, 11)
    assert [(row["name"], row["kind"]) for row in variables["variables"]] == [("step.0.norm", "tap")]
    weight = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    assert shown["value"]["values"] == weight.reshape(-1).tolist()
    assert shown["stats"]["std"] == pytest.approx(float(weight.astype(np.float64).std()), rel=1e-12)
    assert evaluated["values"][0]["text"] == "(3, 4)"
    assert status["state"] == "paused" and status["params"] == {"dim": 4, "rounds": 2, "fails": False}
    assert (end["how"], end["last_tap"], end["whole"]) == ("terminated", "step.0.norm", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reference.py"], "a session writes nothing"


@pytest.mark.slow
def test_the_prints_of_the_reference_stay_apart_from_json(script: Path) -> None:
    done = session(script, "continue", "eval print('mine')", arguments=("--json",))
    assert "the reference speaks" in done.stderr
    assert json.loads(done.stdout.splitlines()[2])["output"] == "mine\n"


def test_python_over_several_lines_keeps_its_variables(script: Path) -> None:
    lines = ["next", "eval far = np.abs(actual) \\", "    .max()", "eval", "for name in taps:", "    print(name)", ""]
    found = answers(script, *lines, "eval if far < 1:", "  small = True", "", "eval small, round(float(far), 2)")
    assert found[2]["output"] == "input.x\nweight.up\nstep.0.norm\n"
    assert found[4]["values"][0]["text"] == "(True, 0.99)"


def test_python_sees_the_variables_of_the_reference(script: Path) -> None:
    found = answers(
        script, "next", "eval np.allclose(np.tanh(local['value']), value)", "eval w['up'].shape", "eval dim"
    )
    assert found[1]["values"][0]["values"] == [True]
    assert found[1]["notes"] == [
        "`value` is the session's own name here; the reference's variable is `local[\"value\"]`"
    ]
    assert found[2]["values"][0]["text"] == "(4, 4)"
    assert found[3]["values"][0]["values"] == [4]


def test_a_change_in_place_goes_on_with_the_reference(script: Path) -> None:
    found = answers(script, "next", "eval actual[:] = 0", "next", "show step.0.up", "show step.0.norm", "terminate")
    assert found[3]["stats"]["max"] == 0
    # What was recorded is a copy.
    assert found[4]["stats"]["max"] > 0


def test_what_is_recorded_can_be_seen_after_the_end(script: Path) -> None:
    found = answers(script, "continue", "show out", "next", "eval len(taps)")
    assert (found[0]["why"], found[0]["taps"]) == ({"reason": "returned"}, 5)
    assert found[1]["stats"]["nan"] > 0 and "nan" in found[1]["value"]["values"]
    assert found[2]["message"] == "the reference is over, so it cannot go on"
    assert found[3]["values"][0]["values"] == [7]
    assert found[4]["whole"]


def test_a_name_that_never_comes(script: Path) -> None:
    found = answers(script, "until step.5.norm", "until out")
    assert found[0]["note"].startswith("`step.5.norm` was not recorded before the end; similar names: `step.")
    lines = ["break nan when False", "break out when False", "next", "break step.0.norm", "break up", "break s* nan"]
    done = session(script, *lines, "continue")
    assert done.stdout.splitlines()[-6:-1] == [
        "breakpoint 1, `nan when False`, never matched; its condition never held",
        "breakpoint 2, `out when False`, never matched; its condition never held",
        "breakpoint 3, `step.0.norm`, never matched; it was set after its names",
        "breakpoint 4, `up`, never matched; similar names: `step.0.up`",
        "breakpoint 5, `s* nan`, never matched; no name recorded since has NaN or infinity",
    ]


def test_a_reference_that_fails(script: Path) -> None:
    lines = ["continue", "show x[0, 0]", "eval fails, i", "location"]
    done = session(script, *lines, arguments=("--param", "fails=true"))
    assert done.returncode == 1
    assert "RuntimeError: no such luck" in done.stderr.splitlines()
    shown = done.stdout.splitlines()
    assert "the reference failed after `step.1.up`: RuntimeError: no such luck" in shown
    # Its variables can be looked at where it failed.
    assert "(True, 1)" in shown
    assert '  > 17 |         raise RuntimeError("no such luck")' in shown
    assert shown[-1] == "ended: the reference failed"


def test_params_that_json_cannot_hold_are_texts(script: Path) -> None:
    (status, _) = answers(script, "status", params={"dim": float("inf"), "rounds": [1]})
    assert status["params"] == {"dim": "inf", "rounds": [1], "fails": False}


def test_a_reference_that_exits_has_failed(tmp_path: Path) -> None:
    script = write_script(tmp_path, LOOP.replace('raise RuntimeError("no such luck")', "raise SystemExit(7)"))
    found = answers(script, "continue", "eval len(taps)", status=1, params={"fails": True})
    assert found[0]["why"] == {"reason": "failed", "error": "the reference failed after `step.1.up`: SystemExit: 7"}
    assert found[1]["values"][0]["values"] == [6]
    assert found[2]["how"] == "crashed"


def test_a_deep_recursion_shows_its_ends_only(tmp_path: Path) -> None:
    text = "def down(n):\n    return down(n + 1)\n\ndef reference(rec):\n    down(0)\n"
    found = answers(write_script(tmp_path, text), "continue", "location", "terminate", status=1)
    calls = found[1]["calls"]
    assert [len(calls), calls[0]["function"], calls[-1]["function"]] == [20, "reference", "down"]
    assert found[1]["calls_left_out"] > 100
    shown = words(found[1]).splitlines()
    assert len(shown) < 40 and f"            … {found[1]['calls_left_out']} calls more" in shown


def test_a_tensor_is_saved_whole_and_never_over_a_file(script: Path, tmp_path: Path) -> None:
    (tmp_path / "old.npy").write_text("precious")
    found = answers(script, "next", "save actual 'a b.npy'", "save x old.npy", "terminate")
    assert found[1] == {
        "kind": "saved", "ok": True, "command": "save", "name": "actual", "file": "a b.npy",
        "tensor": {"dtype": "float32", "shape": [3, 4]},
    }  # fmt: skip
    assert np.load(tmp_path / "a b.npy").shape == (3, 4)
    assert (found[2]["message"], found[2]["next"]) == (
        "`old.npy` exists",
        "name another file, or add `--force` to replace it",
    )
    assert (tmp_path / "old.npy").read_text() == "precious"
    assert answers(script, "next", "save x old.npy --force")[1]["ok"]
    assert np.load(tmp_path / "old.npy").dtype == np.float32
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b.npy", "old.npy", "reference.py"]


@pytest.mark.slow
def test_the_trace_has_every_stop_and_command(script: Path, tmp_path: Path) -> None:
    arguments = ("--trace", "trace.jsonl")
    session(script, "break out", "continue", "show y", "note look here", "terminate", arguments=arguments)
    events = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [(event["event"], event.get("number"), event.get("text")) for event in events] == [
        ("session", None, None), ("run", None, None),
        ("command", 1, "break out"), ("answer", 1, None), ("command", 2, "continue"), ("answer", 2, None),
        ("command", 3, "show y"), ("answer", 3, None), ("command", 4, "note look here"), ("answer", 4, None),
        ("command", 5, "terminate"), ("ended", None, None),
    ]  # fmt: skip
    stop = events[5]["answer"]
    assert (stop["kind"], stop["tap"]["name"], stop["place"]["line"]) == ("stopped", "out", 18)
    assert stop["source"]["lines"]
    assert events[7]["answer"]["kind"] == "error"
    session(script, arguments=arguments)
    again = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert len(again) == len(events) + 3, "a second session is appended"
    refused = session(script, arguments=("--trace", "no/such/trace.jsonl"))
    assert refused.returncode == 2
    assert "cannot write `--trace no/such/trace.jsonl`: No such file or directory" in refused.stderr


def test_only_one_forward_runs(tmp_path: Path) -> None:
    script = write_script(tmp_path, LOOP.replace('print("the reference speaks")', 'print("run", rec.is_float64)'))
    done = session(script, "continue")
    assert [line for line in done.stdout.splitlines() if line.startswith("run ")] == ["run False"]


def test_params_and_declared_goldens_come_from_the_spec(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "expect.json").write_text(json.dumps({"goldens": {"step.1.up": None}, "inputs": ["x"]}))
    monkeypatch.setenv("PARITY_REFERENCE", json.dumps({"script": "reference.py", "params": {"dim": 6}}))
    monkeypatch.setenv("PARITY_EXPECT", str(tmp_path / "expect.json"))
    found = answers(script, "next", "eval dim", "next")
    assert stops(found) == ["step.1.up", "returned"]
    assert found[1]["values"][0]["values"] == [6]
    # `into` also stops at names that are not kept.
    (first, *_) = answers(script, "into")
    assert (first["tap"]["name"], first["tap"]["unrecorded"]) == ("step.0.norm", "the spec does not declare it")


def test_a_second_hit_is_a_stop_of_its_own(tmp_path: Path) -> None:
    script = write_script(tmp_path, LOOP.replace('rec.save("up", x', 'rec.save("norm", x'))
    found = answers(script, "break step.1.norm hit 2", "continue", "location", "show step.1.norm@1 0", "terminate")
    assert stops(found) == ["step.1.norm@1"]
    assert found[3]["ok"]


@pytest.mark.slow
def test_committed_inputs_are_reused(script: Path, tmp_path: Path) -> None:
    made = [sys.executable, str(script), "set"]
    subprocess.run(made, check=True, env=environment(PARITY_LINT="report"), cwd=tmp_path, capture_output=True)
    other = write_script(tmp_path, LOOP.replace("default_rng(0)", "default_rng(1)"))
    shown = "eval float(x[0, 0])"
    new = answers(other, "next", shown, "status", "terminate")
    old = answers(other, "next", shown, "status", "terminate", reuse="set")
    assert (new[2]["reused"], old[2]["reused"]) == (0, 2)
    assert new[1]["values"] != old[1]["values"]
