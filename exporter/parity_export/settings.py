"""The settings of an export, from arguments and `PARITY_*` variables.

`cargo xtask regenerate-fixtures` sets the variables. An argument wins over its variable, except over
`PARITY_REFERENCE`, which holds the spec's own text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import external
from .external import ExternalFiles

# Variables that change the results of a reference or their order, each with the library that reads it, or None if
# several do. The manifest lists those that are set and whose library is imported.
NUMERIC = {
    "ATEN_CPU_CAPABILITY": "torch",
    "CUBLAS_WORKSPACE_CONFIG": "torch",
    "MKL_CBWR": None,
    "MKL_NUM_THREADS": None,
    "MLX_ENABLE_TF32": "mlx",
    "NVIDIA_TF32_OVERRIDE": "torch",
    "OMP_NUM_THREADS": None,
    "ONEDNN_DEFAULT_FPMATH_MODE": "torch",
    "OPENBLAS_CORETYPE": None,
    "OPENBLAS_NUM_THREADS": None,
    "PYTORCH_ENABLE_MPS_FALLBACK": "torch",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "torch",
    "XLA_FLAGS": "jax",
}


@dataclass(frozen=True)
class Expected:
    """The goldens and inputs that the spec declares. `known` is false if there is no spec."""

    goldens: dict[str, str | None] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    # The spec's `weights.rename`, which also applies to the names of gradients and updated parameters.
    rename: dict[str, str] = field(default_factory=dict)
    known: bool = False
    # Whether the script is a second reference, which may record only some of the goldens.
    partial: bool = False


@dataclass(frozen=True)
class Settings:
    """The settings of one export."""

    reuse: Path | None
    new_inputs: bool
    report: Path | None
    root: Path | None
    refuse: bool
    spread: bool
    expected: Expected
    external: ExternalFiles | None

    @classmethod
    def read(
        cls,
        *,
        reuse: str | os.PathLike[str] | None = None,
        new_inputs: bool | None = None,
        report: str | os.PathLike[str] | None = None,
        root: str | os.PathLike[str] | None = None,
        lint: str | None = None,
        spread: bool | None = None,
        expect: Mapping[str, str | None] | None = None,
    ) -> Settings:
        """Returns the settings. Arguments that are none come from `PARITY_REUSE`, `PARITY_NEW_INPUTS` and so on."""
        return cls(
            reuse=_path(reuse, "PARITY_REUSE"),
            new_inputs=_flag(new_inputs, "PARITY_NEW_INPUTS"),
            report=_path(report, "PARITY_REPORT"),
            root=_path(root, "PARITY_ROOT"),
            refuse=_choice(lint, "PARITY_LINT", ("refuse", "report")) == "refuse",
            spread=_flag(spread, "PARITY_SPREAD"),
            expected=_expected(expect),
            external=external.read(),
        )


def reference_block(given: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the block and the text of `PARITY_REFERENCE`, or the argument and no text if it is not set."""
    text = os.environ.get("PARITY_REFERENCE")
    if not text:
        return (None if given is None else dict(given)), None
    try:
        block = json.loads(text)
        if not isinstance(block, dict) or "script" not in block:
            raise ValueError("expected a JSON object with a `script`")
    except ValueError as error:
        raise ValueError(
            f"PARITY_REFERENCE is `{text}`, which is not the `reference` block of a spec: {error}"
        ) from error
    return block, text


def _path(given: str | os.PathLike[str] | None, variable: str) -> Path | None:
    found = given if given is not None else os.environ.get(variable) or None
    return None if found is None else Path(found)


def _flag(given: bool | None, variable: str) -> bool:
    return given if given is not None else _choice(None, variable, ("0", "1")) == "1"


def _choice(given: str | None, variable: str, allowed: tuple[str, ...]) -> str:
    found = given if given is not None else os.environ.get(variable) or allowed[0]
    if found not in allowed:
        raise ValueError(f"{variable} is `{found}`, expected {' or '.join(f'`{choice}`' for choice in allowed)}")
    return found


def _expected(given: Mapping[str, str | None] | None) -> Expected:
    """Reads the file that `PARITY_EXPECT` names: `{"goldens": {"norm": "float32", "mask": null}, "inputs": ["x"]}`."""
    if given is not None:
        return Expected(goldens=dict(given), known=True)
    path = _path(None, "PARITY_EXPECT")
    if path is None:
        return Expected()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Expected(
            goldens=dict(found["goldens"]),
            inputs=tuple(found.get("inputs", ())),
            rename=dict(found.get("rename", {})),
            known=True,
            partial=bool(found.get("partial", False)),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        wanted = '{"goldens": {"norm": "float32"}, "inputs": ["x"]}'
        raise ValueError(f"PARITY_EXPECT names `{path}`, expected JSON such as `{wanted}` there: {error}") from error
