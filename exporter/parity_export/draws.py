"""Random draws: the same in every run, or different on purpose, to find goldens that depend on them."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

_OTHER = 0x9E3779B9


def seed_all(seed: int) -> None:
    """Seeds the global generators of Python and NumPy, and those of torch and MLX if they are imported."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    if "mlx.core" in sys.modules:
        sys.modules["mlx.core"].random.seed(seed)


@contextmanager
def other_draws() -> Iterator[None]:
    """Makes every generator draw other numbers inside the block, including generators that a script seeds itself.

    `torch_side` replaces torch generators that are passed to an operation.
    """

    def shifted(make: Any) -> Any:
        def made(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
            return make(seed + _OTHER if isinstance(seed, int) else seed, *args, **kwargs)

        return made

    places: list[tuple[Any, str, Any]] = [
        (np.random, "default_rng", lambda seed=None: np.random.Generator(np.random.PCG64([_OTHER, 1]))),
        (np.random, "seed", lambda seed=None: _NUMPY_SEED(_OTHER)),
        (np.random, "RandomState", lambda seed=None: _RANDOM_STATE(_OTHER)),
        (random, "seed", shifted(random.seed)),
        (random, "Random", lambda seed=None: _PYTHON_RANDOM(_OTHER)),
    ]
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        places.append((torch, "manual_seed", shifted(torch.manual_seed)))
    if "mlx.core" in sys.modules:
        mlx = sys.modules["mlx.core"].random
        places += [(mlx, "seed", shifted(mlx.seed)), (mlx, "key", shifted(mlx.key))]
    with ExitStack() as stack:
        for owner, name, value in places:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


_NUMPY_SEED, _RANDOM_STATE, _PYTHON_RANDOM = np.random.seed, np.random.RandomState, random.Random


def states() -> dict[str, Any]:
    """Returns the states of the global generators. A state that changes shows a draw."""
    legacy = np.random.get_state(legacy=False)
    found: dict[str, Any] = {
        "random": random.getstate(),
        "numpy.random": (legacy["state"]["key"].tobytes(), legacy["state"]["pos"]),
    }
    if "torch" in sys.modules:
        found["torch"] = sys.modules["torch"].random.get_rng_state().numpy().tobytes()
    if "mlx.core" in sys.modules:
        found["mlx.core.random"] = [np.array(part).tolist() for part in sys.modules["mlx.core"].random.state]
    return found


@contextmanager
def kept_draws() -> Iterator[None]:
    """Puts the global generators of Python, NumPy and torch back to their states when the block ends."""
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state(legacy=False))
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            stack.callback(torch.random.set_rng_state, torch.random.get_rng_state())
            if torch.cuda.is_initialized():
                stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        yield


@contextmanager
def numpy_in_float64() -> Iterator[None]:
    """Makes NumPy's names of narrow float types, such as `np.float32`, mean float64 inside the block."""
    wide: dict[str, type] = {"float32": np.float64, "float16": np.float64, "single": np.float64, "half": np.float64}
    wide |= {"complex64": np.complex128, "csingle": np.complex128}
    with ExitStack() as stack:
        for name, value in wide.items():
            if hasattr(np, name):
                stack.callback(setattr, np, name, getattr(np, name))
                setattr(np, name, value)
        yield
