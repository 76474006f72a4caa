"""Debug sessions with wrong commands, hostile lines and wrong arguments: each is explained, and the session goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from debug_tools import answers, environment, session, stops, write_script


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path)


@pytest.mark.parametrize(
    ("line", "error", "advice"),
    [
        ("contniue", "unknown command `contniue`; similar commands: `continue`", "`help` lists the commands"),
        ("inject out", "`inject` belongs to the port's side", "use it in `cargo parity debug SPEC`"),
        ("break", "`break` needs a pattern", "write `break PATTERN [when EXPR] [first|hit N]`"),
        ("break out if 1", "found `if 1` behind the pattern", "write `break PATTERN"),
        ("break out when 1 +", "`1 +` is not a Python expression", "when actual.max() > 10"),
        ("break out hit 0", "`0` is no number of a hit, which count from 1", "write `break PATTERN"),
        ("break a.{b", "`a.{b` is no pattern: a brace names no axis", "such as `break layers.{i}.out`"),
        ("break failed", "a reference is not compared with anything", "cargo parity debug SPEC"),
        ("remove 7", "there is no breakpoint `7`; breakpoints: none", "see them with `breaks`"),
        ("show actual", "the reference stands at no name", "use `next` or `continue` first"),
        ("show out", "`out` is not recorded: the reference has recorded nothing so far", "use `next` or `continue`"),
        ("until", "`until` needs a pattern", "write `until PATTERN`"),
        ("out", "the reference is in no scope here", "use `next` or `continue`"),
        ("next out", "`next` takes no arguments, found `out`", "write `next` alone"),
        ("save out", "`save` needs a name and a file that ends in `.npy`", "write `save NAME FILE.npy [--force]`"),
        ("save out 'a", "No closing quotation", "write `save NAME FILE.npy [--force]`"),
        ("eval actual", "NameError: name 'actual' is not defined", "the reference has not started; use `next`"),
        ("eval 1 +* 2", "this is not Python: invalid syntax in line 1, column 4", "correct the expression"),
        ("eval taps = 1", "`taps` is a name of the session and cannot be set", "choose another name"),
        ("eval [0] * 10**15", "MemoryError", "correct the expression"),
        ("eval exit(3)", "the expression asks Python to exit", "`terminate` ends the session"),
        (f"eval {'1+' * 40_000}1", "the line has more than 65536 characters", "write shorter lines"),
        ("note", "`note` needs a text", "the trace keeps it"),
        ("help nothing", "unknown command `nothing`", "`help` lists the commands"),
    ],
)
def test_a_wrong_command_is_explained_and_the_session_goes_on(script: Path, line: str, error: str, advice: str) -> None:
    found = answers(script, line, "next", "terminate")
    assert (found[0]["ok"], found[0]["command"]) == (False, line.split(" ", maxsplit=1)[0])
    assert error in found[0]["message"]
    assert advice in found[0]["next"]
    assert stops(found) == ["step.0.norm"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("show step.0.norn", "`step.0.norn` is not recorded so far; similar names: `step.0.norm`"),
        ("show x 9", "`[9]` does not fit `x`, which is float32 [3, 4]: index 9 is out of bounds"),
        ("show x y", "`y` is not a slice"),
        ("show x __import__('os')", "is not a slice"),
        ("vars nothing*", "no tensor matches `nothing*`"),
        ("eval 1 / 0", "ZeroDivisionError: division by zero"),
        ("eval taps['y']", "KeyError: `y` is not recorded so far"),
        ("save x missing/x.npy", "cannot write `missing/x.npy`: No such file or directory"),
        ("save x reference.npy/", "`save` needs a name and a file that ends in `.npy`"),
    ],
)
def test_a_wrong_command_at_a_stop(script: Path, line: str, error: str) -> None:
    found = answers(script, "next", line, "next", "terminate")
    assert not found[1]["ok"] and error in found[1]["message"]
    assert stops(found) == ["step.0.norm", "step.0.up"]


@pytest.mark.slow
def test_a_closed_input_ends_the_session_and_a_long_line_is_refused(script: Path) -> None:
    command = f"{sys.executable} {script} --debug --json"
    closed = subprocess.run(
        f"{command} <&-", shell=True, check=False, capture_output=True, text=True, env=environment(), cwd=script.parent
    )
    assert (closed.returncode, closed.stderr.count("Traceback")) == (0, 0), closed.stderr
    long = session(script, "note " + "a" * 200_000, "next", arguments=("--json",))
    assert long.returncode == 2
    (_, refused, _) = map(json.loads, long.stdout.splitlines())
    assert refused["message"] == "line 1 of the script: the line has more than 65536 characters"


def test_a_script_ends_at_a_line_that_is_no_command(script: Path) -> None:
    found = answers(script, "next", "show y", "eval 1 +", "", "nxt", "next", is_terminal=False, status=2)
    assert stops(found) == ["step.0.norm"]
    assert [answer.get("message") for answer in found[1:]] == [
        "`y` is not recorded so far; known names (3): `input.x`, `weight.up`, `step.0.norm`",
        "this is not Python: invalid syntax in line 1, column 4",
        "line 5 of the script: unknown command `nxt`; similar commands: `next`, `note`, `into`",
        None,
    ]
    assert found[-1]["text"] == "a line of the script is no command"


def test_python_without_an_end_is_no_command(script: Path) -> None:
    found = answers(script, "next", "eval max(", "note one", "next", is_terminal=False, status=2)
    assert "the input ends inside the Python of `eval`" in found[1]["message"]
    assert stops(found) == ["step.0.norm"]
    whole = answers(script, "next", "eval", "for i in range(2):", "    print(i)", is_terminal=False)
    assert whole[1]["output"] == "0\n1\n"


@pytest.mark.slow
def test_scripts_of_other_editors_and_systems(script: Path) -> None:
    lines = ("\ufeffbreak\tstep.1.up\twhen\tstep == 1\r", "continue\r", "show\tup\t0, 0\r", "break up nan\tfirst\r")
    done = session(script, *lines, arguments=("--json",))
    assert done.returncode == 0, done.stdout
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert stops(found[1:]) == ["step.1.up"]
    assert found[3]["value"]["source"] == "up[0, 0]"
    assert found[4]["breakpoints"][1]["text"] == "up nan first"


@pytest.mark.slow
def test_wrong_arguments(script: Path) -> None:
    for arguments, message in [
        (("--list",), "`--list` and `--debug` do not go together"),
        (("out",), "`out` is not used: `--list` and `--debug` write no set"),
        (("--param", "dim"), "`--param dim` is not NAME=VALUE"),
        (("--param", "dims=2"), "`params` has `dims`, which the reference does not take; similar names: `dim`"),
        (("--spec", "none.yaml"), "the spec `none.yaml` cannot be read: No such file or directory"),
    ]:
        done = session(script, arguments=arguments)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
    command = [sys.executable, str(script), "--json", "out"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment(), cwd=script.parent)
    assert (done.returncode, "`--json` and `--trace` belong to `--debug`" in done.stderr) == (2, True)
