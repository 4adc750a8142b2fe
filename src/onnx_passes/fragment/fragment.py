"""A fragment of a model: some of its nodes, their inputs from outside, and their outputs for other nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_nodes, nested_graphs
from onnx_passes.fragment.assembly import Assembly, DtypeOf, Shapes
from onnx_passes.graph.constants import constant_tensor, is_constant
from onnx_passes.graph.edits import used_values
from onnx_passes.graph.hashing.content import Key, digest, type_key
from onnx_passes.graph.hashing.semantics import NodeFunction, Semantics
from onnx_passes.graph.randomness import Functions, draws

if TYPE_CHECKING:
    from onnx_passes.numbers.arithmetic import Arithmetic


class FragmentError(Exception):
    """A fragment cannot be cut out, for a reason."""


@dataclass(frozen=True, eq=False)
class Fragment:
    """Nodes in an order in which they can run, the values that they read, and those of their results that count.

    ``inputs`` are read from outside: by the nodes or captured by the graphs that these hold, and not constant.
    Constants belong to the fragment, whether initializers or Constant nodes hold them.
    """

    nodes: tuple[ir.Node, ...]
    outputs: tuple[ir.Value, ...]
    inputs: tuple[ir.Value, ...]

    @classmethod
    def of(cls, nodes: Iterable[ir.Node], outputs: Iterable[ir.Value] | None = None) -> Fragment:
        """Cut out nodes, in the order of their graph; by default all results count that others read or return."""
        nodes = tuple(nodes)
        made = {value for node in nodes for value in node.outputs}
        if outputs is None:
            inside = {inner for node in nodes for inner in (node, *_nested_nodes(node))}
            results = (value for node in nodes for value in node.outputs)
            outputs = [v for v in results if v.is_graph_output() or any(use.node not in inside for use in v.uses())]
        outputs = tuple(outputs)
        read = dict.fromkeys((*(value for node in nodes for value in operands(node)), *outputs))
        return cls(nodes, outputs, tuple(value for value in read if value not in made and not is_constant(value)))

    @classmethod
    def between(cls, inputs: Collection[ir.Value], outputs: Iterable[ir.Value]) -> Fragment:
        """Cut out the backward slice of outputs to some inputs; unused inputs are left out.

        Further inputs, which have to be given as well, follow in the order in which they are met.
        """
        given = frozenset(inputs)
        found = cls.back_to(lambda value: value in given, outputs)
        further = (value for value in found.inputs if value not in given)
        read = set(found.inputs)
        return cls(found.nodes, found.outputs, (*(value for value in inputs if value in read), *further))

    @classmethod
    def back_to(
        cls,
        is_input: Callable[[ir.Value], bool],
        outputs: Iterable[ir.Value],
        *,
        accept: Callable[[ir.Node], None] | None = None,
        most: int | None = None,
    ) -> Fragment:
        """Cut out the backward slice of outputs to values for which ``is_input`` holds and to constants.

        ``accept`` may refuse a node. Raises FragmentError if there are more nodes than ``most``.
        """
        outputs = tuple(outputs)
        nodes, inputs = dict[ir.Node, None](), dict[ir.Value, None]()
        waiting: list[tuple[ir.Value, bool]] = [(value, False) for value in reversed(outputs)]
        while waiting:
            value, is_ready = waiting.pop()
            node = value.producer()
            if value in inputs or is_constant(value):
                continue
            if node is None or is_input(value):
                inputs[value] = None
            elif node in nodes:
                continue
            elif is_ready:
                nodes[node] = None
                if most is not None and len(nodes) > most:
                    raise FragmentError(f"more than {most} nodes compute it")
            else:
                if accept is not None:
                    accept(node)
                waiting.append((value, True))
                waiting.extend((read, False) for read in operands(node))
        return cls(tuple(nodes), outputs, tuple(inputs))

    @cached_property
    def constants(self) -> tuple[ir.Value, ...]:
        """List the constants that are read."""
        read = (*(value for node in self.nodes for value in operands(node)), *self.outputs)
        return tuple(dict.fromkeys(value for value in read if is_constant(value)))

    @cached_property
    def fixed(self) -> frozenset[ir.Value]:
        """Return the values that are computed from constants alone; nodes that draw random numbers are not expected."""
        found = set[ir.Value]()
        for node in self.nodes:
            if all(value in found or is_constant(value) for value in operands(node)):
                found.update(node.outputs)
        return frozenset(found)

    def is_dynamic(self, value: ir.Value | None) -> bool:
        """Return whether a value depends on the inputs of the fragment."""
        return value is not None and not is_constant(value) and value not in self.fixed

    @property
    def moving(self) -> Iterator[ir.Node]:
        """Iterate over the nodes whose results are not fixed, in order."""
        return (node for node in self.nodes if any(map(self.is_dynamic, operands(node))))

    def assembled(
        self,
        *,
        keeps_names: bool = False,
        shapes: Shapes = "ranks",
        dtype_of: DtypeOf | None = None,
        declared: Mapping[ir.Value, ir.Value] | None = None,
        given: Mapping[ir.Value, ir.TensorProtocol] | None = None,
    ) -> Assembly:
        """Copy the fragment; its inputs may be ``declared`` otherwise, or ``given`` as constants.

        Raises OutsideError if it reads a value that is neither its own nor an input.
        """
        copies = Assembly(keeps_names=keeps_names, shapes=shapes, dtype_of=dtype_of)
        for value in self.inputs:
            if given is not None and value in given:
                copies.weight(given[value], value)
            else:
                copies.feed(value, None if declared is None else declared.get(value))
        copies.add(self.nodes)
        return copies

    def model(
        self,
        like: ir.Model,
        *,
        declared: Mapping[ir.Value, ir.Value] | None = None,
        given: Mapping[ir.Value, ir.TensorProtocol] | None = None,
    ) -> ir.Model:
        """Return the fragment as a model of its own, like the model from which it is cut in all but the graph."""
        copies = self.assembled(keeps_names=True, shapes="declared", declared=declared, given=given)
        made = copies.model(like, [copies.read(value) for value in self.outputs], name=like.graph.name or "fragment")
        made.producer_name, made.producer_version = like.producer_name, like.producer_version
        made.domain, made.model_version, made.doc_string = like.domain, like.model_version, like.doc_string
        made.metadata_props.update(like.metadata_props)
        made.graph.metadata_props.update(like.graph.metadata_props)
        return made

    def digest(self, semantics: Semantics) -> bytes:
        """Return a digest of all that decides about the results of the fragment, and of its interface.

        Operators with their versions, attributes, functions and random draws, constants, wiring with captured
        values, and types of inputs are in it. Names, the order of nodes, and whether equal values are computed once or
        twice are not.
        """
        numbers = ValueNumbers(semantics)
        for place, value in enumerate(self.inputs):
            numbers.enter(value, ("input", place))
        known = frozenset(self.inputs)
        numbers.enter_nodes(Fragment.back_to(lambda value: value in known, self.outputs).nodes)
        outputs = tuple(numbers[value] for value in self.outputs)
        return digest(_types(self.inputs), outputs, str(numbers.keys()))

    def evaluate(self, arithmetic: Arithmetic[Any], given: Mapping[ir.Value, Any]) -> dict[ir.Value, Any]:
        """Return all values of the fragment in a number system. Raises UnknownOperatorError."""
        from onnx_passes.ops.semantics.exact import apply

        found = dict(given)
        for node in self.nodes:
            found[node.outputs[0]] = apply(arithmetic, node, found)
        return found


def operands(node: ir.Node) -> Iterator[ir.Value]:
    """Iterate over the values that a node reads, and outer values that its graphs read or return."""
    return (value for value in used_values(node) if value is not None)


def is_plain(node: ir.Node, functions: Functions) -> bool:
    """Return whether a node holds no graphs and computes the same wherever and whenever it runs."""
    return not any(True for _ in nested_graphs(node)) and not draws(node, functions)


def shared_inputs(fragments: Sequence[Fragment]) -> tuple[ir.Value, ...]:
    """Return the inputs of fragments, each once."""
    return tuple(dict.fromkeys(value for fragment in fragments for value in fragment.inputs))


def _types(values: Sequence[ir.Value]) -> Key:
    """Return types and shapes; symbolic sizes are known by the place where they occur first."""
    symbols: dict[str, int] = {}
    found: list[Key] = []
    for value in values:
        dims: list[Key] = []
        for size in value.shape or ():
            name = None if isinstance(size, int) else size.value
            dims.append(
                size if isinstance(size, int) else ("?" if name is None else (symbols.setdefault(name, len(symbols)),))
            )
        found.append((type_key(value.type), None if value.shape is None else tuple(dims)))
    return tuple(found)


def _nested_nodes(node: ir.Node) -> Iterator[ir.Node]:
    return (inner for graph in nested_graphs(node) for inner in all_nodes(graph))


Sample = dict[str, np.ndarray]


class Prepared(Protocol):
    """A model that runs."""

    def run(self, sample: Sample) -> Sample:
        """Return the outputs by name."""
        ...


class Runtime(Protocol):
    """A runtime that prepares models for execution."""

    def prepare(self, model: ir.Model, *, engine: Literal["onnxruntime"]) -> Prepared:
        """Make a model run in ONNX Runtime."""
        ...


class SideBySide:
    """Runs fragments on arrays for their shared inputs, with operator sets and functions of a model.

    ``dtype_of`` and ``shapes`` are what values are declared to be, as for ``Assembly``.
    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        like: ir.Model,
        runtime: Runtime,
        *,
        dtype_of: DtypeOf | None = None,
        shapes: Shapes = "ranks",
    ) -> None:
        copies = Assembly(dtype_of=dtype_of, shapes=shapes)
        for value in shared_inputs(fragments):
            copies.feed(value)
        self._results: list[list[ir.Value]] = []
        for fragment in fragments:
            copies.add(fragment.nodes)
            self._results.append([copies.computed(value) for value in fragment.outputs])
        self._inputs = [str(value.name) for value in copies.inputs]
        outputs = dict.fromkeys(value for values in self._results for value in values)
        self._ready = runtime.prepare(copies.model(like, outputs, name="side by side"), engine="onnxruntime")

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """Return the outputs of each fragment for arrays in the order of the inputs. Raises ExecutionError."""
        found = self._ready.run(dict(zip(self._inputs, arrays, strict=True)))
        return [[found[str(value.name)] for value in values] for values in self._results]


