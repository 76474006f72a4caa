"""Exports golden tensors for mlx-parity, with their provenance and their precision."""

from .finish import Refused
from .floor import Floor
from .recorder import Recorder
from .run import main, run

__all__ = ["Floor", "Recorder", "Refused", "main", "run"]
