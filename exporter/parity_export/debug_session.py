"""A debug session: one forward of a reference that stops at recorded names, and answers commands while it is paused."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from .debug_breaks import Breaks
from .debug_commands import Resume, perform
from .debug_eval import Evaluator, Taps
from .debug_place import Locator, Stop, Tap
from .debug_trace import Trace
from .listing import is_json
from .places import is_own_frame, own_frame
from .recorder import Recorder
from .run import Reference, one_run
from .tensor_stats import Statistics, statistics

# The status of a session that Ctrl-C ended, as shells report it.
INTERRUPTED = 130
BAD_USAGE = 2


class Ended(BaseException):
    """Raised through the reference to end a session."""

    def __init__(self, status: int, how: str):
        super().__init__()
        self.status, self.how = status, how


class Front(Protocol):
    """Where commands come from, and where answers go."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person types the commands. A script ends at a line that is no command."""

    def read(self, is_first: bool) -> str | None:
        """Returns the next line, or none at the end of the input. `is_first` is false inside a command."""

    def answer(self, answer: dict[str, Any]) -> None:
        """Shows the answer to a command."""

    def note(self, text: str) -> None:
        """Shows something that no command asked for."""

    def complete(self, names: Callable[[], Iterable[str]]) -> None:
        """Learns which names a person may want to complete."""


def debug(reference: Reference, front: Front, *, trace: Path | None = None, **options: Any) -> int:
    """Runs a debug session of one forward, and returns the exit status. Options are those of `run`."""
    with one_run(reference, **options) as job:
        recorder = job.native
        # Counting calls is for the manifest, and would also count what a person evaluates.
        recorder.executed = None
        session = recorder.session = Session(recorder, job.params, reference, front)
        front.complete(lambda: session.taps)
        return session.run(lambda: job.once(recorder), trace)


