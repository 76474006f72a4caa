"""The MLX side: watches modules and operations, sets parameters, and runs in true float64."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from . import mlx_exact
from .mlx_trace import MlxTracer
from .places import Places
from .points import STRUCTURAL, Hooking, is_layer, operation_name, place_of

if TYPE_CHECKING:
    from .collector import Collector

_ARRAY: Any = mx.array
_DTYPES = {name: getattr(mx, name) for name in ("float16", "bfloat16", "float32", "float64", "complex64")}
_DTYPES |= {f"{sign}int{bits}": getattr(mx, f"{sign}int{bits}") for sign in ("u", "") for bits in (8, 16, 32, 64)}
_DTYPES["bool"] = mx.bool_
_NARROW = ("float16", "bfloat16", "float32")

_DUNDERS = """abs add floordiv getitem iadd imatmul imul ipow isub itruediv matmul mod mul neg pow radd rmul rpow rsub
    rtruediv setitem sub truediv""".split()
_TRACED = ("T", *(f"__{name}__" for name in "eq ne lt le gt ge".split()))
_NOT_WRAPPED = frozenset(
    """array_equal async_eval broadcast_shapes can_cast checkpoint clear_cache clear_streams compile default_device
    default_stream depends device_count device_info disable_compile enable_compile eval export_function
    export_to_dot exporter from_dlpack get_active_memory get_cache_memory get_peak_memory get_printoptions grad
    import_function is_available isdtype issubdtype jvp load new_stream new_thread_local_stream
    new_thread_unsafe_stream printoptions reset_peak_memory result_type save save_gguf save_safetensors savez
    savez_compressed set_cache_limit set_default_device set_default_stream set_memory_limit set_printoptions
    set_wired_limit stream synchronize value_and_grad vjp vmap item tolist at dtype shape size ndim nbytes itemsize
    T""".split()
)


def dtype(name: str) -> Any:
    """Returns MLX's dtype of that name, even while a float64 run replaces `mx.float32` and others."""
    return _DTYPES[name]


def module_names(model: Any) -> list[str]:
    """Returns the qualified names of all modules; the model itself is `root`."""
    return [name or "root" for name, _ in model.named_modules()]


def tensors_of(model: Any) -> dict[str, Any]:
    """Returns the parameters by name."""
    from mlx.utils import tree_flatten

    return dict(tree_flatten(model.parameters()))


def load_into(model: Any, tensors: Mapping[str, Any], is_float64: bool) -> Any:
    """Sets the parameters in place and returns the model. In a float64 run `tensors` are float64 already."""
    from mlx.utils import tree_unflatten

    model.update(tree_unflatten(list(tensors.items())))
    return model


def attach(hooking: Hooking, model: Any, stack: ExitStack) -> None:
    """Watches calls of the model's modules by patching their classes, because MLX has no hooks."""
    if hooking.sees_inside:
        # MLX traces a compiled function once and runs it without Python, so its operations would be missed.
        mx.disable_compile()
        stack.callback(mx.enable_compile)
    sources = hooking.recorder.sources
    kinds = {name or "root": type(module) for name, module in model.named_modules()}
    points: dict[int, tuple[str, str]] = {}
    for name, module in model.named_modules():
        kind = type(module)
        point = name or "root"
        if hooking.rules.wants(point):
            sources.add(kind)
        points[id(module)] = (point, place_of(point, kinds, sources))
    for kind in {type(module) for _, module in model.named_modules()}:
        call = _own_call(kind)
        if call is not None:
            _patch(stack, kind, "__call__", _watched_call(hooking, call, points, is_layer(kind)))


def _own_call(kind: Any) -> Any:
    """Returns the `__call__` that a class or one of its bases defines; none if instances cannot be called."""
    return kind.__call__ if any("__call__" in vars(base) for base in kind.__mro__) else None


def _watched_call(
    hooking: Hooking, call: Any, points: Mapping[int, tuple[str, str]], layer: bool
) -> Callable[..., Any]:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in points:
            return call(self, *args, **kwargs)
        point, place = points[id(self)]
        hooking.enter(point, layer, functools.partial(call, self), args, kwargs, place)
        output = call(self, *args, **kwargs)
        hooking.leave(point, output, place)
        return output

    return __call__


def watch(recorder: Collector, stack: ExitStack) -> None:
    """Watches every operation of a run. In a float64 run, operations compute in float64."""
    if recorder.is_float64:
        stack.callback(mx.set_default_device, mx.default_device())
        # Only the CPU supports float64, and operations inside a compiled function would be missed.
        mx.set_default_device(mx.cpu)
        mx.disable_compile()
        stack.callback(mx.enable_compile)
    tracer = None
    if recorder.tracing is not None:
        tracer = recorder.tracing.tracers["mlx"] = MlxTracer(recorder.tracing.recipe, Places(recorder.sources))
        # These are no points that a hook can record.
        for name in _TRACED:
            _patch(stack, _ARRAY, name, _traced(tracer, name, getattr(_ARRAY, name)))
    for module in (mx, mx.fast, mx.linalg, mx.random, mx.fft):
        for name in dir(module):
            held = getattr(module, name)
            if type(held).__name__ == "nb_func" and name not in _NOT_WRAPPED and not name.startswith("_"):
                label = name if module in (mx, mx.fast) else f"{module.__name__.rsplit('.', 1)[-1]}.{name}"
                _patch(stack, module, name, _watched(recorder, tracer, label, held))
    for name in [f"__{name}__" for name in _DUNDERS] + [name for name in dir(_ARRAY) if not name.startswith("_")]:
        held = getattr(_ARRAY, name, None)
        if callable(held) and name not in _NOT_WRAPPED:
            _patch(stack, _ARRAY, name, _watched(recorder, tracer, name, held))
    if recorder.is_float64:
        for name in _NARROW:
            _patch(stack, mx, name, _DTYPES["float64"])
        _patch(stack, mx, "array", _wide_array())


