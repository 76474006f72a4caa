"""The provenance of a golden set: versions, source files and revisions. Two equal runs give equal provenance."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .places import package_path
from .settings import NUMERIC

_FRAMEWORKS = ("torch", "mlx", "numpy", "jax", "builtins")


class Sources:
    """The hooked classes and functions of a reference, and their source files."""

    def __init__(self, script: Path, script_name: str):
        self._script, self._name = str(script), script_name
        self.files: dict[str, dict[str, Any]] = {}
        self.packages: set[str] = set()

    def path(self, file: str) -> str:
        """Returns a source file's name in the manifest: the script as in the spec, others relative to their package."""
        if file == self._script or os.path.realpath(file) == self._script:
            return self._name
        return _package_path(file) or os.path.basename(file)

    def file_of(self, thing: Any) -> str:
        """Returns the manifest's name for the source file of a class or function."""
        file = _source_file(thing)
        return self.path(file) if file is not None else str(thing.__module__)

    def add(self, thing: Any) -> None:
        """Adds a class or function. Those of the frameworks are skipped: their version identifies them."""
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
    """Returns what is needed to repeat the export: Python, platform, versions, threads and settings."""
    names = {"numpy", "safetensors"} | packages
    for module in (
        "torch",
        "mlx",
        "mlx_cpu",
        "mlx_metal",
        "jax",
        "transformers",
        "diffusers",
        "tokenizers",
        "ml_dtypes",
        "scipy",
    ):
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


@cache
def _package_path(file: str) -> str | None:
    return package_path(file)


@cache
def _distribution(package: str) -> str:
    """Returns the name a package was installed under, which may differ from its import name."""
    names = metadata.packages_distributions().get(package) if hasattr(metadata, "packages_distributions") else None
    return min(names) if names else package


def _version(package: str) -> str | None:
    for name in (package, _distribution(package)):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


@cache
def _revision(package: str, file: str) -> tuple[str | None, bool | None]:
    """Returns the git revision of a source file and whether its package has local changes; none if it is not from git.

    An editable install is looked up in its checkout. For a package that pip fetched from git, pip stored the revision.
    """
    folder = os.path.dirname(os.path.abspath(file))

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", folder, *arguments], check=False, capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None

    # An environment inside a repository is not part of its source, so the file must be tracked.
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
