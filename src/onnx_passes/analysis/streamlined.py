"""How far a quantized network is in integers, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import onnx_ir as ir

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.plain import plain
from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.datatypes.types import IntegerType, smallest_for
from onnx_passes.graph.constants import constant, is_constant_node
from onnx_passes.graph.traits import is_product, traits_of
from onnx_passes.graph.wording import name_of, operator_name
from onnx_passes.numbers.range import Range, bits_for, exact_up_to
from onnx_passes.ops.facts.sums import Bounds, largest_norm, sums_within, terms_of
from onnx_passes.ops.facts.work import UnknownSizeError, nominal, work_of
from onnx_passes.ops.quantizer import QUANTIZING_PRODUCTS, SCALED_PRODUCTS, is_quantizer

_INPUT_BITS = 16
"""Inputs of wider integer types are indices and sizes, no data that were quantized."""
_INDICES = frozenset({"Gather", "GatherElements", "GatherND", "OneHot"})
_SHAPES = frozenset({"Shape", "Size"})
_REASON = "onnx_passes.not_integer"


@dataclass(frozen=True)
class Accumulator:
    """What one product of matrices, or convolution, adds up.

    ``bits`` hold every sum that the values of weights and the ranges of inputs allow. ``bits_by_norm`` would be needed
    for any input of its type (the bound of A2Q, from the sum of absolute weights), ``bits_by_type`` for any weights of
    their type too. ``thresholds`` is how many follow for each channel.
    """

    node: str
    macs: int | None
    input: str
    weight: str
    low: int
    high: int
    bits: int
    bits_by_norm: int | None
    bits_by_type: int
    thresholds: int | None


class Reason(NamedTuple):
    """Why a node is not computed on integers, and what would help."""

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


ReasonsOf = Callable[[ir.Model, Mapping[ir.Value, Range]], Mapping[ir.Node, Reason]]
"""Says why nodes of a model are not computed on integers, from the ranges of its values."""


def explain(node: ir.Node, reason: Reason | None) -> None:
    """Keep with a node, for as long as the run lasts, why it was not brought to integers."""
    meta = cast(dict[str, object], node.meta)
    if reason is None:
        meta.pop(_REASON, None)
    else:
        meta[_REASON] = reason


def _kept_reason(node: ir.Node) -> Reason | None:
    return cast(dict[str, Reason], node.meta).get(_REASON)


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

    ``head_macs`` are those before the first quantizer: no integers reach them. Dynamic dimensions count as 1.
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

    def __str__(self) -> str:
        behind = self.macs - self.head_macs
        if not behind:
            return f"no MACs behind a quantizer, {self.head_macs:,} before it: nothing to be done in integers"
        head = f"; {self.head_macs:,} more come before it" if self.head_macs else ""
        return f"{self.fraction:.0%} of the {behind:,} MACs behind the first quantizer are integer{head}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**{name: plain(value) for name, value in vars(self).items()}, "fraction": self.fraction}


def streamlined(model: ir.Model, reasons_of: ReasonsOf | None = None) -> Streamlined:
    """Look at every product of the graph, and at all that lies between quantizers.

    ``reasons_of`` is asked why nodes are not computed on integers, where the run itself has not said it.
    """
    known = ranges_of(model)
    behind = behind_quantizers(model.graph, known)
    works = {node: work for node in model.graph if (work := _macs(node)) != 0}
    ahead = _before_products(model.graph, works)
    macs = head = integer = 0
    accumulators: list[Accumulator] = []
    blocking: list[ir.Node] = []
    for node in model.graph:
        if node in works:
            work = works[node]
            macs += work or 0
            if node not in behind:
                head += work or 0
            elif _is_integer_product(node, known):
                integer += work or 0
                if _holds_integers(node.outputs[0], known):
                    accumulators.append(_accumulator(node, known, work))
            elif _reads_integers(node):
                integer += work or 0
            else:
                blocking.append(node)
        elif node in behind and node in ahead and _computes_floats(node, known) and not _is_affine(node):
            blocking.append(node)
    reasons: Mapping[ir.Node, Reason] = {}
    if reasons_of is not None and any(_kept_reason(node) is None for node in blocking):
        reasons = reasons_of(model, known)
    blockers = [
        Blocker(name_of(node), *(_kept_reason(node) or reasons.get(node) or _usual_reason(node))) for node in blocking
    ]
    return Streamlined(macs, head, integer, tuple(accumulators), tuple(blockers))


def behind_quantizers(graph: ir.Graph, known: Mapping[ir.Value, Range]) -> set[ir.Node]:
    """Return what depends on a quantized activation, or on an input that holds integers of few bits."""
    given = {value for value in graph.inputs if _is_quantized_input(value, known)}
    found: set[ir.Node] = set()
    for node in graph:
        values = [value for value in node.inputs if value is not None]
        data = values[:1] if node.op_type in _INDICES else values
        if (
            any(value.producer() in found for value in values)
            or any(value in given for value in data)
            or node.op_type in QUANTIZING_PRODUCTS
            or (is_quantizer(node) and constant(node.inputs[0]) is None)
        ):
            found.add(node)
    return found


def _is_quantized_input(value: ir.Value, known: Mapping[ir.Value, Range]) -> bool:
    return _holds_integers(value, known) and bits_for(*_bounds(value, known)) <= _INPUT_BITS


def _before_products(graph: ir.Graph, works: Mapping[ir.Node, int | None]) -> set[ir.Node]:
    found: set[ir.Node] = set()
    for node in reversed(graph):
        if (
            node in works
            or is_quantizer(node)
            or any(user in found for output in node.outputs for user in output.consumers())
        ):
            found.add(node)
    return found


def _is_integer_product(node: ir.Node, known: Mapping[ir.Value, Range]) -> bool:
    """Tell whether a node multiplies integers, and its element type holds all their sums."""
    if not is_product(node) or not all(_holds_integers(value, known) for value in node.inputs[:2]):
        return False
    return node.domain != "" or sums_within(node, _integers(known), exact_up_to(node.outputs[0].dtype))


def _reads_integers(node: ir.Node) -> bool:
    """Return whether the operands of a product are integers by their types, or the operator itself quantizes them."""
    if node.op_type in SCALED_PRODUCTS or node.op_type in QUANTIZING_PRODUCTS:
        return True
    kinds = [None if value is None else value.dtype for value in node.inputs[:2]]
    return len(kinds) == 2 and not holds_graphs(node) and all(kind is not None and kind.is_integer() for kind in kinds)


def _integers(known: Mapping[ir.Value, Range]) -> Callable[[ir.Value | None], Bounds | None]:
    return lambda value: _bounds(value, known) if _holds_integers(value, known) else None


def _holds_integers(value: ir.Value | None, known: Mapping[ir.Value, Range]) -> bool:
    found = None if value is None else known.get(value)
    return found is not None and found.integer_grid is not None


def _is_on_grid(value: ir.Value | None, known: Mapping[ir.Value, Range]) -> bool:
    found = None if value is None else known.get(value)
    return found is not None and found.grid is not None


def _computes_floats(node: ir.Node, known: Mapping[ir.Value, Range]) -> bool:
    if is_quantizer(node) or node.op_type in _SHAPES or is_constant_node(node):
        return False
    if traits_of(node).kind == "movement" and not _is_on_grid(node.inputs[0], known):
        return False
    floats = [value for value in node.outputs if value.dtype in (None, ir.DataType.FLOAT, ir.DataType.DOUBLE)]
    return any(value.uses() and not _holds_integers(value, known) for value in floats)


def _is_affine(node: ir.Node) -> bool:
    """Tell whether a node only makes a float of an integer: what it is for is the reason, not the node."""
    return node.op_type in ("Add", "Mul", "Sub", "Div") and any(constant(value) is not None for value in node.inputs)


def _usual_reason(node: ir.Node) -> Reason:
    """Say why a node computes in floats of which no rule knows an integer form."""
    if holds_graphs(node):
        return Reason("what is in its body is not followed", "unroll it, or keep it in floats")
    if traits_of(node).kind == "elementwise":
        return Reason("it is computed in floats", "put a quantizer of few bits behind it")
    if node.op_type == "DequantizeLinear":
        return Reason("it gives integers a scale again", "run streamline, whose notes say why one stays")
    return Reason(f"no scaled-integer rule for {operator_name(node)}", "keep it in floats, between quantizers")


def _macs(node: ir.Node) -> int | None:
    """Count the MACs of a node and of its bodies; nothing if they are not known."""
    total = 0
    for each in (node, *(inner for body in nested_graphs(node) for inner in all_nodes(body))):
        try:
            work = work_of(each)
        except UnknownSizeError:
            return None if is_product(each) or total else 0
        # A dynamic dimension counts once: parts of the whole are wanted, and most often it is the batch.
        total += 0 if work is None else nominal(work.macs, of=1)
    return total


def _accumulator(node: ir.Node, known: Mapping[ir.Value, Range], macs: int | None) -> Accumulator:
    low, high = _bounds(node.outputs[0], known)
    inputs, weights = (smallest_for(*_bounds(value, known)) for value in node.inputs[:2])
    held = constant(node.inputs[1])
    norm = None if held is None else largest_norm(node, held)
    largest = _largest(inputs) * _largest(weights) * (1 if held is None else terms_of(node) or 1)
    following = next((user for user in node.outputs[0].consumers() if user.op_type == "MultiThreshold"), None)
    steps = None if following is None else constant(following.inputs[1])
    return Accumulator(
        node=name_of(node),
        macs=macs,
        input=str(inputs),
        weight=str(weights),
        low=low,
        high=high,
        bits=bits_for(low, high),
        bits_by_norm=None if norm is None else bits_for(-norm * _largest(inputs), norm * _largest(inputs)),
        bits_by_type=bits_for(-largest, largest),
        thresholds=None if steps is None else int(steps.shape[-1]),
    )


def _largest(datatype: IntegerType) -> int:
    return max(abs(datatype.min), abs(datatype.max))


def _bounds(value: ir.Value | None, known: Mapping[ir.Value, Range]) -> Bounds:
    found = None if value is None else known.get(value)
    grid = None if found is None else found.integer_grid
    return (0, 0) if grid is None else (int(grid.low.min()), int(grid.high.max()))
