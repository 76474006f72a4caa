"""Replaces a fixture folder. At every moment the folder holds the complete old set or the complete new one."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


class FolderError(OSError):
    """A set cannot be written to a folder, or read from it."""


def check_target(target: Path, root: Path | None) -> None:
    """Raises FolderError if `target` is not a set, lies outside `root`, or holds files that a new set would delete."""
    if target.is_symlink():
        raise FolderError(f"`{target}` is a symbolic link, expected a folder; name the folder itself")
    if root is not None:
        # The user chose the links above the root. A link below the root could lead anywhere.
        real, below = root.resolve(), target.resolve()
        if real == below or real not in below.parents:
            raise FolderError(f"`{target}` is not below the fixture root `{root}`; choose a folder inside it")
    if not target.exists():
        return
    if not target.is_dir():
        raise FolderError(f"`{target}` is a file, expected a folder; move it away or choose another name")
    nested = sorted(path.parent for path in target.glob("*/**/" + MANIFEST))
    if nested:
        raise FolderError(
            f"`{target}` has another set inside it, `{nested[0]}`, which would be lost; move it away first"
        )
    inside = [
        path for path in sorted(target.rglob("*")) if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    ]
    inside = [path for path in inside if not _is_carried(path, target)]
    if not inside:
        return
    try:
        listed = _own_files(target)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FolderError(
            f"`{target}` is not empty and has no readable {MANIFEST}; only a set is replaced, so choose another folder"
        ) from error
    for path in inside:
        if path.relative_to(target).as_posix() not in listed:
            raise FolderError(f"`{path}` is not part of the set and would be lost; move it away first")
        if path.is_symlink():
            raise FolderError(f"`{path}` is a symbolic link, expected a file of the set; move it away first")


def _own_files(folder: Path) -> set[str]:
    """Returns the files that the manifest of a set lists, and the manifest itself."""
    manifest = _manifest(folder)
    recipes = {str(manifest["recipes"]["file"])} if "recipes" in manifest else set()
    return {str(entry["file"]) for entry in manifest["tensors"]} | recipes | {MANIFEST}


def _is_carried(path: Path, folder: Path) -> bool:
    """Whether a file is hidden and beside the manifest, such as `.gitattributes`. The new set receives a copy."""
    return path.parent == folder and path.name.startswith(".") and path.is_file() and not path.is_symlink()


@contextmanager
def replacing(target: Path, root: Path | None = None) -> Iterator[Path]:
    """Yields an empty folder beside `target`. It replaces `target` when the block ends without an error."""
    check_target(target, root)
    target.parent.mkdir(parents=True, exist_ok=True)
    restore(target)
    aside = target.with_name(f".{target.name}.new-{os.getpid()}")
    aside.mkdir()
    # The lock lives as long as this process, so other runs can tell a folder in use from an abandoned one.
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
        # After the swap nothing has this name: the old set is removed file by file, or by the next `restore`.
        shutil.rmtree(aside, ignore_errors=True)
        for hold in holds:
            if hold is not None:
                os.close(hold)


def restore(target: Path) -> None:
    """Cleans up what a killed run left beside `target`, and restores `target` if it is missing.

    Folders that a live run has locked stay. `.NAME.new-PID` is an unfinished set and is removed whole. `.NAME.old-PID`
    may be a replaced set that also holds the user's files, so only the files of the set are removed.
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
    """Removes the files of a replaced set. Files that appeared in its folder after the check stay, beside `target`."""
    try:
        listed = _own_files(old)
    except (OSError, ValueError, KeyError, TypeError):
        listed = set()
    # Only files found in the folder are removed. A manifest could name `../x` or `/x`, outside the folder.
    files = [path for path in sorted(old.rglob("*")) if path.is_symlink() or not path.is_dir()]
    own = [path for path in files if path.relative_to(old).as_posix() in listed or _is_copied(path, old, target)]
    # The manifest goes last: if this process is killed, the next one needs the list of files.
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
    print(f"note: files that are not part of the set appeared in `{target}`; kept in `{kept}`", file=sys.stderr)


def _is_copied(path: Path, old: Path, target: Path) -> bool:
    """Whether a file of the old folder is hidden and the new set has a copy with the same bytes."""
    other = target / path.name
    return _is_carried(path, old) and other.is_file() and path.read_bytes() == other.read_bytes()


def _swap(new: Path, target: Path) -> Path | None:
    """Moves `new` to `target` and returns where the old set is now. One step where the system supports it."""
    if not target.exists():
        new.rename(target)
        return None
    # Renamed before the exchange, so a kill never leaves the old set in a folder that `restore` removes whole.
    old = target.with_name(f".{target.name}.old-{os.getpid()}")
    new.rename(old)
    try:
        exchanged = _exchange(old, target)
    except OSError:
        old.rename(new)
        raise
    if exchanged:
        return old
    # Two renames leave a moment without a folder. `restore` repairs that after a kill.
    old.rename(new)
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
    return old


def _exchange(left: Path, right: Path) -> bool:
    """Exchanges two folders in one step. Returns false if the system does not support that."""
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
    """Locks a folder and returns the handle; none if another process holds the lock."""
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
    """Flushes a file or folder to disk, so a power cut after the swap finds complete files."""
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
        raise ValueError("it is not a regular file")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


class OldSet:
    """A committed set, whose inputs and weights can be reused."""

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
            raise FolderError(
                f"the set to reuse, `{folder}`, has no readable {MANIFEST}: {error}; restore it, or make new inputs"
            ) from error

    def get(self, role: str, name: str) -> Any:
        """Returns the tensor of that role and name after checking its SHA-256; none if the set has no such tensor."""
        entry = self._entries.get((role, name))
        if entry is None:
            return None
        file = entry["file"]
        path = self._files / file
        if not path.resolve().is_relative_to(self._files.resolve()):
            raise FolderError(f"`{path}` lies outside its set `{self._files}`; restore its {MANIFEST}")
        if file not in self._open:
            self._open[file] = self._read(path)
        key = "" if file.endswith(".npy") else entry.get("key", name)
        found = self._open[file].get(key)
        if found is None or found.sha256() != entry["sha256"]:
            raise FolderError(
                f"{role} `{name}` in `{path}` does not match its SHA-256 in {MANIFEST}; "
                "restore the file, or make new inputs"
            )
        return found
