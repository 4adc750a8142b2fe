"""Batch normalization as one factor and one offset for each channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.reals import Reals

_EPSILON = 1e-5
IN_TRAINING = "it is in training mode"
NOT_CONSTANT = "a parameter of BatchNormalization is computed"
NOT_POSITIVE = "a variance is not positive"


class Normalization(NamedTuple):
    """A batch normalization ``(x - mean) * factor + shift``, with a number for each channel."""

    factor: Reals
    mean: Reals
    shift: Reals

    @property
    def offset(self) -> Reals:
        """Return what is added to ``x * factor``."""
        return self.shift - self.mean * self.factor

    @staticmethod
    def of(node: ir.Node, parameters: Sequence[Reals | np.ndarray | None]) -> Normalization | str:
        """Return the normalization of a node whose scale, shift, mean and variance are given, or why there is none."""
        if node.attributes.get_int("training_mode", 0) or len(node.outputs) > 1:
            return IN_TRAINING
        known = [Reals.of(each) if isinstance(each, np.ndarray) else each for each in parameters if each is not None]
        if len(known) < 4:
            return NOT_CONSTANT
        scale, shift, mean, variance = known
        spread = variance + Reals.of(np.float32(node.attributes.get_float("epsilon", _EPSILON)))
        if not (spread.signs() > 0).all():
            return NOT_POSITIVE
        return Normalization(scale / spread.root(), mean, shift)

    def moved(self, change: Callable[[Reals], Reals]) -> Normalization:
        """Return the normalization with its numbers in another shape."""
        return Normalization(*map(change, self))
