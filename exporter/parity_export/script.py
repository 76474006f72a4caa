"""The command line of a reference script: writes a set, lists what can be recorded, or starts a debug session."""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path
from typing import Any, NoReturn

from . import listing
from .finish import Refused, words
from .run import Reference, bound_params, listed, run
from .settings import reference_block

_EXAMPLES = """examples:
  python %(prog)s --list                 the names that can be recorded
  python %(prog)s --debug                a prompt; `help` lists its commands
  printf 'break *.out\\ncontinue\\nlocation\\n' | python %(prog)s --debug
  python %(prog)s OUT_DIR                write the golden set; `cargo parity regenerate-fixtures` does this"""


def main(reference: Reference, **options: Any) -> NoReturn:
    """Runs a reference script: `python SCRIPT OUT_DIR`, or `--list` for every name that can be recorded, or `--debug`.

    Options are those of `run`. Exits with 0 if the set was written, and with 3 if the lint refused it. A listing and a
    debug session run the reference once, with the params of the spec that names the script.
    """
    parser = argparse.ArgumentParser(
        description=inspect.getdoc(reference) or "Writes a golden set.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out_dir", nargs="?", help="the folder to replace with the new set")
    parser.add_argument(
        "--list",
        action="store_true",
        help="print every golden and every point of the hooked models in call order, and write no set",
    )
    parser.add_argument(
        "--debug",
        action="store_true",
        help="run the reference once, stop at recorded names, take commands from standard input, and write no set",
    )
    parser.add_argument(
        "--param",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="with --list and --debug: a parameter of the reference; the value is JSON or plain text (repeatable)",
    )
    parser.add_argument(
        "--spec",
        metavar="FILE",
        help="with --list and --debug: take the params of this spec [default: the spec that names SCRIPT]",
    )
    parser.add_argument("--json", action="store_true", help="with --debug: answer in JSON, one line per command")
    parser.add_argument(
        "--trace", metavar="FILE", help="with --debug: append every stop and command to this file, as JSON lines"
    )
    parser.add_argument("--reuse", metavar="DIR", help="reuse the inputs and weights of this set (PARITY_REUSE)")
    parser.add_argument(
        "--new-inputs",
        action="store_true",
        default=None,
        help="make new inputs and weights even with --reuse (PARITY_NEW_INPUTS)",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write findings and counts to this file, as JSON (PARITY_REPORT)"
    )
    parser.add_argument(
        "--spread",
        action="store_true",
        default=None,
        help="also measure the spread over kernel choices (PARITY_SPREAD)",
    )
    given = parser.parse_args()
    if given.list and given.debug:
        parser.error("`--list` and `--debug` do not go together; choose one")
    if (given.json or given.trace) and not given.debug:
        parser.error("`--json` and `--trace` belong to `--debug`")
    if given.list or given.debug:
        if given.out_dir is not None:
            parser.error(f"`{given.out_dir}` is not used: `--list` and `--debug` write no set")
        try:
            options["params"] = _params(reference, given, options)
            # A session handles what the reference raises. A listing passes it on, with its traceback.
            status = _debug(reference, given, options) if given.debug else None
        except ValueError as error:
            parser.error(str(error))
        sys.exit(_list(reference, given, options) if status is None else status)
    if given.param or given.spec:
        parser.error(
            "`--param` and `--spec` belong to `--list` and `--debug`; a set is made with the params of its spec"
        )
    if given.out_dir is None:
        parser.error("OUT_DIR is missing, expected the folder to write the set to")
    for name in ("reuse", "new_inputs", "report", "spread"):
        if getattr(given, name) is not None:
            options[name] = getattr(given, name)
    try:
        run(reference, given.out_dir, **options)
    except Refused as refused:
        print(words(refused.report), file=sys.stderr)
        print("the lint refuses the set: nothing was written", file=sys.stderr)
        sys.exit(3)
    sys.exit(0)


def _params(reference: Reference, given: argparse.Namespace, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the params of a listing or a debug session, and removes those of `main` from the options.

    Raises ValueError if they cannot be read, or if the reference does not take them.
    """
    params = dict(options.pop("params", None) or {})
    if reference_block(None)[0] is None:
        script = Path(options.get("script") or inspect.getsourcefile(reference) or "")
        params.update(listing.params(script, given.spec, given.param))
        try:
            bound_params(reference, params)
        except TypeError as error:
            raise ValueError(str(error)) from error
    return params


def _list(reference: Reference, given: argparse.Namespace, options: dict[str, Any]) -> int:
    """Prints the listing, and writes it to the file of `--report` too."""
    if given.report is not None:
        options["report"] = given.report
    listing.limit_memory()
    recorder, params = listed(reference, **options)
    for point, kind in recorder.seen or []:
        print(f"{point}  {kind}")
    if recorder.settings.report is not None:
        listing.write(listing.listing(recorder, params), recorder.settings.report)
    return 0


def _debug(reference: Reference, given: argparse.Namespace, options: dict[str, Any]) -> int:
    """Runs a debug session and returns the exit status."""
    from .debug_front import Console
    from .debug_session import debug

    for name in ("reuse", "new_inputs"):
        if getattr(given, name) is not None:
            options[name] = getattr(given, name)
    listing.limit_memory()
    return debug(reference, Console(given.json), trace=given.trace and Path(given.trace), **options)
