"""Traces a torch reference: every call of the torch API becomes nodes of a recipe.

A tensor is identified by its storage and the elements it shows, so a view, a tied weight or a second Python object
finds the same node. A weak reference to the storage keeps its address from being used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .numpy_trace import TracedArray, plain
from .places import Places
from .recipe import MAX_CONSTANT, Operand, Recipe, Unknown, number_of
from .torch_rules import GEOMETRY, RULES
from .values import host
from .views import Geometry, relate

# Tests set this, to see errors of the tracer. Otherwise it gives up on one operation and never stops an export.
STRICT = False
_SWEEP = 4096
_RANDOM = frozenset(
    """rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson uniform
    exponential geometric cauchy log_normal random dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d
    dropout3d kaiming_uniform kaiming_normal xavier_uniform xavier_normal trunc_normal orthogonal rrelu""".split()
)
_SAME_ARGUMENTS = {"axis": "dim", "keepdims": "keepdim", "self": "input"}


@dataclass
class _Storage:
    """The nodes of the tensors that show parts of one storage. `broken` is why other parts are unknown."""

    alive: Any
    nodes: dict[Geometry, int] = field(default_factory=dict)
    broken: str | None = None

    def base(self) -> Geometry | None:
        """Returns the geometry with the most elements, the first of them."""
        return max(self.nodes, key=lambda geometry: geometry.count, default=None)


class TorchTracer:
    """Adds the operations of one run to a recipe."""

    def __init__(self, recipe: Recipe, places: Places):
        self.recipe = recipe
        self._places = places
        self._storages: dict[int, _Storage] = {}
        self._held: dict[int, int] = {}
        self._versions: list[tuple[Any, int]] = []
        self.place: tuple[str, int] | None = None
        self.out: Any = None

    # What the recorder calls.

    def bind(self, tensor: Any, node: int) -> Any:
        """Notes that a tensor has the value of a node, and returns it."""
        with torch._C.DisableTorchFunction():
            self._storage(tensor).nodes[Geometry.of(tensor)] = node
        return tensor

    def node_of(self, tensor: Any) -> int:
        """Returns the node of a tensor's present value. A tensor without history becomes a constant, or unknown."""
        with torch._C.DisableTorchFunction():
            self.place = self._places.here()
            return self.node(tensor)

    def reading(self, from_numpy: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns `torch.from_numpy`, which no watching mode sees, such that it keeps the history of the array."""

        def called(array: Any) -> Any:
            tensor = from_numpy(plain(array))
            with torch._C.DisableTorchFunction(), self._sparing():
                self.place = self._places.here()
                node = self.of_numpy(array, tensor)
                if node is not None:
                    self.bind(tensor, node)
            return tensor

        return called

    # What the watching mode calls, before and after an operation.

    def before(self, args: Any, kwargs: Any) -> None:
        """Looks up the operands: an operation in place changes them."""
        self.place = self._places.here()
        self._held, self._versions = {}, []
        with self._sparing():
            for tensor in flat((args, kwargs)):
                self._held[id(tensor)] = self.node(tensor)
                if not tensor.is_inference():
                    self._versions.append((tensor, tensor._version))

    def after(self, func: Any, name: str, args: Any, kwargs: Any, output: Any) -> None:
        """Adds the nodes of an operation."""
        try:
            self._after(func, name, args, kwargs, output)
        except Exception:
            if STRICT:
                raise
            # Nothing is known about these any more. A tensor that cannot be looked up is not recorded anywhere.
            with self._sparing():
                for tensor in flat((output, args[:1])):
                    self.forget(tensor, f"uses `{name}`, which could not be traced")
        finally:
            self._held, self._versions = {}, []
            self.out = None

    # What the rules call.

    def node(self, tensor: Any) -> int:
        """Returns the node of a tensor."""
        held = self._held.get(id(tensor))
        if held is not None:
            return held
        geometry = Geometry.of(tensor)
        storage = self._storages.get(tensor.untyped_storage()._cdata)
        if storage is None:
            return self.constant(tensor)
        if geometry not in storage.nodes:
            base = storage.base()
            view = relate(base, geometry) if base is not None else None
            if view is not None:
                assert base is not None
                storage.nodes[geometry] = view.read(self.add, storage.nodes[base])
            else:
                why = storage.broken or "shows the elements of another tensor in a way that recipes do not know"
                return self.unknown(why)
        return storage.nodes[geometry]

    def of(self, operand: Any) -> Operand:
        """Returns an operand: the node of a tensor, a literal for a number, and none for none."""
        if operand is None:
            return None
        if isinstance(operand, torch.Tensor):
            return self.node(operand)
        if isinstance(operand, complex):
            return self.add("complex", [[number_of(operand.real)], [number_of(operand.imag)]])
        return [number_of(operand)]

    def add(self, op: str, inputs: list[Operand], **attributes: Any) -> int:
        return self.recipe.add(op, inputs, attributes, self.place)

    def unknown(self, why: str) -> int:
        return self.add("unknown", [], why=why)

    def constant(self, tensor: Any) -> int:
        """Returns the node of a tensor without history."""
        if tensor.numel() > MAX_CONSTANT:
            node = self.unknown(f"a tensor of {tensor.numel()} elements has no history")
        else:
            try:
                node = self.recipe.constant(host(tensor), self.place)
            except (TypeError, NotImplementedError, RuntimeError) as error:
                node = self.unknown(f"a tensor without history cannot be stored: {error}")
        self._storage(tensor).nodes[Geometry.of(tensor)] = node
        return node

    def of_numpy(self, array: Any, tensor: Any) -> int | None:
        """Returns the node of a tensor that was made from a traced array; none if the array's history has a gap."""
        if not isinstance(array, TracedArray) or tensor.is_complex():
            return None
        node = int(array._tracer.node(array))
        # A constant is better than a history with a gap.
        if self.recipe.has_gap(node):
            return None
        name = str(tensor.dtype).removeprefix("torch.")
        return node if name == array.dtype.name else self.add("cast", [node], dtype=name)

    def forget(self, tensor: Any, why: str) -> None:
        """Makes a tensor unknown, and with it all tensors that show the same elements."""
        storage = self._storage(tensor)
        storage.nodes, storage.broken = {}, why

    # How it works.

    def _after(self, func: Any, name: str, args: Any, kwargs: Mapping[str, Any], output: Any) -> None:
        if name == "__get__":
            name = f"get_{getattr(getattr(func, '__self__', None), '__name__', '')}"
        target = written_to(name, args, kwargs, output)
        self._find_changed(name, target)
        results = [target] if target is not None else list(flat(output))
        if not results:
            return
        self.out = output
        given = {_SAME_ARGUMENTS.get(key, key): value for key, value in kwargs.items() if key not in ("out", "inplace")}
        try:
            nodes = self._nodes(func, name, args, given)
            if len(nodes) != len(results):
                raise Unknown(f"uses `{_shown(name)}`, which recipes do not know")
        except Unknown as unknown:
            nodes = [self.unknown(str(unknown)) for _ in results]
        if target is not None:
            self._write(target, nodes[0])
            return
        for tensor, node in zip(results, nodes, strict=True):
            # A view with the elements of a known tensor is that tensor.
            self._storage(tensor).nodes.setdefault(Geometry.of(tensor), node)

    def _nodes(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> list[int]:
        plain = _plain_name(name)
        rule = RULES.get(plain)
        is_known = str(getattr(func, "__module__", None) or "torch").split(".")[0] == "torch"
        if rule is None or not is_known:
            if plain in _RANDOM:
                raise Unknown("comes from a random draw that is not an input")
            raise Unknown(f"uses `{_shown(name)}`, which recipes do not know")
        try:
            made = rule(self, *args, **kwargs)
        except Unknown:
            raise
        except Exception as error:
            if STRICT and not isinstance(error, TypeError):
                raise
            raise Unknown(f"uses `{_shown(name)}` in a way that recipes do not know") from error
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def _write(self, target: Any, node: int) -> None:
        """Notes that a tensor was changed in place, and with it all tensors that show the same elements."""
        storage, geometry = self._storage(target), Geometry.of(target)
        base = storage.base()
        if base is None or base == geometry or geometry.count >= base.count:
            storage.nodes = {geometry: node}
            return
        view = relate(base, geometry)
        if view is None:
            storage.nodes, storage.broken = {geometry: node}, "was changed in place in a way that recipes do not know"
            return
        whole = view.write(self.add, storage.nodes[base], node)
        storage.nodes = {base: whole, geometry: node}

    def _find_changed(self, name: str, target: Any) -> None:
        """Forgets operands that an operation changed besides its target."""
        if name in GEOMETRY:
            return
        own = None if target is None else target.untyped_storage()._cdata
        for tensor, version in self._versions:
            if tensor._version != version and tensor.untyped_storage()._cdata != own:
                self.forget(tensor, f"was changed in place by `{_shown(name)}`")

    @contextmanager
    def _sparing(self) -> Iterator[None]:
        """Ignores errors: a tensor of a special kind may have no storage."""
        try:
            yield
        except Exception:
            if STRICT:
                raise

    def _storage(self, tensor: Any) -> _Storage:
        held = tensor.untyped_storage()
        found = self._storages.get(held._cdata)
        if found is None:
            if len(self._storages) % _SWEEP == _SWEEP - 1:
                self._storages = {key: one for key, one in self._storages.items() if not one.alive.expired()}
            found = self._storages[held._cdata] = _Storage(StorageWeakRef(held))
        return found


def written_to(name: str, args: Any, kwargs: Mapping[str, Any], output: Any) -> Any:
    """Returns the tensor that an operation changes in place; none if it changes none."""
    out = kwargs.get("out")
    if out is not None:
        return out if isinstance(out, torch.Tensor) else None
    first = args[0] if args else kwargs.get("input", kwargs.get("tensor"))
    if not isinstance(first, torch.Tensor):
        return None
    if name == "__setitem__" or (name.startswith("__i") and name[3:-2] in _IN_PLACE_OPERATORS):
        return first
    if name.endswith("_") and not name.endswith("__"):
        return None if name in GEOMETRY else first
    return first if kwargs.get("inplace") is True and output is first else None


_IN_PLACE_OPERATORS = frozenset("add sub mul truediv floordiv div mod pow and or xor".split())


def _plain_name(name: str) -> str:
    if name.startswith("__i") and name[3:-2] in _IN_PLACE_OPERATORS:
        return f"__{name[3:]}"
    if name.endswith("_") and not name.endswith("__") and name not in RULES:
        return name[:-1]
    return name


def _shown(name: str) -> str:
    return name if name.startswith(("__", "get_")) else f"torch.{name}"


def flat(thing: Any) -> Iterator[Any]:
    """Returns the tensors in nested tuples, lists and dictionaries."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from flat(part)
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from flat(part)
