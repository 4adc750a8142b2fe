"""How far a quantized network is in integers, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.amounts import UnknownSizeError
from onnx_passes.analysis.formulas import work_of
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.analysis.ranges.range import Range, bits_for
from onnx_passes.graph.constants import constant
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import name_of

PRODUCTS = frozenset({"Conv", "ConvInteger", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger", "XnorPopcountMatMul"})
_QUANTIZERS = frozenset(
    {"BipolarQuant", "FloatQuant", "IntQuant", "MultiThreshold", "Quant", "QuantAvgPool2d", "Trunc"}
)
_SHAPES = frozenset({"Shape", "Size"})


@dataclass(frozen=True)
class Accumulator:
    """What one product of matrices, or convolution, adds up.

    ``bits`` hold what the values of weights and inputs allow; ``bits_by_type`` what their data types would allow if
    all weights were as large as their type lets them be; ``thresholds`` is how many follow for each channel.
    """

    node: str
    macs: int | None
    low: int
    high: int
    bits: int
    bits_by_type: int
    input_bits: int
    weight_bits: int
    thresholds: int | None


@dataclass(frozen=True)
class Blocker:
    """A node that computes in floats between quantized layers, why it does, and what would help."""

    node: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.node}: {self.reason}; {self.remedy}"


@dataclass(frozen=True)
class Streamlined:
    """How far a network is in integers.

    ``head_macs`` are those before the first quantizer: no integers reach them. MACs of unknown number count 0.
    """

    macs: int = 0
    head_macs: int = 0
    integer_macs: int = 0
    accumulators: tuple[Accumulator, ...] = ()
    blockers: tuple[Blocker, ...] = ()

    @property
    def fraction(self) -> float:
        """Return the part of the MACs behind the first quantizer that is computed on integers."""
        behind = self.macs - self.head_macs
        return self.integer_macs / behind if behind else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "macs": self.macs,
            "head_macs": self.head_macs,
            "integer_macs": self.integer_macs,
            "fraction": self.fraction,
            "accumulators": [vars(item) for item in self.accumulators],
            "blockers": [vars(item) for item in self.blockers],
        }


def streamlined(model: ir.Model, ranges: Mapping[ir.Value, Range] | None = None) -> Streamlined:
    """Look at every product of the graph, and at all that lies between quantizers."""
    known = ranges_of(model) if ranges is None else ranges
    behind = _behind_quantizers(model.graph)
    ahead = _before_products(model.graph)
    macs = head = integer = 0
    accumulators: list[Accumulator] = []
    blockers: list[Blocker] = []
    for node in model.graph:
        if node.op_type in PRODUCTS:
            work = _macs(node)
            macs += work or 0
            if node not in behind:
                head += work or 0
            elif _is_integer_product(node, known):
                integer += work or 0
                accumulators.append(_accumulator(node, known, work))
            else:
                blockers.append(_blocker_at_product(node, known))
        elif node in behind and node in ahead and _computes_floats(node, known):
            blockers.append(_blocker(node))
    return Streamlined(macs, head, integer, tuple(accumulators), tuple(blockers))


def is_quantizer(node: ir.Node) -> bool:
    """Tell whether a node makes integers, or multiples of them, of anything."""
    if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") and node.domain == "":
        return True
    return node.op_type in _QUANTIZERS and node.domain != ""


def _behind_quantizers(graph: ir.Graph) -> set[ir.Node]:
    """Return what depends on a quantized activation, or on an input that is declared to hold integers."""
    found: set[ir.Node] = set()
    for node in graph:
        values = [value for value in node.inputs if value is not None]
        if any(value.producer() in found for value in values) or (
            is_quantizer(node) and constant(node.inputs[0]) is None
        ):
            found.add(node)
    return found


def _before_products(graph: ir.Graph) -> set[ir.Node]:
    found: set[ir.Node] = set()
    for node in reversed(graph):
        if (
            node.op_type in PRODUCTS
            or is_quantizer(node)
            or any(user in found for output in node.outputs for user in output.consumers())
        ):
            found.add(node)
    return found


def _is_integer_product(node: ir.Node, known: Mapping[ir.Value, Range]) -> bool:
    return all(value is not None and _holds_integers(value, known) for value in node.inputs[:2])


def _holds_integers(value: ir.Value, known: Mapping[ir.Value, Range]) -> bool:
    found = known.get(value)
    return found is not None and found.integer_grid is not None


def _computes_floats(node: ir.Node, known: Mapping[ir.Value, Range]) -> bool:
    if is_quantizer(node) or node.op_type in _SHAPES or node.op_type == "Constant":
        return False
    floats = [value for value in node.outputs if value.dtype in (None, ir.DataType.FLOAT, ir.DataType.DOUBLE)]
    return any(value.uses() and not _holds_integers(value, known) for value in floats)


def _blocker_at_product(node: ir.Node, known: Mapping[ir.Value, Range]) -> Blocker:
    for value, what in zip(node.inputs[:2], ("input", "weight"), strict=False):
        if value is not None and not _holds_integers(value, known):
            found = known.get(value)
            if found is None or found.grid is None:
                return Blocker(name_of(node), f"its {what} '{value.name}' is not quantized", "quantize it")
            varies = "differ along the sum" if found.grid.scale.size > 1 else "are not taken out"
            return Blocker(name_of(node), f"the scales of its {what} '{value.name}' {varies}", "run aggregate-scales")
    return Blocker(name_of(node), "it computes in floats", "run aggregate-scales")


def _blocker(node: ir.Node) -> Blocker:
    kind = traits_of(node).kind
    if node.op_type in ("Add", "Sub", "Mul", "Concat"):
        return Blocker(
            name_of(node),
            "scales of what it joins are no multiples of one another, or not taken out",
            "let the quantizers before it share a scale, or run aggregate-scales",
        )
    if kind == "elementwise" or node.op_type == "BatchNormalization":
        return Blocker(
            name_of(node), "it is computed in floats", "run infer-thresholds, behind a quantizer of few bits"
        )
    return Blocker(name_of(node), f"{node.op_type} of integers is no integer", "keep it in floats, between quantizers")


def _macs(node: ir.Node) -> int | None:
    try:
        work = work_of(node)
    except UnknownSizeError:
        return None
    return work.macs if work is not None and isinstance(work.macs, int) else None


def _accumulator(node: ir.Node, known: Mapping[ir.Value, Range], macs: int | None) -> Accumulator:
    low, high = _bounds(node.outputs[0], known)
    (x_low, x_high), (w_low, w_high) = (_bounds(value, known) for value in node.inputs[:2])
    weights = constant(node.inputs[1])
    terms = 0 if weights is None else _terms(node, weights)
    inputs, factors = bits_for(x_low, x_high), bits_for(w_low, w_high)
    largest = max(abs(x_low), abs(x_high)) * (2 ** (factors - 1) if w_low < 0 else 2**factors - 1) * max(terms, 1)
    following = next((user for user in node.outputs[0].consumers() if user.op_type == "MultiThreshold"), None)
    steps = None if following is None or constant(following.inputs[1]) is None else following.inputs[1]
    count = None if steps is None or steps.shape is None else int(np.asarray(constant(steps)).shape[-1])
    by_type = bits_for(-largest if min(x_low, w_low) < 0 else 0, largest)
    return Accumulator(name_of(node), macs, low, high, bits_for(low, high), by_type, inputs, factors, count)


def _terms(node: ir.Node, weights: np.ndarray) -> int:
    if node.op_type in ("Conv", "ConvInteger"):
        return int(np.prod(weights.shape[1:]))
    if node.op_type == "ConvTranspose":
        return int(weights.shape[0] * np.prod(weights.shape[2:]))
    return int(weights.shape[-1 if node.attributes.get_int("transB", 0) else -2]) if weights.ndim > 1 else weights.size


def _bounds(value: ir.Value | None, known: Mapping[ir.Value, Range]) -> tuple[int, int]:
    found = None if value is None else known.get(value)
    grid = None if found is None else found.integer_grid
    return (0, 0) if grid is None else (int(grid.low.min()), int(grid.high.max()))
