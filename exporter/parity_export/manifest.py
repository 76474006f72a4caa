"""What a manifest is made of: its version, the key of what made a set, and the hash of a tensor."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Mapping

import numpy as np

FORMAT = 1


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space. Numbers other than integers are best passed as text by the caller."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def made_by_key(reference: str | Mapping[str, Any], script: bytes) -> str:
    """The SHA-256 that tells whether a set still belongs to its spec: the reference block and the script's bytes.

    A reference given as text is taken as canonical JSON already.
    """
    canonical = reference if isinstance(reference, str) else canonical_json(reference)
    head = f"mlx-parity fixture {FORMAT}\n{canonical}\n"
    return hashlib.sha256(head.encode() + script).hexdigest()


def tensor_sha256(array: np.ndarray) -> str:
    """The SHA-256 of an array's elements, row-major and little-endian."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.ascontiguousarray(little).tobytes()).hexdigest()
