"""Replacing a fixture folder: whoever looks, at any moment, finds the old set or the new one, whole."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Iterator

from .names import near

MANIFEST = "manifest.json"


class FolderError(OSError):
    """A folder that a set cannot be written to, or read from."""


def check_target(target: Path, root: Path | None) -> None:
    """Raises FolderError unless `target` may be replaced by a set: it is none of ours, or would be lost by it."""
    if target.is_symlink():
        raise FolderError(f"`{target}` is a symbolic link, and nothing is written through one")
    if root is not None:
        # Links above the root are the user's own affair; below it they could lead anywhere.
        real, below = root.resolve(), target.resolve()
        if real == below or real not in below.parents:
            raise FolderError(f"`{target}` is not below the fixture root `{root}`")
    if not target.exists():
        return
    if not target.is_dir():
        raise FolderError(f"`{target}` is a file, expected a folder")
    nested = sorted(path.parent for path in target.glob("*/**/" + MANIFEST))
    if nested:
        raise FolderError(f"`{target}` has another set inside it, `{nested[0]}`, and would take it along")
    inside = [path for path in sorted(target.rglob("*")) if path.is_symlink() or not path.is_dir() or not any(path.iterdir())]
    inside = [path for path in inside if not _is_carried(path, target)]
    if not inside:
        return
    try:
        listed = _own_files(target)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"`{target}` is not empty and has no readable {MANIFEST}: it is not replaced") from error
    for path in inside:
        if path.relative_to(target).as_posix() not in listed:
            raise FolderError(f"`{path}` is not part of the set and would be lost: move it away first")
        if path.is_symlink():
            raise FolderError(f"`{path}` is a symbolic link, and nothing is written through one")


def _own_files(folder: Path) -> set[str]:
    """The files of a set, as its manifest names them, and the manifest."""
    return {str(entry["file"]) for entry in _manifest(folder)["tensors"]} | {MANIFEST}


def _is_carried(path: Path, folder: Path) -> bool:
    """Whether a file is a hidden one beside the manifest, such as `.gitattributes`, which the next set gets too."""
    return path.parent == folder and path.name.startswith(".") and path.is_file() and not path.is_symlink()


@contextmanager
def replacing(target: Path, root: Path | None = None) -> Iterator[Path]:
    """An empty folder beside `target`, which takes its place when the block ends without an error."""
    check_target(target, root)
    target.parent.mkdir(parents=True, exist_ok=True)
    restore(target)
    aside = target.with_name(f".{target.name}.new-{os.getpid()}")
    aside.mkdir()
    # Held as long as this process lives, so that others can tell a folder in use from one left behind.
    holds = [_lock(aside)]
    try:
        yield aside
        for path in target.glob(".*") if target.is_dir() else ():
            if _is_carried(path, target):
                shutil.copy2(path, aside / path.name)
        for path in [*aside.rglob("*"), aside]:
            _sync(path)
        if target.exists():
            holds.append(_lock(target))
        old = _swap(aside, target)
        _sync(target.parent)
        if old is not None:
            _remove_set(old, target)
    finally:
        # After the swap nothing has this name: the old set goes file by file, or waits for `restore`.
        shutil.rmtree(aside, ignore_errors=True)
        for hold in holds:
            if hold is not None:
                os.close(hold)


def restore(target: Path) -> None:
    """Puts right what a run that was killed left beside `target`. Folders that a live run holds are left alone.

    `.NAME.new-PID` is an unfinished new set, which is removed whole. `.NAME.old-PID` may be a set that was replaced, with
    files of others in it, so only the files of the set are removed.
    """
    for left in sorted(target.parent.glob(f".{target.name}.old-*")):
        if not target.exists():
            left.rename(target)
            continue
        hold = _lock(left)
        if hold is not None:
            try:
                _remove_set(left, target)
            finally:
                os.close(hold)
    for left in target.parent.glob(f".{target.name}.new-*"):
        hold = _lock(left)
        if hold is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(hold)


def _remove_set(old: Path, target: Path) -> None:
    """Removes the files of a set that was replaced. What appeared in its folder since it was checked is kept beside it."""
    try:
        listed = _own_files(old)
    except (OSError, ValueError, KeyError, TypeError):
        listed = set()
    # Only files found in the folder are removed: a name in the manifest, such as `../x` or `/x`, may lead elsewhere.
    files = [path for path in sorted(old.rglob("*")) if path.is_symlink() or not path.is_dir()]
    own = [path for path in files if path.relative_to(old).as_posix() in listed or _is_copied(path, old, target)]
    # The manifest goes last: it says what may go if we are killed meanwhile.
    for path in sorted(own, key=lambda path: path == old / MANIFEST):
        path.unlink(missing_ok=True)
    for path in sorted(old.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
    if not any(old.iterdir()):
        old.rmdir()
        return
    kept = next(path for n in count(1) if not (path := target.with_name(f"{target.name}.kept-{n}")).exists())
    old.rename(kept)
    print(f"note: files that are not part of the set appeared in `{target}`; they are kept in `{kept}`", file=sys.stderr)


def _is_copied(path: Path, old: Path, target: Path) -> bool:
    """Whether a file of the old folder is a hidden one that the new set has too, with the same bytes."""
    other = target / path.name
    return _is_carried(path, old) and other.is_file() and path.read_bytes() == other.read_bytes()


def _swap(new: Path, target: Path) -> Path | None:
    """Puts `new` in the place of `target`, in one step where the system has one; where the old one is then."""
    if not target.exists():
        new.rename(target)
        return None
    # Renamed before the exchange: whenever we die, the old set is never in a folder that `restore` removes whole.
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    new.rename(old)
    try:
        exchanged = _exchange(old, target)
    except OSError:
        old.rename(new)
        raise
    if exchanged:
        return old
    # Without such a step there is a moment with no folder; `restore` mends it if we die just then.
    old.rename(new)
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
    return old


def _exchange(left: Path, right: Path) -> bool:
    """Exchanges two folders in one step; whether the system could."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        at_cwd, exchange = -100, 2
        failed = libc.renameat2(at_cwd, os.fsencode(left), at_cwd, os.fsencode(right), exchange)
    elif sys.platform == "darwin":
        swap = 2
        failed = libc.renamex_np(os.fsencode(left), os.fsencode(right), swap)
    else:
        return False
    if failed and ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(right))
    return not failed


