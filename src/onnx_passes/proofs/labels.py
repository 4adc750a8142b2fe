"""Fingerprints of whole models: equal ones mean equal values of all outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Tensor
from onnx_passes.numbers.fingerprints import Fingerprints, Labels
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.inputs import variables


def labels(model: ir.Model, *, seed: int = 0) -> list[Labels]:
    """Return the fingerprints of the outputs of a model: equal ones mean equal values, bit by bit.

    Inputs are known by their names. Raises UnsupportedError or TooLargeError (``numbers.algebra``) where the sizes of
    something are not known, or there are too many elements.
    """
    algebra = Fingerprints(seed)
    return _outputs(model, algebra, variables(algebra, model), math.inf)


def _outputs(model: ir.Model, algebra: Fingerprints, inputs: Sequence[Tensor], seconds: float) -> list[Labels]:
    return [tensor.elements(algebra) for tensor in Evaluation(model, algebra, seconds=seconds).outputs(inputs)]


def same_labels(before: ir.Model, after: ir.Model, inputs: Sequence[int], seconds: float = math.inf) -> bool:
    """Tell whether two models have the same fingerprints, by two that are independent."""
    for seed in (0, 1):
        algebra = Fingerprints(seed)
        made = variables(algebra, before)
        a = _outputs(before, algebra, made, seconds)
        b = _outputs(after, algebra, [made[index] for index in inputs], seconds)
        if len(a) != len(b) or not all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)):
            return False
    return True
