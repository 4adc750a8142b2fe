"""What proofs of applications may rest on: the model, what its values can be, and who runs a few nodes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property

import onnx_ir as ir

from onnx_passes.analysis.ranges.analyse import Ranges
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.graph.hashing.semantics import Semantics
from onnx_passes.graph.operators import INTERFACES
from onnx_passes.graph.tensor_types import datatype_of, declared_bounds
from onnx_passes.ops.quantizing import is_quantizer
from onnx_passes.proofs.proof import Assumption
from onnx_passes.verify.proving.fragments import is_settled
from onnx_passes.verify.run.execute import Executor

_MOST = 100_000
"""Nodes that are looked at for the range of a value, at most."""


Declared = tuple[str | None, tuple[float, float] | None]
"""The data type and the bounds that an input is declared to have."""
_INTERFACES = (
    "traits",
    "semantics",
    "scalar",
    "exact",
    "ranges",
    "quantizer",
    "integer_form",
    "scaled_form",
    "positive_zeros",
    "never_negative",
    "vectors",
    "shapes",
    "sizes",
    "datatype",
)
"""What proofs believe of operators."""

SPENT = "the proofs of this run have searched for as many steps as --effort allows"


def attached_outside(node: ir.Node) -> Iterator[str]:
    """Yield what modules outside of this package say of an operator that a proof may rest on."""
    for name in _INTERFACES:
        interface = INTERFACES.get(name)
        module = "" if interface is None else interface.origin(node)
        if module:
            yield f"'{name}' of {node.domain or 'ai.onnx'}::{node.op_type} is as {module} says"


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

    Ranges hold for what the inputs are declared to be: ``assumed`` says what that is. What the ``original`` inputs were
    declared to be is part of the model; what passes declared since, and what modules outside of this package attach to
    operators, nobody has checked: proofs rest on ``assumptions`` then. A pass that changes values has to
    ``forget`` them; ``keeps_bits`` says that the last rewrite is proved not to.
    """

    def __init__(
        self,
        model: ir.Model,
        executor: Executor | None = None,
        budget: Budget | None = None,
        original: Mapping[str, Declared] | None = None,
    ) -> None:
        self.model = model
        self._original = declared_inputs(model.graph) if original is None else original
        self._attached: dict[str, None] = {}
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

    @cached_property
    def semantics(self) -> Semantics:
        """Return the keys of the operators of the model."""
        return Semantics([self.model])

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

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return what ranges rest on that nobody has checked, as far as any range was asked for."""
        if self._ranges is None and self._near is None:
            return ()
        now = declared_inputs(self.model.graph)
        told = [f"{name} is {given[1] or given[0]}" for name, given in now.items() if self._is_new(name, given)]
        return tuple(Assumption(text) for text in (*told, *self._attached))

    def _is_new(self, name: str, given: Declared) -> bool:
        return any(part is not None for part in given) and self._original.get(name) != given

    def range_of(self, value: ir.Value) -> Range:
        """Return what is known of a value, also of one that was made since."""
        return self._of(self._ranges or self._analyse(), value)

    def near_range_of(self, value: ir.Value) -> Range:
        """Return what is known of a value whatever comes before the next quantizers: rounding there moves nothing."""
        if self._near is None:
            self._near = Ranges.of_inputs(self.model.graph)
        return self._of(self._near, value, is_quantizer)

    def _analyse(self) -> Ranges:
        graph = self.model.graph
        self._ranges = ranges = Ranges.of_inputs(graph)
        given = [(value, datatype_of(value), declared_bounds(value)) for value in graph.inputs]
        said = [f"{value.name} is {bounds or kind}" for value, kind, bounds in given if kind or bounds]
        self._assumed = ", ".join(said)
        return ranges

    def _of(self, ranges: Ranges, value: ir.Value, ends: Callable[[ir.Node], bool] = lambda _: False) -> Range:
        """Compute the range of a value from its producers; stop at nodes for which ``ends(node)`` holds."""
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
            waiting.extend(
                (given, False) for given in inputs if not ends(node) or is_settled(given, self.model.functions)
            )
        for node in missing:
            ranges.visit(node)
            self._attached.update(dict.fromkeys(attached_outside(node)))
        return ranges.of(value)


def declared_inputs(graph: ir.Graph) -> Mapping[str, Declared]:
    """Return what the inputs of a graph are declared to hold: data types and bounds, by name."""
    return {str(value.name): (_text(datatype_of(value)), declared_bounds(value)) for value in graph.inputs}


def _text(found: object) -> str | None:
    return None if found is None else str(found)
