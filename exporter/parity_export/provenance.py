"""Where a golden set comes from: versions, source files and revisions, and nothing that differs between two runs."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import subprocess
import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .places import package_path
from .settings import NUMERIC

_FRAMEWORKS = ("torch", "mlx", "numpy", "jax", "builtins")


class Sources:
    """The classes and functions that a reference was hooked at, and the files that they are in."""

    def __init__(self, script: Path, script_name: str):
        self._script, self._name = str(script), script_name
        self.files: dict[str, dict[str, Any]] = {}
        self.packages: set[str] = set()

    def path(self, file: str) -> str:
        """A source file as the manifest names it: the script as the spec does, others from their package's folder."""
        if file == self._script or os.path.realpath(file) == self._script:
            return self._name
        return _package_path(file) or os.path.basename(file)

    def file_of(self, thing: Any) -> str:
        """The source file of a class or function as the manifest names it."""
        file = _source_file(thing)
        return self.path(file) if file is not None else str(thing.__module__)

    def add(self, thing: Any) -> None:
        """Notes a class or function; those of the frameworks themselves are told by their versions."""
        root = str(getattr(thing, "__module__", "")).split(".")[0]
        file = _source_file(thing)
        if root in _FRAMEWORKS or file is None:
            return
        path = self.path(file)
        if path not in self.files:
            self.files[path] = {"sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest(), "hooked": []}
            if path != self._name:
                self.packages.add(root)
                self.files[path]["revision"], self.files[path]["dirty"] = _revision(root, file)
        hooked = self.files[path]["hooked"]
        if thing.__qualname__ not in hooked:
            hooked.append(thing.__qualname__)

    def json(self) -> dict[str, Any]:
        return {path: {**self.files[path], "hooked": sorted(self.files[path]["hooked"])} for path in sorted(self.files)}


def facts(packages: set[str]) -> dict[str, Any]:
    """What somebody who must repeat the export would ask: Python, platform, versions, threads and settings."""
    names = {"numpy", "safetensors"} | packages
    for module in ("torch", "mlx", "mlx_cpu", "mlx_metal", "jax", "transformers", "diffusers", "tokenizers", "ml_dtypes", "scipy"):
        if module in sys.modules or (module.startswith("mlx_") and "mlx" in sys.modules):
            names.add(module.replace("_", "-") if module.startswith("mlx_") else module)
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "packages": {name: version for name in sorted(names) if (version := _version(name)) is not None},
    }
    read = {name for name, library in NUMERIC.items() if library is None or library in sys.modules}
    variables = {name: os.environ[name] for name in sorted(read) if name in os.environ}
    if variables:
        found["environment"] = variables
    if "torch" in sys.modules:
        import torch

        found["torch"] = {"threads": torch.get_num_threads(), "cpu": torch.backends.cpu.get_cpu_capability()}
    return found


def _source_file(thing: Any) -> str | None:
    try:
        return inspect.getsourcefile(thing if isinstance(thing, type) else inspect.unwrap(thing))
    except (OSError, TypeError):
        return None


@lru_cache(maxsize=None)
def _package_path(file: str) -> str | None:
    return package_path(file)


@lru_cache(maxsize=None)
def _distribution(package: str) -> str:
    """The name under which a package was installed, which need not be the one it is imported by."""
    names = metadata.packages_distributions().get(package) if hasattr(metadata, "packages_distributions") else None
    return sorted(set(names))[0] if names else package


def _version(package: str) -> str | None:
    for name in (package, _distribution(package)):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


@lru_cache(maxsize=None)
def _revision(package: str, file: str) -> tuple[str | None, bool | None]:
    """The git revision of a source file and whether its package was changed since; none when it is not from git.

    A checkout that an editable install points at is asked. A package that pip fetched from git says so itself.
    """
    folder = os.path.dirname(os.path.abspath(file))

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None

    # An environment inside somebody's repository is not that repository's source: the file must be tracked.
    if git("ls-files", "--error-unmatch", os.path.basename(file)) is not None:
        head = git("rev-parse", "HEAD")
        top = Path(file).resolve()
        for _ in Path(package_path(file) or os.path.basename(file)).parts[:-1]:
            top = top.parent
        status = git("status", "--porcelain", "--", str(top))
        return (head or "").strip() or None, bool(status) if status is not None else None
    try:
        text = metadata.distribution(_distribution(package)).read_text("direct_url.json")
        return (json.loads(text)["vcs_info"]["commit_id"], False) if text else (None, None)
    except (metadata.PackageNotFoundError, KeyError, ValueError):
        return None, None
