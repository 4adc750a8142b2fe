"""Sort thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.passes.thresholds.examples import examples
from onnx_passes.passes.thresholds.nodes import DOMAINS, OPERATOR, Thresholds
from onnx_passes.rewrite.node_rule import node_rule
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class SortThresholds(Transformation, RewriteRuleSetPass):
    """Sort the thresholds of every channel, and merge equal weighted ones.

    Rewrites: ``MultiThreshold(x, [[3, 1, 2]])`` → ``MultiThreshold(x, [[1, 2, 3]])``: the number of reached thresholds
              does not depend on their order. Their number is kept, unless they have weights.
    Refuses:  computed thresholds, and non-integer weights, whose sum in another order may round differently.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples()

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each domain."""
        return [node_rule(OPERATOR, _in_order, domain=domain, name=f"Sort of {domain}") for domain in DOMAINS]


def _in_order(op: Builder, node: ir.Node) -> Rewritten:
    found, y = Thresholds.of(node), node.outputs[0]
    if isinstance(found, str):
        return no(found, at=y)
    if found.weights is not None and not found.is_in_integers:
        return no("its weights are not integers, so that their sum depends on the order", at=y)
    rows, weights = _sorted(found)
    same = found.weights is None or (weights is not None and np.array_equal(found.weights, weights))
    if same and np.array_equal(found.rows, rows, equal_nan=True):
        return no("they are sorted", at=y)
    inputs = [found.x, found.shaped(rows)] + ([] if weights is None else [found.shaped(weights)])
    result = op.like(node, inputs)
    result.type, result.shape = y.type, y.shape
    return result


def _sorted(found: Thresholds) -> tuple[np.ndarray, np.ndarray | None]:
    if found.weights is None:
        return np.sort(found.rows, axis=1), None
    rows = [_merged(row, weights) for row, weights in zip(found.rows, found.weights, strict=True)]
    width = max(1, *(len(places) for places, _ in rows))
    thresholds = np.full((len(rows), width), np.inf, np.float32)
    heights = np.zeros((len(rows), width), np.float32)
    for index, (places, sums) in enumerate(rows):
        thresholds[index, : len(places)] = places
        heights[index, : len(places)] = sums
    return thresholds, heights


def _merged(row: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions and heights of the changes of the function; NaN thresholds are never reached."""
    counts = ~np.isnan(row)
    places, which = np.unique(row[counts], return_inverse=True)
    sums = np.zeros(len(places), np.float32)
    np.add.at(sums, which.reshape(-1), weights[counts])
    return places[sums != 0], sums[sums != 0]
