"""Blocks of a torch model: which modules they are, what a call of one receives, and its run in float64."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from .blocks import Call
from .collector import Stopped
from .points import leaves
from .torch_float64 import default_to_float64, patch, widened

if TYPE_CHECKING:
    from .blocks import Blocks

_LISTS = (torch.nn.ModuleList, torch.nn.ModuleDict)


def named_modules(model: Any) -> list[tuple[str, Any]]:
    """Returns the modules by qualified name; the model itself is `root`."""
    return [(name or "root", module) for name, module in model.named_modules()]


def block_names(model: Any) -> list[str]:
    """Returns the items of the outermost lists of modules, and the modules beside these lists.

    Without a list, the model itself is the only block.
    """

    def found(module: Any, name: str) -> Iterator[str]:
        is_list = isinstance(module, _LISTS)
        if not is_list and not any(isinstance(part, _LISTS) for part in module.modules()):
            yield name or "root"
            return
        for own, child in module.named_children():
            full = f"{name}.{own}" if name else own
            if is_list and not isinstance(child, _LISTS):
                yield full
            else:
                yield from found(child, full)

    return list(found(model, ""))


def watch_blocks(blocks: Blocks) -> None:
    """Hooks all blocks, after every other hook of their modules, so that their goldens are recorded before they run."""
    for handle in blocks.handles:
        handle.remove()
    blocks.handles.clear()

    def before(module: Any, args: Any, kwargs: Any) -> None:
        # A copy of a model has the hooks of the model, but its modules are not blocks.
        if blocks.is_running or blocks.recorder.hooks.is_quiet or id(module) not in blocks.attached:
            return
        if blocks.active is None:
            blocks.active = _call(blocks, module, args, kwargs)
        elif blocks.active.module is module:
            blocks.active.depth += 1

    def after(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        call = blocks.active
        if blocks.is_running or call is None or call.module is not module:
            return
        if call.depth:
            call.depth -= 1
            return
        blocks.active = None
        if sys.exc_info()[1] is call.error:
            blocks.measure(call, output)

    # Several models may hold one block.
    seen: set[int] = set()
    for model in blocks.models:
        for module in model.modules():
            if id(module) in blocks.attached and id(module) not in seen:
                seen.add(id(module))
                blocks.handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                # Also after an exception, so that a failed call of a block does not count as the caller of the next.
                blocks.handles.append(module.register_forward_hook(after, with_kwargs=True, always_call=True))


def _call(blocks: Blocks, module: Any, args: Any, kwargs: Any) -> Call:
    recorder, name = blocks.recorder, blocks.attached[id(module)]
    computed = any(
        recorder.handed.get(id(tensor), (None, None))[1] is not tensor for _, tensor in leaves((args, kwargs))
    )
    opaque = any(not _is_plain(part) for part in (*args, *kwargs.values()))
    again = id(module) in blocks.called
    blocks.called.add(id(module))
    problem, copies, state = None, (args, kwargs), {}
    with recorder.hooks.quiet(), torch._C.DisableTorchFunction(), torch.no_grad(), _copying_tensors():
        memo: dict[int, Any] = {}
        try:
            copies = copy.deepcopy((args, kwargs), memo)
            state = {part: _state_of(part, memo) for part in module.modules()}
        except Exception as error:
            problem = f"block `{name}` holds or receives an object that cannot be copied: {error}"
    return Call(
        name,
        module,
        *copies,
        state,
        is_local=computed or opaque or again,
        attempts=dict(recorder._attempts),
        choices=dict(recorder.choices_met),
        problem=problem,
        error=sys.exc_info()[1],
    )


def _is_plain(thing: Any) -> bool:
    """Whether a value holds no tensors but those that `leaves` finds."""
    if isinstance(thing, (tuple, list)):
        return all(_is_plain(part) for part in thing)
    if isinstance(thing, Mapping):
        return all(_is_plain(part) for part in thing.values())
    return thing is None or isinstance(thing, (torch.Tensor, str, int, float, complex, torch.dtype, torch.device))


def _state_of(module: Any, memo: dict[int, Any]) -> dict[str, Any]:
    """Returns the attributes of a module for its float64 run: tensors and lists are copies, which it may change."""
    own = dict(vars(module))
    own["_buffers"] = {key: copy.deepcopy(buffer, memo) for key, buffer in module._buffers.items()}
    for key, value in own.items():
        if isinstance(value, torch.Tensor) or (type(value) in (list, dict, set) and not key.startswith("_")):
            own[key] = copy.deepcopy(value, memo)
    return own


@contextmanager
def _copying_tensors() -> Iterator[None]:
    """Makes `copy.deepcopy` return tensors of narrow floats in float64, and parameters and modules as they are."""

    def tensor(own: Any, memo: dict[int, Any]) -> Any:
        wide = widened(own.detach())
        memo[id(own)] = wide if wide.dtype != own.dtype else wide.clone()
        return memo[id(own)]

    def same(own: Any, memo: dict[int, Any]) -> Any:
        return own

    with ExitStack() as stack:
        patch(stack, torch.Tensor, "__deepcopy__", tensor)
        patch(stack, torch.nn.Parameter, "__deepcopy__", same)
        if hasattr(torch.nn.Module, "__deepcopy__"):
            patch(stack, torch.nn.Module, "__deepcopy__", same)
        else:
            stack.callback(delattr, torch.nn.Module, "__deepcopy__")
            setattr(torch.nn.Module, "__deepcopy__", same)  # noqa: B010
        yield


def version_of(tensor: Any) -> int | None:
    """Returns a number that changes when a tensor is written to; none if torch does not count this."""
    return None if tensor.is_inference() else int(tensor._version)


def run_block(call: Call) -> Any:
    """Calls a block in float64, with the module's state of before, and restores the state that the reference left.

    A call that the reference did not finish, because it stopped inside, stops at the same golden and returns nothing.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        default_to_float64(stack)
        for module, own in call.state.items():
            left = dict(vars(module))
            stack.callback(_set_state, module, left)
            _set_state(module, own)
        try:
            return call.module(*call.args, **call.kwargs)
        except Stopped:
            return None


def _set_state(module: Any, attributes: dict[str, Any]) -> None:
    held = vars(module)
    held.clear()
    held.update(attributes)
