"""Tensor files: npy, npz and safetensors. The same tensors always give the same bytes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import TensorSpec, safe_open, serialize_file

from .values import STORED, Value

# Untyped before NumPy 2.3.
_NPY: Any = np.lib.format

FORMATS = ("safetensors", "npz", "npy")

SAFETENSORS = {
    "BOOL": "bool",
    **{f"{sign}{bits}": f"{word}{bits}" for sign, word in (("U", "uint"), ("I", "int")) for bits in (8, 16, 32, 64)},
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}


def write(path: Path, tensors: Mapping[str, Value]) -> None:
    """Writes one file in the format of its suffix. An npy file holds exactly one tensor."""
    if path.suffix == ".safetensors":
        # Written from the tensors' own memory: a file of weights may be larger than what is left of it.
        path.touch(exist_ok=False)
        mode = path.stat().st_mode
        serialize_file(_parts(tensors), path)
        # safetensors replaces the file by one that only its owner can read.
        path.chmod(mode)
        return
    if path.suffix == ".npz":
        data = _npz(tensors)
    else:
        (value,) = tensors.values()
        data = _npy(value)
    with open(path, "xb") as file:
        file.write(data)


def read(path: Path) -> dict[str, Value]:
    """Returns the tensors of a file by name. The tensor of an npy file has the empty name.

    Tensors of safetensors stay in the file, and come into memory where they are read.
    """
    if path.suffix == ".safetensors":
        return _mapped(path)
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy"): _read_npy(path, archive.read(name)) for name in archive.namelist()}
    return {"": _read_npy(path, path.read_bytes())}


def _mapped(path: Path) -> dict[str, Value]:
    with safe_open(path, framework="np") as checked:
        # Checks the header and the length of the file.
        names = list(checked.keys())
    # A reference may write to a weight: that changes its memory, and never the file.
    data = np.memmap(path, dtype=np.dtype("uint8"), mode="c")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:start].tobytes())
    found = {}
    for name in names:
        part = header[name]
        dtype = SAFETENSORS.get(part["dtype"])
        if dtype is None:
            raise ValueError(f"`{path}` holds {part['dtype']} in `{name}`, expected one of {', '.join(SAFETENSORS)}")
        first, last = part["data_offsets"]
        bits = data[start + first : start + last]
        # The format aligns no tensor, and NumPy computes with aligned ones.
        own = np.asarray(bits) if bits.ctypes.data % STORED[dtype].itemsize == 0 else np.array(bits)
        found[name] = Value(dtype, own.view(STORED[dtype]).reshape(part["shape"]))
    return found


def _parts(tensors: Mapping[str, Value]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(
            dtype=value.dtype, shape=list(value.shape), data_ptr=value.bits.ctypes.data, data_len=value.bits.nbytes
        )
        for name, value in tensors.items()
    }


def _npz(tensors: Mapping[str, Value]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, value in tensors.items():
            # `np.savez` writes the current time into every member.
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(member, _npy(value))
    return out.getvalue()


def _npy(value: Value) -> bytes:
    out = io.BytesIO()
    # The format has no name for bfloat16. MLX and ml_dtypes write `<V2`.
    descr = "<V2" if value.dtype == "bfloat16" else _NPY.dtype_to_descr(value.bits.dtype)
    _NPY.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": value.shape})
    return bytes(out.getvalue() + value.bits.tobytes())


def _read_npy(path: Path, data: bytes) -> Value:
    stream = io.BytesIO(data)
    version = _NPY.read_magic(stream)
    reader = _NPY.read_array_header_1_0 if version == (1, 0) else _NPY.read_array_header_2_0
    shape, fortran, dtype = reader(stream)
    name = "bfloat16" if dtype == np.dtype("V2") else dtype.name
    if name not in STORED:
        raise ValueError(f"`{path}` holds {name}, expected one of {', '.join(STORED)}")
    stored = dtype.newbyteorder("<") if name != "bfloat16" else np.dtype("<u2")
    raw = np.frombuffer(data[stream.tell() :], dtype=dtype if name != "bfloat16" else stored)
    array = raw.reshape(shape, order="F" if fortran else "C")
    return Value(name, np.array(array, dtype=stored, order="C"))
