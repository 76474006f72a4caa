"""The answers of a debug session as text for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import fill
from typing import Any

# The width of the help, so that its columns stay columns on most terminals.
_WIDTH = 110

Answer = Mapping[str, Any]


def words(answer: Answer) -> str:
    """Returns an answer as text, without a newline at its end. Some answers have none."""
    return _WORDS[answer["kind"]](answer)


def _error(answer: Answer) -> str:
    parts = [answer.get("output", "").rstrip("\n"), answer.get("traceback", "").rstrip("\n")]
    return "\n".join([*filter(None, parts), f"error: {answer['message']}", f"to do: {answer['next']}"])


def _stop_line(stop: Answer) -> str:
    why = stop["why"]
    if why["reason"] == "start":
        return "DEBUG session: the reference stands before its start"
    if why["reason"] == "returned":
        return f"the reference has returned after {_count(stop['taps'], 'tap')}"
    if why["reason"] == "failed":
        return str(why["error"])
    by = {"breakpoint": f", by breakpoint {', '.join(map(str, why.get('numbers', [])))}", "pause": ", by a pause"}
    return f"stopped at `{_hit(stop['tap'])}`{by.get(why['reason'], '')}"


def _stopped(stop: Answer) -> str:
    return "\n".join([_stop_line(stop), *_tap_rows(stop), *_notes(stop)])


def _tap_rows(stop: Answer) -> list[str]:
    shown = []
    if (tap := stop["tap"]) is not None:
        stats = "" if tap["actual_stats"] is None else f"  {_stats(tap['actual_stats'])}"
        shown.append(_row("actual", f"{_kind(tap['actual'])}{stats}"))
        if tap["unrecorded"] is not None:
            shown.append(_row("unrecorded", tap["unrecorded"]))
    if stop["place"] is not None:
        shown.append(_row("reference", _place(stop["place"])))
    return shown


def _location(stop: Answer) -> str:
    shown = [_stop_line(stop), _row("taps", f"{_count(stop['taps'], 'tap')} reached")]
    shown.append(_row("scopes", " > ".join(stop["scopes"]) or "none"))
    if stop["tap"] is not None and stop["tap"]["point"] != _hit(stop["tap"]):
        shown.append(_row("point", stop["tap"]["point"]))
    shown += _tap_rows(stop)
    if len(stop["calls"]) > 1:
        calls = [_place(call) for call in stop["calls"]]
        if stop["calls_left_out"]:
            calls.insert(len(calls) // 2, f"… {_count(stop['calls_left_out'], 'call')} more")
        shown += [_row("calls" if not at else "", call) for at, call in enumerate(calls)]
    return "\n".join([*shown, *_source(stop["source"]), *_notes(stop)])


def _source(source: Answer | None) -> list[str]:
    if source is None:
        return []
    width = len(str(source["first"] + len(source["lines"])))
    rows = enumerate(source["lines"], start=source["first"])
    return [f"  {'>' if at == source['line'] else ' '} {at:>{width}} | {line}".rstrip() for at, line in rows]


def _notes(stop: Answer) -> list[str]:
    return [f"note: {stop['note']}"] if stop["note"] else []


def _help(answer: Answer) -> str:
    rows = [(command["usage"], command["about"]) for command in answer["commands"]]
    width = max(len(usage) for usage, _ in rows if len(usage) < 30 or len(rows) == 1)
    shown = []
    for usage, about in rows:
        head = f"{usage:<{width}}  "
        if len(usage) > width:
            shown.append(usage)
            head = " " * len(head)
        shown.append(fill(about, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)))
    return "\n".join(shown)


def _breakpoints(answer: Answer) -> str:
    shown = [
        f"{one['number']:>3}  {one['text']}" + (f"  ({_count(one['hits'], 'hit')})" if one["hits"] else "")
        for one in answer["breakpoints"]
    ]
    return "\n".join(shown) or "no breakpoints"


def _variables(answer: Answer) -> str:
    rows = answer["variables"]
    if not rows:
        return "nothing is recorded so far"
    width = min(48, max(len(row["name"]) for row in rows))
    shown = [f"{row['kind']:7}  {row['name']:{width}}  {_kind(row['tensor'])}  {_stats(row['stats'])}" for row in rows]
    if answer["left_out"]:
        shown.append(f"and {answer['left_out']} more; name a pattern, such as `vars {rows[0]['name']}*`")
    return "\n".join(shown)


def _tensor(answer: Answer) -> str:
    first = f"{answer['name']}: {_kind(answer['tensor'])}"
    return "\n".join([first, _row("stats", _stats(answer["stats"])), answer["value"]["text"]])


def _values(answer: Answer) -> str:
    shown = [f"note: {note}" for note in answer["notes"]]
    shown += [answer["output"].rstrip("\n")] if answer["output"] else []
    for value in answer["values"]:
        if "dtype" in value and value["shape"]:
            shown.append(f"{_kind(value)}  {_stats(value['stats'])}")
        shown.append(value["text"])
    return "\n".join(shown)


def _saved(answer: Answer) -> str:
    return f"wrote `{answer['name']}`, {_kind(answer['tensor'])}, to `{answer['file']}`"


def _status(answer: Answer) -> str:
    last = f", last `{answer['last_tap']}`" if answer["last_tap"] else ""
    taps, breakpoints = _count(answer["taps"], "tap"), _count(answer["breakpoints"], "breakpoint")
    params = ", ".join(f"{name}={value}" for name, value in answer["params"].items())
    reused = f", {answer['reused']} of them from the committed set" if answer["reused"] else ""
    pinned = f"{_count(answer['inputs'], 'input')}, {_count(answer['weights'], 'weight')}{reused}"
    first = f"DEBUG `{answer['script']}`: {answer['state']}, {taps}{last}, {breakpoints}"
    return "\n".join([first, _row("params", params or "none"), _row("pinned", pinned)])


def _ended(answer: Answer) -> str:
    part = "" if answer["whole"] else " in the part that ran"
    idle = [
        f"breakpoint {one['number']}, `{one['text']}`, never matched{part}{one['note']}"
        for one in answer["never_matched"]
    ]
    return "\n".join([*idle, f"ended: {answer['text']}"])


def _row(label: str, text: str) -> str:
    return f"  {label:9} {text}"


def _hit(tap: Answer) -> str:
    return f"{tap['name']}@{tap['hit']}" if tap["hit"] else str(tap["name"])


def _kind(tensor: Answer) -> str:
    return f"{tensor['dtype']} {tensor['shape']}"


def _stats(stats: Answer) -> str:
    shown = [f"{name} {_number(stats[name])}" for name in ("min", "max", "mean", "std")]
    counts = (("nan", "NaN"), ("positive_infinity", "inf"), ("negative_infinity", "-inf"))
    return ", ".join(shown + [f"{stats[name]} {word}" for name, word in counts if stats[name]])


def _number(number: Any) -> str:
    if isinstance(number, str):
        return number
    return f"{number:.6f}" if number == 0 or 1e-3 <= abs(number) < 1e6 else f"{number:.4e}"


def _place(place: Answer) -> str:
    return f"{place['file']}:{place['line']} ({place['function']})"


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


_WORDS: dict[str, Callable[[Answer], str]] = {
    "stopped": _stopped,
    "ended": _ended,
    "breakpoints": _breakpoints,
    "location": _location,
    "variables": _variables,
    "tensor": _tensor,
    "values": _values,
    "saved": _saved,
    "status": _status,
    "noted": lambda answer: "noted",
    "help": _help,
    "error": _error,
}
