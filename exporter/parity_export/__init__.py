"""Writes golden tensors that say where they came from, for mlx-parity."""

from .recorder import Floor, Recorder

__all__ = ["Floor", "Recorder"]