class ValueNumbers:
    """The value numbers of some models; values without a producer are equal only where they are entered so."""

    def __init__(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._keys: dict[Hashable, int] = {}
        self._numbers: dict[ir.Value, int] = {}
        self.operations: dict[ir.Node, NodeFunction] = {}

    def __getitem__(self, value: ir.Value) -> int:
        """Return the number of a value; one that was not entered is equal to nothing else, unless it is constant."""
        found = self._numbers.get(value)
        if found is None:
            tensor = constant_tensor(value)
            key = ("value", value) if tensor is None else ("constant", self._semantics.tensor(tensor))
            found = self.enter(value, key)
        return found

    def enter(self, value: ir.Value, key: Hashable) -> int:
        """Enter a value as equal to all others of the same key."""
        found = self._numbers[value] = self._keys.setdefault(key, len(self._keys))
        return found

    def enter_nodes(self, nodes: Iterable[ir.Node]) -> Counter[Hashable]:
        """Enter the results of nodes of one model, in order; return how often each operation draws random numbers.

        Between models, draws of one operation from the same are equal if they come in the same order.
        """
        drawn, draws = Counter[Hashable](), Counter[Hashable]()
        for node in nodes:
            operation = self.operations[node] = self._semantics.operation(node)
            operands = tuple(None if value is None else self[value] for value in operation.operands)
            key: tuple[Hashable, ...] = (operation.key, operands)
            if operation.draws:
                drawn[key] += 1
                draws[operation.key] += 1
                key = (*key, drawn[key])
            for index, output in enumerate(node.outputs):
                if constant_tensor(output) is None:
                    self.enter(output, (*key, ("output", index)))
        return draws

    def keys(self) -> list[Hashable]:
        """List the keys of all numbers, in order."""
        return list(self._keys)
