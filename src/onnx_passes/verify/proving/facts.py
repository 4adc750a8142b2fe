"""What proofs of applications may rest on: the model, what its values can be, and who runs a few nodes of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import onnx_ir as ir

from onnx_passes.analysis.ranges import Ranges
from onnx_passes.core.records import Application
from onnx_passes.fragment.fragment import Fragment, FragmentError, is_plain
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.hashing.semantics import Semantics
from onnx_passes.graph.operators import INTERFACES
from onnx_passes.graph.randomness import Functions
from onnx_passes.graph.tensor_types import datatype_of, declared_bounds
from onnx_passes.numbers.range import UNKNOWN, Range
from onnx_passes.ops.quantizer import is_quantizer
from onnx_passes.proofs.proof import Assumption
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


_MOST_NODES = 400
"""Nodes of one fragment, at most."""
_SETTLED = 24
"""Nodes that compute one value from constants, or from shapes."""
_INDICES = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})
"""Types of shapes, and of what is computed from them."""
_NEAR = 24
_FURTHER = 24
"""Nodes that are looked at beside those of an application, for a value that both fragments come from."""


def fragments_of(application: Application, functions: Functions) -> tuple[Fragment, Fragment]:
    """Return what computes the old values and what computes the new ones. Raises FragmentError."""
    old = _Slice(application.matched, [before for before, _ in application.replaced], functions)
    new = _Slice((*application.added, *application.matched), [after for _, after in application.replaced], functions)
    for _ in range(_FURTHER):
        node = _next(old, new, functions)
        if node is None:
            break
        old.extend(node)
        new.extend(node)
    return old.fragment, new.fragment


class _Slice:
    """What values are computed by, as far back as some nodes and what depends on constants alone."""

    def __init__(self, start: Iterable[ir.Node], results: Sequence[ir.Value], functions: Functions) -> None:
        self._inside = set(start)
        self._functions = functions
        self._results = results
        self.fragment = self._cut()

    def extend(self, node: ir.Node) -> None:
        """Begin before a node."""
        self._inside.add(node)
        self.fragment = self._cut()

    def reads_shape_of(self, value: ir.Value) -> bool:
        """Return whether nothing of a value is read but its shape."""
        users = [node for node in self.fragment.nodes if value in node.inputs]
        return bool(users) and all(node.op_type == "Shape" and node.domain == "" for node in users)

    def _cut(self) -> Fragment:
        return Fragment.back_to(self._is_input, self._results, accept=self._require_plain, most=_MOST_NODES)

    def _is_input(self, value: ir.Value) -> bool:
        return value.producer() not in self._inside and not is_settled(value, self._functions)

    def _require_plain(self, node: ir.Node) -> None:
        if not is_plain(node, self._functions):
            raise FragmentError(f"{node.op_type} holds graphs, or computes something else each time")


def _next(old: _Slice, new: _Slice, functions: Functions) -> ir.Node | None:
    """Choose a node before one fragment that leads to what the other one reads."""
    for here, there in ((new, old), (old, new)):
        other = there.fragment
        wanted = {*other.inputs, *(value for node in other.nodes for value in node.outputs)}
        for leaf in here.fragment.inputs:
            node = None if leaf in other.inputs or here.reads_shape_of(leaf) else leaf.producer()
            if node is not None and is_plain(node, functions) and (leaf in wanted or _leads_to(node, wanted)):
                return node
    return None


def _leads_to(node: ir.Node, wanted: Collection[ir.Value]) -> bool:
    """Return whether a node depends on some values within a few nodes."""
    waiting, budget = deque([node]), _NEAR
    while waiting and budget:
        budget -= 1
        for value in waiting.popleft().inputs:
            if value is not None and value in wanted:
                return True
            if value is not None and (before := value.producer()) is not None:
                waiting.append(before)
    return False


def is_settled(value: ir.Value, functions: Functions) -> bool:
    """Return whether a value is computed from a few constants alone, or from shapes."""
    with_shapes = value.dtype in _INDICES
    budget, waiting = _SETTLED, [value]
    while waiting:
        here = waiting.pop()
        if is_constant(here):
            continue
        node = here.producer()
        budget -= 1
        if node is None or budget < 0 or not is_plain(node, functions):
            return False
        if with_shapes and node.op_type == "Shape" and node.domain == "":
            continue
        waiting.extend(given for given in node.inputs if given is not None)
    return True
