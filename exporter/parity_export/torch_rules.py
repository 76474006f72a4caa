"""All rules: how torch's functions, methods and properties become nodes of a recipe."""

from __future__ import annotations

from . import torch_forms, torch_indexing, torch_layers, torch_made, torch_maths, torch_reductions, torch_signal
from .torch_rule import RULES

# Each of these modules adds its rules when it is imported.
MODULES = (torch_forms, torch_indexing, torch_layers, torch_made, torch_maths, torch_reductions, torch_signal)

# Operations in place that change what a tensor shows of its storage, but no element.
GEOMETRY = frozenset("requires_grad_ detach_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_".split())

__all__ = ["GEOMETRY", "MODULES", "RULES"]
