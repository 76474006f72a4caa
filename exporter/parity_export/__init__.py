"""Exports golden tensors for mlx-parity, with their provenance and their precision."""

from .finish import Refused
from .floor import Floor
from .recorder import Recorder
from .run import run
from .script import main

__all__ = ["Floor", "Recorder", "Refused", "main", "run"]
