"""Compute nodes whose inputs are constant, as ONNX Runtime would when the model runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_node
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.uses import is_updated
from onnx_passes.verify.run.execute import Engine, ExecutionError, Executor, Profile

Results = dict[ir.Value, ir.TensorProtocol]
Signature = tuple[object, ...]

_OUTPUTS = 2000
"""ONNX Runtime takes quadratic time in the number of outputs, so that more of them go into several sessions."""
_NO_KERNEL = "no kernel"
_MOVING = {("", "Identity", ""), ("", "ConstantOfShape", "")}


class Evaluator:
    """Runs nodes in one session; what fails in it is singled out, and left out if it cannot be computed at all."""

    def __init__(self, model: ir.Model, imports: Mapping[str, int], executor: Executor | None = None) -> None:
        self._model = model
        self._imports = dict(imports)
        # What is stored must be what the model computes wherever it runs.
        self._executor = executor or Executor(Profile(round_halves=False))
        self._without_kernel: set[Signature] = set()

    def rounding(self) -> Evaluator:
        """Return another one that rounds every result in half precision."""
        return Evaluator(self._model, self._imports, Executor())

    def run(self, nodes: Sequence[ir.Node], wanted: Collection[ir.Value]) -> Results:
        """Compute the wanted values, as far as possible; nodes come after those that they read from."""
        results: Results = {}
        if wanted:
            pieces = range(0, len(nodes), _OUTPUTS) if len(wanted) > _OUTPUTS and not _has_half(nodes) else (0,)
            self._in_pieces(nodes, [*pieces, len(nodes)], wanted, results)
        return {value: results[value] for value in wanted if value in results}

    def _in_pieces(
        self, nodes: Sequence[ir.Node], cuts: list[int], wanted: Collection[ir.Value], into: Results
    ) -> None:
        """Run consecutive pieces; each also yields what later ones read."""
        pieces = [nodes[start:end] for start, end in pairwise(cuts)]
        read_later = [set[ir.Value](wanted)]
        for piece in reversed(pieces[1:]):
            read_later.append(read_later[-1] | {value for node in piece for value in node.inputs if value is not None})
        for piece, needed in zip(pieces, reversed(read_later), strict=True):
            here = [value for node in piece for value in node.outputs if value in needed]
            self._piece(piece, here, into)

    def _piece(self, nodes: Sequence[ir.Node], wanted: Collection[ir.Value], into: Results) -> None:
        nodes = _computable(nodes, into)
        levels = self._levels(nodes)
        if len(levels) > 1:
            order, cuts = [node for level in levels for node in level], [0]
            for level in levels:
                cuts.append(cuts[-1] + len(level))
            self._in_pieces(order, cuts, wanted, into)
        elif nodes and _signature(nodes[0]) in self._without_kernel:
            for node in nodes:
                self._alone(node, into)
        elif nodes:
            self._together(nodes, wanted, into)

    def _together(self, nodes: Sequence[ir.Node], wanted: Collection[ir.Value], into: Results) -> None:
        needed = set(wanted)
        try:
            into.update(self._session(nodes, [v for node in nodes for v in node.outputs if v in needed], into))
        except (ExecutionError, ModelError) as error:
            if len(nodes) > 1:
                self._in_pieces(nodes, [0, len(nodes) // 2, len(nodes)], wanted, into)
            elif _NO_KERNEL in str(error):
                self._without_kernel.add(_signature(nodes[0]))
                self._alone(nodes[0], into)

    def _alone(self, node: ir.Node, into: Results) -> None:
        """Compute a node for which ONNX Runtime has no kernel."""
        if not _computable([node], into):
            return
        try:
            into.update(self._session([node], [value for value in node.outputs if value.name], into, "reference"))
        except (ExecutionError, ModelError):
            return

    def _levels(self, nodes: Sequence[ir.Node]) -> list[list[ir.Node]]:
        """Group nodes so that those with a kernel and those without take turns."""
        if not self._without_kernel:
            return [list(nodes)]
        level_of: dict[ir.Node, int] = {}
        levels: dict[int, list[ir.Node]] = {}
        for node in nodes:
            producers = (None if value is None else value.producer() for value in node.inputs)
            level = max((level_of[producer] for producer in producers if producer in level_of), default=0)
            level_of[node] = level + (level % 2 != (_signature(node) in self._without_kernel))
            levels.setdefault(level_of[node], []).append(node)
        return [levels[level] for level in sorted(levels)]

    def _session(
        self, nodes: Sequence[ir.Node], wanted: Sequence[ir.Value], known: Results, engine: Engine = "onnxruntime"
    ) -> Results:
        copy = _Copy(known)
        for node in nodes:
            copy.add(node)
        if not wanted:
            return {}
        outputs = {value: copy.values[value] for value in wanted}
        graph = ir.Graph(
            [], list(outputs.values()), nodes=copy.nodes, initializers=copy.weights, opset_imports=self._imports
        )
        functions = list(self._model.functions.values()) if any(node.domain for node in nodes) else []
        ready = self._executor.prepare(
            ir.Model(graph, ir_version=max(self._model.ir_version, 4), functions=functions), engine=engine
        )
        arrays = ready.run({})
        tensors = {value: as_tensor(arrays[str(name.name)], value.dtype) for value, name in outputs.items()}
        return {value: tensor for value, tensor in tensors.items() if tensor is not None}


class _Copy:
    """Copies of nodes with names of their own, and the constants that they read."""

    def __init__(self, known: Results) -> None:
        self.nodes: list[ir.Node] = []
        self.weights: list[ir.Value] = []
        self.values: dict[ir.Value, ir.Value] = {}
        self._shared: dict[ir.Value, ir.Value] = {}
        self._known = known

    def add(self, node: ir.Node) -> None:
        inputs = [self._read(value, own=is_updated(node, index)) for index, value in enumerate(node.inputs)]
        made = copy_node(node, inputs)
        self.nodes.append(made)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            new.name = self._name() if old.name else ""
            new.type = None if old.dtype is None else ir.TensorType(old.dtype)
            self.values[old] = new

    def _read(self, value: ir.Value | None, *, own: bool) -> ir.Value | None:
        """Return what stands for an input; a constant that is written to is read by one node alone."""
        if value is None or value in self.values:
            return None if value is None else self.values[value]
        if own:
            return self._weight(value)
        if value not in self._shared:
            self._shared[value] = self._weight(value)
        return self._shared[value]

    def _weight(self, value: ir.Value) -> ir.Value:
        tensor = self._known.get(value) or constant_tensor(value)
        assert tensor is not None
        made = ir.Value(name=self._name(), type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
        made.const_value = tensor
        self.weights.append(made)
        return made

    def _name(self) -> str:
        return f"v{len(self.values) + len(self.weights)}"


def as_tensor(array: np.ndarray, dtype: ir.DataType | None) -> ir.TensorProtocol | None:
    """Wrap a result; nothing if its type is not the one that the value has."""
    if array.dtype.kind in "OSU":
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.ravel().tolist()]
        return ir.StringTensor(texts, shape=ir.Shape(array.shape))
    try:
        found = ir.DataType.from_numpy(array.dtype)
    except TypeError:
        return None
    if dtype is None and found is ir.DataType.FLOAT16:
        # Whether it is exact was asked of values that are known to have this type.
        return None
    return ir.Tensor(array, found) if dtype is None or dtype == found else None


def inexact_values(evaluator: Evaluator, nodes: Sequence[ir.Node]) -> set[ir.Value]:
    """Find results that depend on where half precision is rounded.

    They are such halves themselves, and what is computed of them in other types where it is something else if every
    result is rounded, as ONNX says: neither of the two may be stored for the other.
    """
    inexact = inexact_halves(evaluator, nodes)
    reached = set(inexact)
    behind: list[ir.Value] = []
    for node in nodes:
        if any(value in reached for value in node.inputs):
            reached.update(node.outputs)
            behind += [value for value in node.outputs if value.name and value.dtype != ir.DataType.FLOAT16]
    kept, rounded = (each.run(nodes, behind) for each in (evaluator, evaluator.rounding())) if behind else ({}, {})
    for value in behind:
        pair = kept.get(value), rounded.get(value)
        if pair[0] is None or pair[1] is None or pair[0].tobytes() != pair[1].tobytes():
            inexact.add(value)
    return inexact


def inexact_halves(evaluator: Evaluator, nodes: Sequence[ir.Node]) -> set[ir.Value]:
    """Find results in half precision that ONNX Runtime keeps in higher precision until the next node has read them.

    It computes most operators on ``float16`` in ``float32``, and rounds only where a value leaves such a chain. A
    stored result would be rounded.
    """
    values = _computed_halves(nodes)
    rounded = evaluator.run(nodes, values) if values else {}
    tests: dict[ir.Node, ir.Value] = {}
    for value, tensor in rounded.items():
        stored = ir.Value(name="rounded", type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
        stored.const_value = tensor
        test = ir.Node("", "Equal", [value, stored])
        test.outputs[0].name, test.outputs[0].type = "equal", ir.TensorType(ir.DataType.BOOL)
        tests[test] = value
    try:
        equal = evaluator.run([*nodes, *tests], [test.outputs[0] for test in tests])
    finally:
        for test in tests:
            test.replace_input_with(0, None)
    inexact = set(values)
    for test, value in tests.items():
        tensor = equal.get(test.outputs[0])
        if tensor is not None and bool(np.all(tensor.numpy() | np.isnan(rounded[value].numpy()))):
            inexact.discard(value)
    return inexact


def _computed_halves(nodes: Sequence[ir.Node]) -> list[ir.Value]:
    """List results in half precision, but for those that only moved constants around."""
    computed: dict[ir.Value, None] = {}
    for node in nodes:
        moves = traits_of(node).kind == "movement" or node.op_identifier() in _MOVING
        if not moves or any(value in computed for value in node.inputs):
            halves = (value for value in node.outputs if value.dtype == ir.DataType.FLOAT16 and value.name)
            computed.update(dict.fromkeys(halves))
    return list(computed)


def _computable(nodes: Iterable[ir.Node], known: Results) -> list[ir.Node]:
    """Leave out nodes that read something which could not be computed."""
    there: set[ir.Value] = set()
    kept: list[ir.Node] = []
    for node in nodes:
        values = (value for value in node.inputs if value is not None)
        if all(value in there or value in known or constant_tensor(value) is not None for value in values):
            kept.append(node)
            there.update(node.outputs)
    return kept


def _has_half(nodes: Sequence[ir.Node]) -> bool:
    return any(value.dtype == ir.DataType.FLOAT16 for node in nodes for value in node.outputs)


def _signature(node: ir.Node) -> Signature:
    types = tuple(None if value is None else value.dtype for value in (*node.inputs, *node.outputs))
    return node.op_identifier(), types
