"""Tensors on the host: exact copies of NumPy, torch, MLX and JAX arrays, and the way back."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

# The dtypes of the format, and NumPy's dtype for each. bfloat16 is kept as its bits, so it needs no other library.
STORED: dict[str, Any] = {
    "bool": np.dtype("bool"),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("u", "") for bits in (8, 16, 32, 64)},
    "float16": np.dtype("float16"),
    "bfloat16": np.dtype("uint16"),
    "float32": np.dtype("float32"),
    "float64": np.dtype("float64"),
    "complex64": np.dtype("complex64"),
}
# complex128 appears only in float64 runs, which are measured and not stored.
_HELD = {**STORED, "complex128": np.dtype("complex128")}
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor: its dtype under the format's name, and its elements, row-major and little-endian."""

    dtype: str
    bits: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.bits.shape)

    @property
    def is_inexact(self) -> bool:
        return self.dtype in FLOATS or self.dtype in COMPLEX

    def wide(self) -> Array:
        """Returns the elements as float64 or complex128, or unchanged if they are integers or bools. Rounds nothing."""
        if self.dtype == "bfloat16":
            return (self.bits.astype(np.dtype("uint32")) << 16).view(np.dtype("float32")).astype(np.dtype("float64"))
        if self.dtype in COMPLEX:
            return self.bits.astype(np.dtype("complex128"))
        return self.bits.astype(np.dtype("float64")) if self.dtype in FLOATS else self.bits

    def widened(self) -> Value:
        """Returns the same numbers as a float64 or complex128 tensor."""
        wide = self.wide()
        return Value(wide.dtype.name, wide)

    def sha256(self) -> str:
        return hashlib.sha256(self._bytes().data).hexdigest()

    def same_as(self, other: Value) -> bool:
        return self.kind() == other.kind() and np.array_equal(self._bytes(), other._bytes())

    def _bytes(self) -> Array:
        """Returns the elements as bytes, without a copy if they are in order."""
        return np.ascontiguousarray(self.bits).reshape(-1).view(np.dtype("uint8"))

    def shares(self, tensor: Any) -> bool:
        """Whether the elements are those of a torch tensor on the host, and not a copy."""
        return framework_of(tensor) == "torch" and tensor.data_ptr() == self.bits.ctypes.data

    def kind(self) -> str:
        """Returns dtype and shape as text: `float32 [2, 3]`."""
        return f"{self.dtype} {list(self.shape)}"


def _value(array: Array, dtype: str, copy: bool = True) -> Value:
    stored = _HELD[dtype].newbyteorder("<")
    # Without `copy`, a new array that shows the same memory.
    data = np.array(array, dtype=stored, order="C", copy=True) if copy else np.asarray(array, stored, order="C").view()
    data.flags.writeable = False
    return Value(dtype, data)


def is_tensor(thing: Any) -> bool:
    """Whether `host` accepts it. Python's own numbers and lists have no dtype and are not tensors."""
    return framework_of(thing) is not None


def framework_of(thing: Any) -> str | None:
    """Returns `numpy`, `torch`, `mlx`, `jax` or `dlpack`, and none for anything that is not a tensor."""
    if isinstance(thing, (np.ndarray, np.generic)):
        return "numpy"
    root = type(thing).__module__.split(".")[0]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Tensor):
        return "torch"
    mlx = sys.modules.get("mlx.core")
    if mlx is not None and root == "mlx" and type(thing).__name__ == "array":
        return "mlx"
    if root in ("jax", "jaxlib") and hasattr(thing, "__array__"):
        return "jax"
    if isinstance(thing, type) or not (hasattr(thing, "__dlpack__") or hasattr(thing, "__array__")):
        return None
    return "dlpack"


def host(tensor: Any, what: str = "value", copy: bool = True) -> Value:
    """Returns the tensor's elements on the host: a copy, or without `copy` the memory of a torch tensor that is there.

    Raises TypeError if `tensor` is not a tensor, or if the format does not have its dtype.
    """
    framework = framework_of(tensor)
    if framework is None:
        found = type(tensor).__name__
        raise TypeError(f"{what} is a {found}, expected an array of numpy, torch, mlx or jax, or one with `__dlpack__`")
    if framework == "torch":
        return _from_torch(tensor, what, copy)
    if framework == "mlx":
        return _from_mlx(tensor, what)
    is_dlpack = framework == "dlpack" and hasattr(tensor, "__dlpack__")
    return _from_numpy(np.from_dlpack(tensor) if is_dlpack else np.asarray(tensor), what)


