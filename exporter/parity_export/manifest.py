"""The version of the manifest format, and the key that identifies what made a set."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

FORMAT = 1


def canonical_json(value: Any) -> str:
    """Returns JSON with sorted keys and no white space. The Rust side writes exactly the same text."""
    if isinstance(value, Mapping):
        items = (f"{json.dumps(key, ensure_ascii=False)}:{canonical_json(value[key])}" for key in sorted(value))
        return "{" + ",".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(canonical_json(item) for item in value) + "]"
    if isinstance(value, float):
        return canonical_float(value)
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def canonical_float(value: float) -> str:
    """Returns the shortest digits that read back as the number, one before the point, and a power of ten: `2.5e-10`."""
    if not math.isfinite(value):
        raise ValueError(f"JSON has no number for {value}; use finite parameters")
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = 0 if text == "0" else len(digits) - 1 + int(exponent)
    return f"{'-' if sign else ''}{text[0]}{'.' + text[1:] if len(text) > 1 else ''}e{power}"


def made_by_key(reference: str | Mapping[str, Any], script: bytes) -> str:
    """Returns the SHA-256 of the reference block and the script. A set is stale when this key changes.

    A reference given as text must be canonical JSON.
    """
    if not isinstance(reference, str):
        # Empty `params` and no `params` are the same. `env` and `timeout` do not change what a script computes.
        reference = {
            key: value
            for key, value in reference.items()
            if (key, value) != ("params", {}) and key not in ("env", "timeout")
        }
    canonical = reference if isinstance(reference, str) else canonical_json(reference)
    head = f"mlx-parity fixture {FORMAT}\n{canonical}\n"
    return hashlib.sha256(head.encode() + script).hexdigest()
