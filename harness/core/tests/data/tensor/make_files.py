"""Writes the files that the readers are tested against, and expected.json with what is in them.

    pip install numpy==2.4.6 safetensors==0.8.0 ml_dtypes==0.6.0 mlx==0.32.2 mlx-cpu==0.32.2
    python make_files.py

Every file is written by the library it is named after, so that a reader is held to what is really out there.
expected.json has, for each file, its tensors in the order of the file, each with dtype, shape and the elements as
row-major, little-endian bytes in hexadecimal.
"""

import io
import json
import pathlib
import zipfile

import ml_dtypes
import mlx.core as mx
import numpy as np
import safetensors.numpy

HERE = pathlib.Path(__file__).parent
EXPECTED = {}

NUMPY = {
    "bool": np.bool_, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64, "complex64": np.complex64,
}
MLX = {name: getattr(mx, "bool_" if name == "bool" else name) for name in NUMPY}


def values(name, shape):
    """Values that differ by element and use the ends of the dtype's range."""
    count = int(np.prod(shape))
    dtype = NUMPY[name]
    if name == "bool":
        flat = np.arange(count) % 3 == 0
    elif name.startswith(("int", "uint")):
        flat = np.arange(count).astype(dtype)
        ends = [np.iinfo(dtype).min, np.iinfo(dtype).max]
        flat[: min(2, count)] = ends[: min(2, count)]
    elif name == "complex64":
        flat = (np.arange(count) * 0.5 - 1j * np.arange(count)).astype(dtype)
    else:
        flat = (np.arange(count) * 0.75 - 1).astype(dtype)
        if count > 3:
            flat[1:4] = [np.inf, -0.0, np.nan]
    return flat.reshape(shape)


def entry(name, array):
    array = np.asarray(array)
    dtype = next(n for n, t in NUMPY.items() if array.dtype.newbyteorder("=") == np.dtype(t))
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).reshape(array.shape)
    return {"name": name, "dtype": dtype, "shape": list(array.shape), "bytes": little.tobytes().hex()}


def expect(file, tensors, order=None):
    names = order if order is not None else list(tensors)
    EXPECTED[file] = [entry(name, tensors[name]) for name in names]


def npz_order(file):
    return [name.removesuffix(".npy") for name in zipfile.ZipFile(HERE / file).namelist()]


def safetensors_order(file):
    raw = (HERE / file).read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return [name for name in header if name != "__metadata__"]


def to_mlx(name, array):
    if name == "bfloat16":
        return mx.array(np.asarray(array, np.float32)).astype(mx.bfloat16)
    # MLX computes float64 on the CPU only.
    with mx.stream(mx.cpu):
        return mx.array(array, dtype=MLX[name])


def save_npy(file, array, version=None):
    with open(HERE / file, "wb") as out:
        np.lib.format.write_array(out, array, version=version)
    expect(file, {file.removesuffix(".npy"): array})


def numpy_files():
    for name in NUMPY:
        save_npy(f"numpy_{name}.npy", values(name, (2, 3)))
    for version in (1, 2, 3):
        save_npy(f"numpy_v{version}.npy", values("float32", (3, 2)), (version, 0))
    save_npy("numpy_fortran.npy", np.asfortranarray(values("int32", (2, 3, 4))))
    save_npy("numpy_scalar.npy", np.array(2.5, np.float64))
    save_npy("numpy_empty.npy", np.zeros((3, 0, 2), np.float32))
    for name, descr in {"int16": ">i2", "uint64": ">u8", "float32": ">f4", "complex64": ">c8"}.items():
        save_npy(f"numpy_big_{name}.npy", values(name, (2, 3)).astype(descr))
    save_npy("numpy_big_fortran.npy", np.asfortranarray(values("float64", (3, 4)).astype(">f8")))

    tensors = {name: values(name, (2, 3)) for name in NUMPY}
    tensors["layers/0/out"] = np.asfortranarray(values("float32", (4, 5)))
    tensors["scalar"] = np.array(7, np.int64)
    tensors["empty"] = np.zeros((0, 4), np.float16)
    tensors["zeros"] = np.zeros((64, 64), np.float32)
    small = {name: tensor for name, tensor in tensors.items() if name != "zeros"}
    np.savez(HERE / "numpy_stored.npz", **small)
    expect("numpy_stored.npz", small, npz_order("numpy_stored.npz"))
    # The elements of `zeros` are too many to write out; the test knows that they are zero.
    np.savez_compressed(HERE / "numpy_deflated.npz", **tensors)
    expect("numpy_deflated.npz", tensors, npz_order("numpy_deflated.npz"))
    for tensor in EXPECTED["numpy_deflated.npz"]:
        if tensor["name"] == "zeros":
            tensor["bytes"] = None