def _from_numpy(array: Array, what: str) -> Value:
    name = array.dtype.name
    if name == "bfloat16":
        # From ml_dtypes. The bits are enough.
        return _value(np.ascontiguousarray(array).view(np.dtype("uint16")).reshape(array.shape), name)
    if name not in _HELD:
        raise _unsupported(what, name)
    return _value(array, name)


def _from_torch(tensor: Any, what: str, copy: bool) -> Value:
    import torch

    with torch._C.DisableTorchFunction():
        plain = tensor.detach().resolve_conj().resolve_neg().cpu()
        if plain.is_quantized or plain.layout != torch.strided:
            raise TypeError(
                f"{what} is a quantized or sparse tensor, expected a dense one; call `.dequantize()` or `.to_dense()`"
            )
        plain = plain.contiguous()
        name = str(plain.dtype).removeprefix("torch.")
        if name == "bfloat16":
            return _value(plain.view(torch.int16).numpy().view(np.dtype("uint16")), name, copy)
        if name not in _HELD:
            raise _unsupported(what, name)
        return _value(plain.numpy(), name, copy)


def _from_mlx(array: Any, what: str) -> Value:
    import mlx.core as mx

    name = str(array.dtype).rsplit(".", 1)[-1]
    name = {"bool_": "bool"}.get(name, name)
    if name == "bfloat16":
        bits = array.view(mx.uint16) if array.ndim else array.reshape(1).view(mx.uint16).reshape(())
        return _value(np.array(bits), name)
    if name not in _HELD:
        raise _unsupported(what, name)
    return _value(np.array(array), name)


def _unsupported(what: str, name: str) -> TypeError:
    return TypeError(f"{what} is {name}, expected one of {', '.join(STORED)}")


def hand_back(value: Value, like: Any, copy: bool = True) -> Any:
    """Returns the value as a tensor of the framework and on the device of `like`.

    Without `copy`, a torch tensor on the host shows the value's own memory, if that may be written to.
    `like` is a tensor, or one of `numpy`, `torch` and `mlx`.
    """
    framework = like if isinstance(like, str) else framework_of(like)
    if framework == "torch":
        return _to_torch(value, like, copy or not value.bits.flags.writeable)
    if framework == "mlx":
        return _to_mlx(value)
    if framework == "jax":
        import jax.numpy as jnp

        return jnp.asarray(_to_numpy(value))
    if framework in ("numpy", "dlpack"):
        return _to_numpy(value)
    raise ValueError(f"`like` is `{framework}`, expected `numpy`, `torch`, `mlx` or a tensor")


def _to_numpy(value: Value) -> Array:
    if value.dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise TypeError(
                "NumPy has no bfloat16; install ml_dtypes to get bfloat16 tensors back as NumPy arrays"
            ) from error
        return np.array(value.bits.view(ml_dtypes.bfloat16), copy=True)
    return np.array(value.bits, copy=True)


def _to_torch(value: Value, like: Any, copy: bool) -> Any:
    import torch

    with torch._C.DisableTorchFunction():
        bits = value.bits.copy() if copy else value.bits
        if value.dtype == "bfloat16":
            tensor = torch.from_numpy(bits.view(np.dtype("int16"))).view(torch.bfloat16)
        else:
            tensor = torch.from_numpy(bits)
        return tensor if isinstance(like, str) else tensor.to(like.device)


def _to_mlx(value: Value) -> Any:
    import mlx.core as mx

    array_type = type(mx.zeros(()))
    if value.dtype == "bfloat16":
        return array_type(value.bits).view(_mlx_dtype("bfloat16"))
    if value.dtype == "complex128":
        raise TypeError("MLX has no complex128, so a float64 run cannot hold complex numbers")
    return array_type(value.bits, dtype=_mlx_dtype(value.dtype))


def _mlx_dtype(name: str) -> Any:
    """Returns MLX's dtype of that name, even while a float64 run replaces `mx.float32` and others."""
    from . import mlx_side

    return mlx_side.dtype(name)
