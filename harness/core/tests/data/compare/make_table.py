"""Writes allclose.json: what NumPy says about pairs of edge cases, for every dtype.

Usage: python make_table.py > allclose.json      (needs numpy and ml_dtypes)

Floats are widened to float64, and complex64 to complex128, before `numpy.isclose` sees them: that is what "as numpy
means it" stands for here, since NumPy itself would compute in the narrow dtype. Integers and bools go through NumPy's
own operators over Python's unbounded fractions, since `isclose` would round them to float64; wherever float64 holds
everything exactly the two are checked to agree.

For each dtype: `values`, as the hexadecimal of their little-endian bytes; `pairs` of indices into them, expected first;
and `rows`, each with its tolerances and, for every pair in order, 1 if it is close and 0 if not.
"""

import itertools
import json
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np

TOLERANCES = [
    (0.0, 0.0),
    (1e-5, 1e-8),
    (1e-5, 0.0),
    (0.0, 1e-5),
    (1e-2, 1e-2),
    (0.5, 0.0),
    (1.0, 0.0),
    (0.1, 1.0),
    (0.0, 5e-324),
    (1e-300, 0.0),
    (0.0, 1e300),
    (3.0, 1e19),
]

FLOATS = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}
INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]


def float_edges(dtype):
    info = ml_dtypes.finfo(dtype)
    one = dtype(1)
    up = np.nextafter(one, dtype(2))
    bits = np.uint64 if dtype == np.float64 else np.uint32 if dtype == np.float32 else np.uint16
    third = dtype(1 / 3)
    neighbour = (np.array(third).view(bits) + bits(1)).view(dtype)[()]
    largest_subnormal = (np.array(info.smallest_normal, dtype).view(bits) - bits(1)).view(dtype)[()]
    positive = [
        dtype(0), info.smallest_subnormal, largest_subnormal, info.smallest_normal, dtype(1e-5), dtype(1e-3), third,
        neighbour, dtype(0.5), one, up, dtype(1.01), dtype(1.5), dtype(2), dtype(100), dtype(101), info.max, dtype("inf"),
    ]
    values = [dtype(x) for x in positive] + [dtype(-x) for x in positive] + [dtype("nan")]
    return np.array(values, dtype)


def integer_edges(dtype):
    info = np.iinfo(dtype)
    wanted = [0, 1, 2, 3, 7, 9, 10, 11, 100, 101, 110, -1, -2, -10, -11]
    wanted += [2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**63 + 1]
    wanted += [info.min, info.min + 1, info.max // 2, info.max // 2 + 1, info.max - 1, info.max]
    return np.array(sorted({x for x in wanted if info.min <= x <= info.max}), dtype)


def complex_edges():
    parts = np.array([0, -1, 1, 1.00001, 3, 4, 1e-40, 1e38, np.inf, -np.inf, np.nan], np.float32)
    return np.array([complex(re, im) for re, im in itertools.product(parts, parts)], np.complex64)


def exactly(expected, actual, rtol, atol):
    wide = lambda values: np.array([Fraction(int(x)) for x in values], dtype=object)
    expected, actual = wide(expected), wide(actual)
    return np.less_equal(np.abs(actual - expected), Fraction(atol) + Fraction(rtol) * np.abs(expected)).astype(bool)


def table(edges, close, flags):
    pairs = list(itertools.product(range(len(edges)), repeat=2))
    if len(pairs) > 1500:
        # Every element against itself, its neighbours and a spread of others.
        pairs = [p for i, p in enumerate(pairs) if p[0] == p[1] or i % 9 == 0]
    expected, actual = edges[[e for e, _ in pairs]], edges[[a for _, a in pairs]]
    hexes = [x.tobytes().hex() for x in edges]
    rows = []
    for (rtol, atol), flag in itertools.product(TOLERANCES, flags):
        verdicts = "".join("01"[int(x)] for x in close(expected, actual, rtol, atol, flag))
        rows.append({"rtol": rtol, "atol": atol, "equal_nan": flag, "close": verdicts})
    return {"values": hexes, "pairs": pairs, "rows": rows}


def isclose(wide):
    def close(expected, actual, rtol, atol, flag):
        with np.errstate(all="ignore"):
            return np.isclose(actual.astype(wide), expected.astype(wide), rtol, atol, equal_nan=flag)
    return close


def integer_close(expected, actual, rtol, atol, _):
    exact = exactly(expected, actual, rtol, atol)
    small = (np.abs(expected.astype(object)) < 2**40) & (np.abs(actual.astype(object)) < 2**40)
    small = small.astype(bool)
    if atol >= 1e-300 or atol == 0:
        rounded = np.isclose(actual.astype(np.float64), expected.astype(np.float64), rtol, atol)
        # 0.7 * 10 rounds up to 7 in float64 and is a little less in truth: the two may differ on the bound itself.
        on_bound = np.abs(np.abs(actual.astype(float) - expected.astype(float)) - (atol + rtol * np.abs(expected.astype(float))))
        clear = small & (on_bound > 1e-9)
        assert (rounded[clear] == exact[clear]).all()
    return exact


def main():
    tables = {}
    for name, dtype in FLOATS.items():
        tables[name] = table(float_edges(dtype), isclose(np.float64), [False, True])
    for name in INTEGERS:
        tables[name] = table(integer_edges(np.dtype(name)), integer_close, [False])
    tables["bool"] = table(np.array([False, True]), integer_close, [False])
    tables["complex64"] = table(complex_edges(), isclose(np.complex128), [False, True])
    versions = {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__}
    lines = [f" {json.dumps(name)}: {json.dumps(rows, separators=(',', ':'))}" for name, rows in tables.items()]
    sys.stdout.write('{\n "made_with": ' + json.dumps(versions) + ",\n" + ",\n".join(lines) + "\n}\n")


main()
