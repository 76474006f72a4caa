"""Every dtype in every format reads back bit for bit, and other libraries can read the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Made

import parity_export
from parity_export import files
from parity_export.pins import rounded
from parity_export.values import STORED, Value, hand_back, host

DRAW = np.random.default_rng(5)


def sample(dtype: str, shape: tuple[int, ...] = (3, 5)) -> Value:
    stored = STORED[dtype]
    raw = DRAW.integers(0, 256, size=int(np.prod(shape)) * stored.itemsize, dtype=np.uint8)
    if dtype == "bool":
        raw &= 1
    return Value(dtype, raw.view(stored).reshape(shape))


@pytest.mark.parametrize("suffix", files.FORMATS)
@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4)])
def test_any_bits_of_any_dtype_come_back(tmp_path: Path, suffix: str, dtype: str, shape: tuple[int, ...]) -> None:
    value = sample(dtype, shape)
    path = tmp_path / f"x.{suffix}"
    files.write(path, {"x": value})
    (back,) = files.read(path).values()
    assert back.same_as(value)


def test_numpy_reads_what_is_written(tmp_path: Path) -> None:
    values = {name: sample(name) for name in STORED if name != "bfloat16"}
    files.write(tmp_path / "all.npz", values)
    with np.load(tmp_path / "all.npz") as archive:
        assert all(archive[name].tobytes() == value.bits.tobytes() for name, value in values.items())
    files.write(tmp_path / "x.npy", {"x": values["complex64"]})
    assert np.load(tmp_path / "x.npy").dtype == np.complex64


def test_bfloat16_in_npy_is_what_mlx_writes(tmp_path: Path) -> None:
    mx = pytest.importorskip("mlx.core", reason="needs mlx")
    value = rounded(DRAW.standard_normal(8), "bfloat16")
    files.write(tmp_path / "x.npy", {"x": value})
    mx.save(str(tmp_path / "y.npy"), hand_back(value, "mlx"))
    head = (tmp_path / "x.npy").read_bytes(), (tmp_path / "y.npy").read_bytes()
    assert b"'<V2'" in head[0]
    assert b"'<V2'" in head[1]
    assert host(mx.load(str(tmp_path / "x.npy"))).same_as(value)


def test_rounding_to_bfloat16_is_to_nearest_even() -> None:
    wide = np.array([1.0, 1.00390625, 1.01171875, -1.00390625, 1e-40, 3.5e38, np.inf])
    # Ties go to the even neighbour, and numbers that are too large become infinite.
    assert rounded(wide, "bfloat16").wide().tolist() == [
        1.0,
        1.0,
        1.015625,
        -1.0,
        pytest.approx(1e-40, rel=1e-2),
        np.inf,
        np.inf,
    ]


def test_byte_order_and_memory_order_do_not_show() -> None:
    plain = np.arange(6, dtype="<f4").reshape(2, 3)
    for other in (plain.astype(">f4"), np.asfortranarray(plain), plain[::-1][::-1]):
        assert host(other).same_as(host(plain))


def test_whatever_speaks_dlpack_or_array_is_a_tensor() -> None:
    class Dlpack:
        def __dlpack__(self, **_: object) -> object:
            return np.arange(3.0).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return np.arange(3.0).__dlpack_device__()

    class Array:
        def __array__(self, dtype: object = None, copy: object = None) -> Any:
            return np.arange(3, dtype=np.int32)

    assert host(Dlpack()).kind() == "float64 [3]"
    assert host(Array()).kind() == "int32 [3]"
    assert host(np.float32(2.0)).kind() == "float32 []"


def test_ml_dtypes_go_in_and_out() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    array = DRAW.standard_normal(8).astype(ml_dtypes.bfloat16)
    value = host(array)
    assert value.dtype == "bfloat16"
    assert value.bits.tobytes() == array.tobytes()
    assert hand_back(value, array).dtype == array.dtype


@pytest.mark.parametrize("format", files.FORMATS)
def test_a_set_in_each_format_reads_back_and_repeats(tmp_path: Path, format: str) -> None:
    def reference(rec: Any, dim: int = 4) -> None:
        x = rec.input("x", np.random.default_rng(0).standard_normal((3, dim)).astype(np.float32))
        rec.save("half", x.astype(np.float16))
        rec.save("turn", np.exp(1j * x).astype(np.complex64))

    sets = [Made(tmp_path / name, parity_export.run(reference, tmp_path / name, format=format)) for name in "ab"]
    assert sets[0].bytes() == sets[1].bytes()
    assert sets[0].tensor("golden", "turn").dtype == "complex64"
    assert all(entry["file"].endswith(f".{format}") for entry in sets[0].entries.values())
    # The set can be reused.
    again = Made(tmp_path / "c", parity_export.run(reference, tmp_path / "c", format=format, reuse=tmp_path / "a"))
    assert again.report["counts"]["reused"] == 1
    assert again.bytes() == sets[0].bytes()
