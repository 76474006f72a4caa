"""The commands of a debug session that need the elements of one tensor: `show` and `save`."""

from __future__ import annotations

import ast
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import files
from .debug_breaks import CommandError, UsageError, unquoted
from .debug_eval import tensor_value
from .tensor_stats import statistics
from .values import Value

if TYPE_CHECKING:
    from .debug_session import Session


def show(session: Session, rest: str) -> dict[str, Any]:
    """Shows a tensor, or a part of it."""
    name, part = _name_and_slice(rest)
    value = _named(session, name)
    cut = _part(value, name, part) if part else value
    source = f"{name}[{part}]" if part else name
    tensor = {"dtype": value.dtype, "shape": list(value.shape)}
    return {"name": name, "tensor": tensor, "stats": statistics(value).json()} | {
        "value": {"source": source, **tensor_value(cut)}
    }


def save(session: Session, rest: str) -> dict[str, Any]:
    """Writes a tensor to a file."""
    form = "write `save NAME FILE.npy [--force]`"
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"`{rest}` cannot be read: {error}", form) from error
    force, words = "--force" in words, [word for word in words if word != "--force"]
    if len(words) != 2 or not words[1].endswith(".npy"):
        raise UsageError("`save` needs a name and a file that ends in `.npy`", form)
    value, path = _named(session, words[0]), Path(words[1]).expanduser()
    _write(path, value, force)
    return {"name": words[0], "file": str(path), "tensor": {"dtype": value.dtype, "shape": list(value.shape)}}


def _name_and_slice(text: str) -> tuple[str, str]:
    """Splits `norm 0, :` and `norm[0, :]`."""
    found = re.fullmatch(r"""("[^"]*"|'[^']*'|`[^`]*`|[^\s\["'`]+)\s*(.*)""", text)
    if found is None:
        raise UsageError("`show` needs a name", "write `show NAME [SLICE]`, such as `show norm 0, :, 3`")
    part = found[2].strip()
    return unquoted(found[1]), part[1:-1].strip() if part.startswith("[") and part.endswith("]") else part


def _named(session: Session, name: str) -> Value:
    """Returns a recorded tensor; `actual` and `value` are the one of this stop."""
    if name in ("actual", "value") and name not in session.recorder.goldens:
        tap = None if session.stop is None else session.stop.tap
        if tap is None:
            raise CommandError("the reference stands at no name", "use `next` or `continue` first")
        if tap.unrecorded is not None:
            raise CommandError(f"`{tap.name}` is not recorded: {tap.unrecorded}", "use `eval actual`")
        name = tap.name
    return session.taps.value(name)


def _part(value: Value, name: str, text: str) -> Value:
    form = f"write it as in NumPy, such as `show {name} 0, :, -1`"
    try:
        index = _index(ast.parse(f"_[{text}]", mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise CommandError(f"`{text}` is not a slice", form) from error
    try:
        return Value(value.dtype, value.bits[index].copy())
    except (IndexError, ValueError) as error:
        raise CommandError(f"`[{text}]` does not fit `{name}`, which is {value.kind()}: {error}", form) from error


def _index(tree: ast.expr) -> Any:
    """Returns an index of integers, slices, `...` and `None`. Raises ValueError for anything else."""
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        return _index(tree.slice)
    if isinstance(tree, ast.Tuple):
        return tuple(_index(part) for part in tree.elts)
    if isinstance(tree, ast.Slice):
        return slice(*(None if part is None else _index(part) for part in (tree.lower, tree.upper, tree.step)))
    found = ast.literal_eval(tree)
    if found is None or found is Ellipsis or type(found) is int:
        return found
    raise ValueError(f"{found!r} is not an index")


def _write(path: Path, value: Value, force: bool) -> None:
    """Writes a complete file in one step. An existing one is replaced only by force."""
    new = path.with_name(f".{path.name}.new-{os.getpid()}.npy")
    try:
        if path.is_dir() or (path.exists() and not path.is_file()):
            raise CommandError(f"`{path}` is not a regular file", "name another file")
        files.write(new, {"": value})
        try:
            if force:
                os.replace(new, path)
            else:
                # A link, unlike a rename, never replaces a file that appeared meanwhile.
                os.link(new, path)
        finally:
            new.unlink(missing_ok=True)
    except FileExistsError as error:
        again = "name another file, or add `--force` to replace it"
        raise CommandError(f"`{path}` exists", again) from error
    except OSError as error:
        raise CommandError(f"cannot write `{path}`: {error.strerror}", "name a file in an existing folder") from error
