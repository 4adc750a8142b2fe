"""Compute nodes whose inputs are constant, as ONNX Runtime would when the model runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.fragment.assembly import Assembly
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.traits import traits_of
from onnx_passes.verify.run.execute import Engine, ExecutionError, Executor, Profile

Results = dict[ir.Value, ir.TensorProtocol]
Signature = tuple[object, ...]

_OUTPUTS = 2000
"""ONNX Runtime takes quadratic time in the number of outputs, so that more of them go into several sessions."""
_NO_KERNEL = "no kernel"
_MOVING = {("", "Identity", ""), ("", "ConstantOfShape", "")}


class ConstantEvaluator:
    """Runs nodes in one session; failing nodes are isolated, and left out if they cannot be computed."""

    def __init__(self, model: ir.Model, imports: Mapping[str, int], executor: Executor | None = None) -> None:
        self._model = model
        self._imports = dict(imports)
        # What is stored must be what the model computes wherever it runs.
        self._executor = executor or Executor(Profile(round_halves=False))
        self._without_kernel: set[Signature] = set()

    def rounding(self) -> ConstantEvaluator:
        """Return an evaluator that rounds every result in half precision."""
        return ConstantEvaluator(self._model, self._imports, Executor())

    def run(self, nodes: Sequence[ir.Node], wanted: Collection[ir.Value]) -> Results:
        """Compute the wanted values, as far as possible; nodes come after their producers."""
        results: Results = {}
        if wanted:
            pieces = range(0, len(nodes), _OUTPUTS) if len(wanted) > _OUTPUTS and not _has_half(nodes) else (0,)
            self._in_pieces(nodes, [*pieces, len(nodes)], wanted, results)
        return {value: results[value] for value in wanted if value in results}

    def _in_pieces(
        self, nodes: Sequence[ir.Node], cuts: list[int], wanted: Collection[ir.Value], into: Results
    ) -> None:
        """Run consecutive parts of the nodes; each also returns the operands of later ones."""
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
        copies = Assembly(shapes="none")
        for value in dict.fromkeys(value for node in nodes for value in node.inputs):
            if value is not None and value in known:
                copies.weight(known[value], value)
        copies.add(nodes)
        if not wanted:
            return {}
        outputs = {value: copies.values[value] for value in wanted}
        whole = copies.model(self._model, outputs.values(), imports=self._imports)
        arrays = self._executor.prepare(whole, engine=engine).run({})
        tensors = {value: as_tensor(arrays[str(made.name)], value.dtype) for value, made in outputs.items()}
        return {value: tensor for value, tensor in tensors.items() if tensor is not None}


def as_tensor(array: np.ndarray, dtype: ir.DataType | None) -> ir.TensorProtocol | None:
    """Return a result as a tensor; None if it has another type than the value."""
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


def inexact_values(evaluator: ConstantEvaluator, nodes: Sequence[ir.Node]) -> set[ir.Value]:
    """Return the results that depend on the rounding of half precision.

    These are results in half precision, and later results of other types that differ if every intermediate result is
    rounded, as ONNX specifies: neither of the two may be stored for the other.
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


def inexact_halves(evaluator: ConstantEvaluator, nodes: Sequence[ir.Node]) -> set[ir.Value]:
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
    """Return the results in half precision, except for moved constants."""
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