class Session:
    """Decides where the reference stands, and performs commands there.

    It stands before its start, at names, and after it returned or failed. `stop` is that place, and none while it
    runs. The recorded tensors can be looked at in every state.
    """

    def __init__(self, recorder: Recorder, params: dict[str, Any], reference: Reference, front: Front):
        self.recorder, self.params, self.front = recorder, params, front
        self.script = recorder.reference["script"]
        self.stop: Stop | None = Stop({"reason": "start"})
        self.stops = 0
        self.breaks = Breaks()
        self.taps = Taps(recorder)
        self.evaluator = Evaluator(self.taps)
        self.locator = Locator(recorder.sources, getattr(reference, "__code__", None))
        self.trace = Trace(None)
        self.resume: Resume | None = None
        self._line = self._command = self._noted = 0
        self._status = 0
        self._pausing = False
        self._is_interruptible = False
        self._was_interrupted = False
        self._ending: Ended | None = None
        self._statistics: dict[str, Statistics] = {}

    @property
    def state(self) -> str:
        return "running" if self.stop is None else "paused"

    @property
    def is_over(self) -> bool:
        """Whether the reference returned or failed."""
        return self.stop is not None and self.stop.why["reason"] in ("returned", "failed")

    def run(self, forward: Callable[[], None], trace: Path | None) -> int:
        """Answers commands, runs the reference when one asks for it, and returns the exit status of the process."""
        self.trace = Trace(trace)
        self.trace.add("session", format=1, process=os.getpid())
        self.trace.add("run", run=1, script=self.script, params=_json_params(self.params))
        how = "terminated"
        with self._interrupts():
            try:
                assert self.stop is not None
                self.front.answer({"kind": "stopped", "ok": True, "command": "start", **self.stop_json(self.stop)})
                self._converse()
                self._forward(forward)
                self._converse()
            except Ended as ended:
                self._status, how = self._status or ended.status, ended.how
        self._finish(how)
        return self._status

    def meets(self, name: str, point: str, tensor: Any, unrecorded: str | None) -> None:
        """Handles a name that the reference passes. Pauses there if a command or a breakpoint asks for it."""
        if self._ending is not None:
            # The reference caught the exception that ends the session.
            raise self._ending
        if unrecorded is None:
            self.taps.note(name, tensor)
        tap = Tap(name, tensor, point, unrecorded)
        stop = Stop({}, tap, list(self.recorder._scopes), own_frame())
        if not self._stops_at(stop, tap):
            return
        self._pausing = False
        self._stand(stop)
        self._converse()
        # The frame would keep the reference's tensors alive.
        self.stop = None

    def _stops_at(self, stop: Stop, tap: Tap) -> bool:
        """Whether the reference stops at a name. Notes why."""
        is_step = self.resume is not None and self.resume.ends_at(tap)
        numbers: list[int] = []
        if tap.unrecorded is None:
            numbers, stop.note = self.breaks.check(
                tap.name,
                lambda: not self.statistics(tap.name).is_finite,
                lambda code, found: self.evaluator.condition(code, stop, found),
            )
        if numbers:
            stop.why = {"reason": "breakpoint", "numbers": numbers}
        elif is_step or self._pausing:
            stop.why = {"reason": "step" if is_step else "pause"}
        return bool(stop.why)

    def _stand(self, stop: Stop) -> None:
        """Answers the command that let the reference go on: it stands here."""
        self.stop = stop
        self.stops += 1
        command = "continue" if self.resume is None else self.resume.command
        self.resume = None
        answer = {"kind": "stopped", "ok": stop.why["reason"] != "failed", "command": command, **self.stop_json(stop)}
        self.trace.add("answer", number=self._command, answer=answer)
        for note in self.recorder.pins.notes[self._noted :]:
            self.front.note(f"note: {note}")
        self._noted = len(self.recorder.pins.notes)
        self.front.answer(answer)

    def statistics(self, name: str) -> Statistics:
        """Returns the statistics of a recorded tensor, which are computed once."""
        if name not in self._statistics:
            self._statistics[name] = statistics(self.taps.value(name))
        return self._statistics[name]

    def stop_json(self, stop: Stop) -> dict[str, Any]:
        """Returns everything about a stop: why, the tensor, and the place in the reference."""
        calls, left_out = self.locator.stack(stop.frame)
        return {
            "stop": self.stops,
            "why": stop.why,
            "tap": None if stop.tap is None else self._tap_json(stop.tap),
            "scopes": stop.scopes,
            "taps": len(self.recorder.goldens),
            "place": None if stop.frame is None else self.locator.place(stop.frame),
            "source": self.locator.source(stop.frame),
            "calls": calls,
            "calls_left_out": left_out,
            "note": stop.note,
        }

    def _tap_json(self, tap: Tap) -> dict[str, Any]:
        name, _, hit = tap.name.partition("@")
        recorded = tap.unrecorded is None
        return {
            "name": name,
            "hit": int(hit) if hit.isdigit() else 0,
            "point": tap.point,
            "unrecorded": tap.unrecorded,
            "actual": {"dtype": _dtype(tap.tensor), "shape": list(tap.tensor.shape)},
            "actual_stats": self.statistics(tap.name).json() if recorded else None,
        }

    def status_json(self) -> dict[str, Any]:
        recorder = self.recorder
        return {
            "script": self.script,
            "params": _json_params(self.params),
            "state": self.state,
            "why": None if self.stop is None else self.stop.why,
            "process": os.getpid(),
            "taps": len(recorder.goldens),
            "last_tap": self._last_tap(),
            "inputs": len(recorder.pins.inputs),
            "weights": len(recorder.pins.weights),
            "reused": recorder.pins.reused,
            "breakpoints": len(self.breaks.all),
        }

    def _last_tap(self) -> str | None:
        return next(reversed(self.recorder.goldens), None)

    def _forward(self, forward: Callable[[], None]) -> None:
        self.stop = None
        try:
            forward()
        except (Exception, SystemExit) as error:
            self._failed(error)
            return
        missed = None
        if self.resume is not None and self.resume.command == "until":
            missed = self.resume.missed(self.recorder.goldens)
        self._stand(Stop({"reason": "returned"}, note=missed))

    def _failed(self, error: BaseException) -> None:
        last = self._last_tap()
        after = "before it recorded a name" if last is None else f"after `{last}`"
        message = f"the reference failed {after}: {type(error).__name__}: {error}"
        self._status = 1
        print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
        frame = error.__traceback__
        frames = []
        while frame is not None:
            frames.append(frame.tb_frame)
            frame = frame.tb_next
        own = next((frame for frame in reversed(frames) if is_own_frame(frame)), None)
        self._stand(Stop({"reason": "failed", "error": message}, frame=own))

    def _converse(self) -> None:
        """Performs commands until one lets the reference go on. Raises `Ended` at the end of the input."""
        interrupts = 0
        while self.resume is None:
            try:
                self._is_interruptible = True
                if self._was_interrupted:
                    raise KeyboardInterrupt
                line = self.read(True)
                answer = None if line is None else perform(self, line)
                self._is_interruptible = False
            except KeyboardInterrupt:
                self._is_interruptible = self._was_interrupted = False
                interrupts += 1
                if interrupts > 1:
                    self._end(INTERRUPTED)
                self.front.note("`terminate` or a second Ctrl-C ends the session")
                continue
            if line is None:
                self._end(0)
                return
            if answer is None:
                continue
            interrupts = 0
            is_last = answer.pop("is_usage", False) and not self.front.is_terminal
            if is_last:
                answer["message"] = f"line {self._line} of the script: {answer['message']}"
            self.trace.add("answer", number=self._command, answer=answer)
            self.front.answer(answer)
            if is_last:
                self._end(BAD_USAGE)

    def read(self, is_first: bool) -> str | None:
        """Returns the next line of the front, or none at the end of the input."""
        self._line += 1
        return self.front.read(is_first)

    def given(self, text: str) -> None:
        """Notes a command in the trace."""
        self._command += 1
        self.trace.add("command", number=self._command, text=text)

    def terminate(self) -> None:
        """Ends the session as asked."""
        self._end(0)

    def _end(self, status: int, how: str = "terminated") -> None:
        self._ending = Ended(status, how)
        raise self._ending

    def _finish(self, how: str) -> None:
        """Ends the session: names the breakpoints that never matched, and closes the trace."""
        is_whole = self.is_over
        idle = [{**one.json(), "note": near} for one, near in self.breaks.never_matched(self.recorder.goldens)]
        texts = {INTERRUPTED: "the session was interrupted", BAD_USAGE: "a line of the script is no command"}
        text = texts.get(self._status, "the session ended as asked")
        if self._status == 1:
            text, how = "the reference failed", "crashed"
        ended = {"how": how, "text": text, "last_tap": self._last_tap(), "whole": is_whole, "never_matched": idle}
        self.trace.add("ended", ended=ended)
        self.trace.close()
        self.front.answer({"kind": "ended", "ok": self._status == 0, "command": "terminate", **ended})

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Makes Ctrl-C pause a running reference at the next name. A second one ends the session."""

        def handle(number: int, frame: Any) -> None:
            if self.state != "running":
                # Elsewhere the exception would leave the session through the reference, so it waits for the prompt.
                if not self._is_interruptible:
                    self._was_interrupted = True
                    return
                self._is_interruptible = False
                raise KeyboardInterrupt
            if self._pausing:
                # If the reference is stuck, a third one ends the process without a word.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                self._end(INTERRUPTED)
            self._pausing = True
            self.front.note("pausing at the next name; Ctrl-C again ends the session")

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rsplit(".", 1)[-1]


def _json_params(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value if is_json(value) else repr(value) for name, value in params.items()}