def safetensors_files():
    tensors = {name: values(name, (2, 3)) for name in NUMPY}
    tensors["scalar"] = np.array(1.5, np.float32)
    tensors["empty"] = np.zeros((2, 0), np.float64)
    file = "safetensors_all.safetensors"
    safetensors.numpy.save_file(tensors, HERE / file, metadata={"order": "as called", "made": "by hand"})
    expect(file, tensors, safetensors_order(file))


def mlx_files():
    arrays = {name: values(name, (2, 3)) for name in NUMPY}
    for name, array in arrays.items():
        file = f"mlx_{name}.npy"
        mx.save(str(HERE / file), to_mlx(name, array))
        expect(file, {file.removesuffix(".npy"): array})
    mx.save(str(HERE / "mlx_scalar.npy"), mx.array(2.5))
    expect("mlx_scalar.npy", {"mlx_scalar": np.array(2.5, np.float32)})
    mx.save(str(HERE / "mlx_transposed.npy"), to_mlx("float32", values("float32", (2, 3))).T)
    expect("mlx_transposed.npy", {"mlx_transposed": values("float32", (2, 3)).T})
    some = {name: arrays[name] for name in ("bfloat16", "float32", "complex64", "bool", "int64")}
    for file, save in {"mlx_stored.npz": mx.savez, "mlx_deflated.npz": mx.savez_compressed}.items():
        save(str(HERE / file), **{name: to_mlx(name, array) for name, array in some.items()})
        expect(file, some, npz_order(file))
    # MLX refuses float64 in safetensors.
    writable = {name: array for name, array in arrays.items() if name != "float64"}
    file = "mlx_all.safetensors"
    mx.save_safetensors(str(HERE / file), {n: to_mlx(n, a) for n, a in writable.items()}, {"format": "mlx"})
    expect(file, writable, safetensors_order(file))


def refused_files():
    """Files that are whole and valid, and hold what no tensor here can."""
    refused = {
        "refused_object.npy": np.array([None, "a"], object),
        "refused_strings.npy": np.array(["ab", "c"]),
        "refused_bytes.npy": np.array([b"ab", b"c"]),
        "refused_structured.npy": np.zeros(2, [("a", "<f4"), ("b", "<i4", (2,))]),
        "refused_float8.npy": np.zeros(2, ml_dtypes.float8_e4m3fn),
        "refused_longdouble.npy": np.zeros(2, np.longdouble),
        "refused_complex128.npy": np.zeros(2, np.complex128),
        "refused_void.npy": np.zeros(2, "V2"),
        "refused_datetime.npy": np.zeros(2, "<M8[ns]"),
    }
    for file, array in refused.items():
        with open(HERE / file, "wb") as out:
            np.lib.format.write_array(out, array, allow_pickle=True)
    with zipfile.ZipFile(HERE / "refused_lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        member = io.BytesIO()
        np.save(member, np.zeros(4, np.float32))
        archive.writestr("a.npy", member.getvalue())


numpy_files()
safetensors_files()
mlx_files()
refused_files()
with open(HERE / "expected.json", "w") as out:
    lines = [f"{json.dumps(file)}: [\n  " + ",\n  ".join(map(json.dumps, tensors)) + "]" for file, tensors in EXPECTED.items()]
    out.write("{" + ",\n".join(lines) + "}\n")
print(len(EXPECTED), "files")