def _traced(tracer: MlxTracer, name: str, held: Any) -> Any:
    """Returns a property or a comparison that only the tracer sees."""
    call: Any = held.fget if isinstance(held, property) else held

    def traced(*args: Any) -> Any:
        tracer.before(args, {})
        output = call(*args)
        tracer.after(name, args, {}, output)
        return output

    return property(traced) if isinstance(held, property) else traced


def _watched(recorder: Collector, tracer: MlxTracer | None, label: str, held: Any) -> Callable[..., Any]:
    name = operation_name(label)

    def watched(*args: Any, **kwargs: Any) -> Any:
        for array in _flat((args, kwargs)):
            recorder.used(array)
        given = (args, kwargs)
        if tracer is not None:
            tracer.before(*given)
        if not recorder.is_float64:
            output = held(*args, **kwargs)
        else:
            args, kwargs = _widened(args), _widened(kwargs)
            output = _in_float64(recorder, name, held, args, kwargs)
            if label not in ("__setitem__", "view"):
                output = _widened(output)
        if tracer is not None:
            tracer.after(label, *given, output)
        # Operations that MLX's own Python code calls are internal to its layers and functions.
        is_own = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("mlx.")
        if recorder.hooks.sees_inside and not is_own and _is_concrete(output):
            recorder.hooks.operation(label, args, kwargs, output)
        return output

    return watched


def _is_concrete(output: Any) -> bool:
    """Whether arrays have values. MLX traces a transformed function with arrays that have none."""
    try:
        _EVAL(output)
    except ValueError:
        return False
    return True


def _in_float64(recorder: Collector, name: str, held: Any, args: Any, kwargs: Any) -> Any:
    """Runs an operation in float64. After the first operation without true float64, goldens have no floor."""
    exact = mlx_exact.REPLACED.get(name)
    if exact is not None and any("float64" in str(array.dtype) for array in _flat((args, kwargs))):
        return exact(*args, **kwargs)
    if name in STRUCTURAL or name in mlx_exact.exact_operations():
        return held(*args, **kwargs)
    # In float32: MLX aborts the process when a kernel does not support float64.
    output = held(*_narrowed(args), **_narrowed(kwargs))
    is_float = any("float" in str(array.dtype) or "complex" in str(array.dtype) for array in _flat(output))
    # Draws and the quantization of fresh weights happen before the first input, and pinned tensors replace them.
    is_prepared = name.startswith("random.") or (name == "quantize" and not recorder.handed)
    if recorder.distrusted is None and is_float and not is_prepared:
        recorder.distrusted = f"MLX does not compute `{name}` in true float64"
    return output


def _wide_array() -> Any:
    """Returns a stand-in for `mx.array` in a float64 run. Floats become float64, and `isinstance` still works."""

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, _ARRAY)

        def __call__(cls, value: Any = (), dtype: Any = None) -> Any:
            made = _ARRAY(value) if dtype is None else _ARRAY(value, dtype=dtype)
            if dtype is None and str(made.dtype).rsplit(".", 1)[-1] in _NARROW and not isinstance(value, _ARRAY):
                # Built from the original value: widening the float32 array would keep its rounding.
                return _ARRAY(value, dtype=_DTYPES["float64"])
            return made

        def __getattr__(cls, name: str) -> Any:
            return getattr(_ARRAY, name)

    return Meta("array", (), {})


def _widened(thing: Any) -> Any:
    if isinstance(thing, _ARRAY):
        narrow = str(thing.dtype).rsplit(".", 1)[-1] in _NARROW
        return _ASTYPE(thing, _DTYPES["float64"]) if narrow else thing
    if type(thing) in (tuple, list):
        return type(thing)(_widened(part) for part in thing)
    if type(thing) is dict:
        return {key: _widened(part) for key, part in thing.items()}
    return _DTYPES["float64"] if any(thing is _DTYPES[name] for name in _NARROW) else thing


def _narrowed(thing: Any) -> Any:
    if isinstance(thing, _ARRAY):
        return _ASTYPE(thing, _DTYPES["float32"]) if thing.dtype == _DTYPES["float64"] else thing
    if type(thing) in (tuple, list):
        return type(thing)(_narrowed(part) for part in thing)
    if type(thing) is dict:
        return {key: _narrowed(part) for key, part in thing.items()}
    return _DTYPES["float32"] if thing is _DTYPES["float64"] else thing


_ASTYPE = _ARRAY.astype
_EVAL = mx.eval


def _flat(thing: Any) -> Iterator[Any]:
    if isinstance(thing, _ARRAY):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from _flat(part)
    elif type(thing) is dict:
        for part in thing.values():
            yield from _flat(part)


def _patch(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, type) and name not in vars(owner):
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