def _lock(folder: Path) -> int | None:
    """A handle that keeps others from locking the folder; none when somebody else has it."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _sync(path: Path) -> None:
    """Has the disk hold what was written, so that a power cut after the swap finds whole files."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file() and path.exists():
        raise ValueError("it is no regular file")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError("the manifest is no object")
    return found


class OldSet:
    """A set that is there already, whose inputs and weights can be used again."""

    def __init__(self, folder: Path):
        from . import files

        self._files, self._read = folder, files.read
        self._open: dict[str, Any] = {}
        try:
            tensors = _manifest(folder)["tensors"]
            self._entries = {(entry["role"], entry["name"]): entry for entry in tensors}
        except FileNotFoundError:
            self._entries = {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FolderError(f"the set to use again, `{folder}`, has no readable {MANIFEST}: {error}") from error

    def get(self, role: str, name: str) -> Any:
        """The tensor, or none when the set has none of that role and name. Its checksum must be right."""
        entry = self._entries.get((role, name))
        if entry is None:
            return None
        file = entry["file"]
        path = self._files / file
        if not path.resolve().is_relative_to(self._files.resolve()):
            raise FolderError(f"`{path}` lies outside its set")
        if file not in self._open:
            self._open[file] = self._read(path)
        key = "" if file.endswith(".npy") else entry.get("key", name)
        found = self._open[file].get(key)
        if found is None or found.sha256() != entry["sha256"]:
            raise FolderError(f"{role} `{name}` in `{path}` is not what the manifest says: restore the file, or make new inputs")
        return found

    def near(self, role: str, name: str) -> str:
        return near(name, [known for kind, known in self._entries if kind == role])
