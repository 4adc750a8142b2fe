"""What proofs of applications may rest on: the model, what its values can be, and who runs a few nodes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import onnx_ir as ir

from onnx_passes.analysis.ranges.analyse import Ranges
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.graph.tensor_types import datatype_of, declared_bounds
from onnx_passes.ops.quantizing import is_quantizer
from onnx_passes.verify.proving.sides import is_settled
from onnx_passes.verify.run.execute import Executor

_MOST = 100_000
"""Nodes that are looked at for the range of a value, at most."""


SPENT = "the proofs of this run have searched for as many steps as --effort allows"


class Budget:
    """Points that the proofs of one run may compare in search of steps; a proof that is begun is finished."""

    def __init__(self, points: float = math.inf) -> None:
        self._left = points

    @property
    def is_spent(self) -> bool:
        """Tell whether nothing is left."""
        return self._left <= 0

    def spend(self, points: int) -> None:
        """Take points out of what is left."""
        self._left -= points


class Facts:
    """Knows the ranges of values while one pass runs; they are found when a proof first asks for one.

    Ranges hold for what the inputs are declared to be: ``assumed`` says what that is. A pass that changes values has to
    ``forget`` them; ``keeps_bits`` says that the last rewrite is proved not to.
    """

    def __init__(self, model: ir.Model, executor: Executor | None = None, budget: Budget | None = None) -> None:
        self.model = model
        self.budget = budget or Budget()
        self._executor = executor
        self._ranges: Ranges | None = None
        self._near: Ranges | None = None
        self._assumed = ""
        self.keeps_bits = False
        self._wrong: dict[Hashable, str] = {}

    def remembered(self, computation: Hashable | None, wrong: Callable[[], str]) -> str:
        """Return what is wrong with a computation, which is run but for one alike that ran already."""
        if computation is None:
            return wrong()
        if computation not in self._wrong:
            self._wrong[computation] = wrong()
        return self._wrong[computation]

    @property
    def executor(self) -> Executor:
        """Return who runs nodes."""
        if self._executor is None:
            self._executor = Executor()
        return self._executor

    def forget(self) -> None:
        """Let go of ranges: values are no longer what they were, unless the last rewrite keeps every bit."""
        if not self.keeps_bits:
            self._ranges = None

    @property
    def assumed(self) -> str:
        """Say what ranges of inputs the ranges of values rest on, if on any."""
        if self._ranges is None:
            self._analyse()
        return self._assumed

    def range_of(self, value: ir.Value) -> Range:
        """Return what is known of a value, also of one that was made since."""
        return _of(self._ranges or self._analyse(), value)

    def near_range_of(self, value: ir.Value) -> Range:
        """Return what is known of a value whatever comes before the next quantizers: rounding there moves nothing."""
        if self._near is None:
            self._near = Ranges.of_inputs(self.model.graph)
        return _of(self._near, value, is_quantizer)

    def _analyse(self) -> Ranges:
        graph = self.model.graph
        self._ranges = ranges = Ranges.of_inputs(graph)
        given = [(value, datatype_of(value), declared_bounds(value)) for value in graph.inputs]
        said = [f"{value.name} is {bounds or kind}" for value, kind, bounds in given if kind or bounds]
        self._assumed = ", ".join(said)
        return ranges


def _of(ranges: Ranges, value: ir.Value, ends: Callable[[ir.Node], bool] = lambda _: False) -> Range:
    """Find the range of a value, from what is known before it: nothing of what is before nodes where that ends."""
    missing: dict[ir.Node, None] = {}
    waiting: list[tuple[ir.Value, bool]] = [(value, False)]
    while waiting:
        here, is_ready = waiting.pop()
        node = here.producer()
        if node is None or here in ranges.known or node in missing:
            continue
        if is_ready:
            missing[node] = None
            if len(missing) > _MOST:
                return UNKNOWN
            continue
        waiting.append((here, True))
        inputs = [given for given in node.inputs if given is not None]
        waiting.extend((given, False) for given in inputs if not ends(node) or is_settled(given))
    for node in missing:
        ranges.visit(node)
    return ranges.of(value)
