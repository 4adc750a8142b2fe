"""Graphs inside a model (branches, loop bodies, called functions), each on its own with the values that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_nodes, holds_graphs
from onnx_passes.fragment.assembly import OutsideError
from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant, constant_node, constant_tensor
from onnx_passes.graph.functions import called_graph
from onnx_passes.graph.randomness import Functions
from onnx_passes.verify.run.execute import Sample

Path = tuple[str, ...]
"""Where a graph hangs: the result of the node that holds it and the attribute, from the outermost one on."""

_CALL = "function"
_LOOPS = ("Loop", "Scan", "SequenceMap")
_ENDLESS = 2**31
"""Turns of a Loop that only its condition ends."""


class NoValueError(Exception):
    """A value that a graph needs is not at hand as an array."""


@dataclass(frozen=True, eq=False)
class Body:
    """A graph that a node holds, or that of the function it calls, and what it reads from around it, by name.

    ``imports`` are the operator sets of the function.
    """

    path: Path
    node: ir.Node
    graph: ir.Graph
    imports: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def attribute(self) -> str:
        """Return the name of the attribute that holds the graph."""
        return self.path[-1]

    @property
    def is_call(self) -> bool:
        """Return whether the graph is that of a function."""
        return self.attribute == _CALL

    @property
    def around(self) -> list[Path]:
        """Return where the graphs hang that this one is in, from the outermost one on."""
        return [self.path[:end] for end in range(2, len(self.path), 2)]

    @property
    def is_loop(self) -> bool:
        """Return whether the graph is the body of a Loop."""
        return not self.is_call and self.node.domain == "" and self.node.op_type == "Loop"

    @property
    def text(self) -> str:
        """Describe where the graph is."""
        *around, result, attribute = self.path
        if self.is_call:
            return f"function {self.node.op_type} called by '{result}'"
        where = f" in '{around[-2]}'" if around else ""
        return f"{attribute} of {self.node.op_type} '{result}'{where}"

    @property
    def never_runs(self) -> bool:
        """Return whether constants keep the graph from running, whatever the inputs of the model are."""
        return self.ran({}) is False

    def captured(self) -> dict[str, ir.Value]:
        """Return the values from outside that nodes here or deeper read, without constants."""
        inputs = Fragment.of(self.graph, self.graph.outputs).inputs
        return {str(value.name): value for value in inputs if value.graph is not self.graph}

    def ran(self, seen: Mapping[str, np.ndarray]) -> bool | None:
        """Return whether the graph runs where these values occur; None if they do not say."""
        if self.is_call:
            return True
        if self.node.domain == "" and self.node.op_type == "If":
            condition = _known(self.node.inputs[0], seen)
            return None if condition is None else bool(condition.all()) == (self.attribute == "then_branch")
        turns = self.turns(seen)
        return None if turns is None else turns > 0

    def take(self) -> bool:
        """Make an If take this branch whatever its condition is; return whether there is one."""
        if self.is_call or self.node.domain != "" or self.node.op_type != "If":
            return False
        taken = ir.tensor(np.array(self.attribute == "then_branch"))
        always = constant_node(taken)
        always.outputs[0].name = f"//taken/{self.path[-2]}"
        assert self.node.graph is not None
        self.node.graph.insert_before(self.node, always)
        self.node.replace_input_with(0, always.outputs[0])
        return True

    def turns(self, seen: Mapping[str, np.ndarray]) -> int | None:
        """Return how often a loop runs the graph at most, None if the values do not say."""
        if self.node.domain != "" or self.node.op_type not in _LOOPS:
            return None
        if self.node.op_type == "Loop":
            limits = [_known(value, seen) for value in self.node.inputs[:2] if value is not None]
            known = [limit for limit in limits if limit is not None]
            if any(not (limit > 0).all() for limit in known):
                return 0
            counts = [int(limit.max(initial=0)) for limit in known if limit.dtype.kind == "i"]
            return None if len(known) < len(limits) else min(counts, default=_ENDLESS)
        return self._length(seen)

    def feed(self, seen: Mapping[str, np.ndarray]) -> Sample:
        """Return the inputs of the graph as a model of its own, for its first turn. Raises NoValueError."""
        sample = {name: _required(value, seen) for name, value in self.captured().items()}
        arrays = self._arguments(seen)
        formal = [str(value.name) for value in self.graph.inputs]
        if len(formal) != len(arrays):
            raise NoValueError("its inputs are not those of the node")
        return sample | dict(zip(formal, arrays, strict=True))

    def next_feed(self, feed: Sample, results: Sequence[np.ndarray], *, beyond_end: bool) -> Sample | None:
        """Return the inputs for the turn of a Loop after another one, also where it would end, if asked for."""
        if not self.is_loop or (not beyond_end and not results[0].all()):
            return None
        turn, condition, *carried = (str(value.name) for value in self.graph.inputs)
        carry = dict(zip(carried, results[1:], strict=False))
        return feed | {turn: np.asarray(feed[turn] + 1), condition: np.array(True)} | carry

    def _arguments(self, seen: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return what the node passes to the inputs of the graph."""
        given = self.node.inputs
        if self.is_call:
            return [_required(value, seen) for value in given]
        if self.node.domain == "":
            match self.node.op_type:
                case "If":
                    return []
                case "Loop":
                    return [np.array(0, np.int64), np.array(True), *(_required(value, seen) for value in given[2:])]
                case "Scan":
                    return self._slices(seen)
                case "SequenceMap":
                    return [_first(_required(value, seen)) for value in given]
                case _:
                    pass
        raise NoValueError(f"{self.node.op_type} does not say what it passes")

    def alone(self, model: ir.Model, feed: Sample | None = None) -> ir.Model:
        """Return the graph as a model of its own; inputs are declared as the arrays that they get, if given."""
        inputs = (*self.graph.inputs, *self.captured().values())
        fragment = Fragment(tuple(self.graph), tuple(self.graph.outputs), inputs)
        declared = {value: _declare(value, feed) for value in inputs}
        # ONNX Runtime computes functions by the operator sets of the model.
        imports = {**self.imports, **model.opset_imports}
        try:
            copies = fragment.assembled(keeps_names=True, shapes="none", declared=declared)
            outputs = [copies.read(value) for value in self.graph.outputs]
        except OutsideError as error:
            raise NoValueError(str(error)) from None
        return copies.model(model, outputs, imports=imports, name=self.attribute)

    def _length(self, seen: Mapping[str, np.ndarray]) -> int | None:
        try:
            if self.node.op_type == "SequenceMap":
                return len(_required(self.node.inputs[0], seen))
            return min(array.shape[axis] for array, axis in self._scanned(seen))
        except (NoValueError, IndexError, ValueError):
            return None

    def _scanned(self, seen: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, int]]:
        count = self.node.attributes.get_int("num_scan_inputs", 0)
        axes = self.node.attributes.get_ints("scan_input_axes", ())
        for number, value in enumerate(self.node.inputs[len(self.node.inputs) - count :]):
            yield _required(value, seen), axes[number] if number < len(axes) else 0

    def _slices(self, seen: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        count = self.node.attributes.get_int("num_scan_inputs", 0)
        states = [_required(value, seen) for value in self.node.inputs[: len(self.node.inputs) - count]]
        try:
            return states + [array.take(0, axis) for array, axis in self._scanned(seen)]
        except IndexError:
            raise NoValueError("nothing is left to scan") from None


def functions_with_bodies(model: ir.Model) -> Functions:
    """Return the functions that hold graphs, or call others that do."""
    found = {key: function for key, function in model.functions.items() if any(map(holds_graphs, function))}
    size = -1
    while found and size < len(found):
        size = len(found)
        for key, function in model.functions.items():
            if any(node.op_identifier() in found for node in all_nodes(function)):
                found[key] = function
    return found


def bodies(graph: ir.Graph, functions: Functions, path: Path = ()) -> Iterator[Body]:
    """Yield the graphs that the nodes of a graph hold, and those of the functions given that they call."""
    for node in graph:
        function = functions.get(node.op_identifier()) if functions else None
        if function is None and not holds_graphs(node):
            continue
        here = (*path, next((str(value.name) for value in node.outputs if value.name), ""))
        if function is not None:
            yield Body((*here, _CALL), node, called_graph(function, node), function.opset_imports)
            continue
        for name, attribute in node.attributes.items():
            if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
                yield Body((*here, name), node, attribute.as_graph())
            elif attribute.type is ir.AttributeType.GRAPHS and not attribute.is_ref():
                for number, each in enumerate(attribute.as_graphs()):
                    yield Body((*here, f"{name} {number}"), node, each)


def all_bodies(graph: ir.Graph, functions: Functions, path: Path = ()) -> Iterator[Body]:
    """Yield the graphs that nodes hold or call, at any depth."""
    for body in bodies(graph, functions, path):
        yield body
        # A function that calls itself has no end.
        inner = {key: function for key, function in functions.items() if key != body.node.op_identifier()}
        yield from all_bodies(body.graph, inner, body.path)


def values_read(body: Body) -> Sequence[ir.Value]:
    """List the values around a graph that decide whether it runs and on what."""
    given = [value for value in body.node.inputs if value is not None]
    return [value for value in (*given, *body.captured().values()) if constant_tensor(value) is None]


def _known(value: ir.Value | None, seen: Mapping[str, np.ndarray]) -> np.ndarray | None:
    return (
        None if value is None else constant(value) if constant_tensor(value) is not None else seen.get(str(value.name))
    )


def _required(value: ir.Value | None, seen: Mapping[str, np.ndarray]) -> np.ndarray:
    array = _known(value, seen)
    if array is None:
        raise NoValueError("the values around it are not known" if value is None else f"'{value.name}' is not known")
    return array


def _first(elements: np.ndarray | list[np.ndarray]) -> np.ndarray:
    """Return the first element of a sequence; a tensor is passed as it is."""
    if not isinstance(elements, list):
        return elements
    if not elements:
        raise NoValueError("the sequence is empty")
    return elements[0]


def _declare(value: ir.Value, feed: Sample | None) -> ir.Value:
    if feed is None:
        return ir.Value(name=value.name, type=value.type, shape=value.shape)
    given: np.ndarray | list[np.ndarray] = feed[str(value.name)]
    if isinstance(given, list):
        if not given and value.type is None:
            raise NoValueError(f"the elements of '{value.name}' have no known type")
        sequence = ir.SequenceType(_tensor_type(given[0])) if given else value.type
        return ir.Value(name=value.name, type=sequence)
    return ir.Value(name=value.name, type=_tensor_type(given))


def _tensor_type(array: np.ndarray) -> ir.TensorType:
    try:
        return ir.TensorType(ir.DataType.from_numpy(array.dtype))
    except TypeError:
        raise NoValueError(f"{array.dtype} is no type of ONNX") from None
