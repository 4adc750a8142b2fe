"""A worklist in random order: what rules make of a model must not depend on where they begin."""

from __future__ import annotations

import random
from collections import deque

import onnx_ir as ir


class Shuffled(deque[ir.Node]):
    """A queue that returns any of its nodes; the same seed returns the same ones."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)  # noqa: S311 - an order, no secret

    def popleft(self) -> ir.Node:
        """Take one of the nodes."""
        self.rotate(-self._random.randrange(len(self)))
        return super().popleft()
