"""Let a model take and return its data in another layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import internal, option
from onnx_passes.graph.edits import carry_annotations, copy_type
from onnx_passes.graph.names import Names
from onnx_passes.passes.layout.layouts import Change, change_text, parse_change

_MARK = "onnx_passes.layout"


@passes.verify.equality
@passes.register(tags=("layout",))
class ConvertLayouts(Transformation):
    """Let the model take inputs and return outputs in another layout: a transposition at the interface.

    Rewrites: with ``inp=[NHWC>NCHW]`` the first input ``x: float[1,3,8,9]`` → ``x: float[1,8,9,3]``, and what read it
              reads ``Transpose<perm=[0,3,1,2]>(x)``; with ``out=[NCHW>NHWC]`` the first output is transposed before it
              is returned. Names stay. An input or output that was converted so before is left as it is.
    Refuses:  more changes than there are inputs (without those that have a default) or outputs; a rank that is not
              known or does not fit; an input that is returned as it is.
    Exactness: bit-exact up to the change itself: ``after(inputs_after(x)) = outputs_after(before(x))``.
    """

    inp: tuple[Any, ...] = option((), "for each input the layout that it comes in, and the one it is put in: NHWC>NCHW")
    out: tuple[Any, ...] = option((), "for each output the layout that it has, and the one it is returned in")

    _inputs: dict[str, Change] = internal(default_factory=dict[str, Change])
    _outputs: dict[str, Change] = internal(default_factory=dict[str, Change])

    def __post_init__(self) -> None:
        self.inp = tuple(map(change_text, self.inp))
        self.out = tuple(map(change_text, self.out))

    def call(self, model: ir.Model) -> PassResult:
        """Check everything first, then change inputs and outputs."""
        graph = model.graph
        required = [value for value in graph.inputs if not value.is_initializer()]
        inputs = _pending(required, self.inp, "input")
        outputs = _pending(list(graph.outputs), self.out, "output")
        self._inputs = {value.name or "": change for value, change in inputs}
        self._outputs = {value.name or "": change for value, change in outputs}
        names = Names.of(graph)
        for value, change in inputs:
            _convert_input(graph, value, change, names)
        for value, change in outputs:
            _convert_output(graph, value, change, names)
        return PassResult(model, modified=bool(inputs or outputs))

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return data for the model before the last call as the model after it takes it."""
        return {name: _transposed(array, self._inputs.get(name), back=True) for name, array in sample.items()}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return results of the model before the last call as the model after it returns them."""
        return {name: _transposed(array, self._outputs.get(name)) for name, array in results.items()}


def _transposed(array: np.ndarray, change: Change | None, *, back: bool = False) -> np.ndarray:
    if change is None:
        return array
    return array.transpose(np.argsort(change.perm) if back else change.perm)


def _pending(values: Sequence[ir.Value], texts: Sequence[str], what: str) -> list[tuple[ir.Value, Change]]:
    """Pair values with their changes; those that the values already went through are done."""
    if len(texts) > len(values):
        raise PassFailedError(
            f"layouts of {len(texts)} {what}s are given, the model has {len(values)}",
            hint="give one for each, in order",
        )
    found: list[tuple[ir.Value, Change]] = []
    for value, text in zip(values, texts, strict=False):
        change = parse_change(text)
        if change is None or value.metadata_props.get(_MARK) == str(change):
            continue
        if value.shape is None or len(value.shape) != len(change.perm):
            rank = "unknown rank" if value.shape is None else f"rank {len(value.shape)}"
            raise PassFailedError(
                f"{what} '{value.name}' of {rank} cannot be changed by {change}", hint="give as many axes as it has"
            )
        if value.is_graph_input() and value.is_graph_output():
            raise PassFailedError(f"{what} '{value.name}' is returned as it is", hint="leave it with '-'")
        found.append((value, change))
    return found


def _convert_input(graph: ir.Graph, value: ir.Value, change: Change, names: Names) -> None:
    """Put a transposition behind an input; it has the shape that gives the old one."""
    old = value.shape
    assert old is not None
    node = _transpose(value, change, names)
    result = node.outputs[0]
    result.name = names.value(f"{value.name}_{change.gives.lower() or 'transposed'}")
    result.shape = old
    for user, index in list(value.uses()):
        if user is not node:
            user.replace_input_with(index, result)
    value.shape = _permuted(old, [change.perm.index(axis) for axis in range(len(change.perm))])
    value.metadata_props[_MARK] = str(change)
    if len(graph):
        graph.insert_before(graph[0], node)
    else:
        graph.append(node)


def _convert_output(graph: ir.Graph, value: ir.Value, change: Change, names: Names) -> None:
    """Return a transposed value under the name of the old one, which gets another."""
    assert value.shape is not None
    node = _transpose(value, change, names)
    result = node.outputs[0]
    result.name, result.shape = value.name, _permuted(value.shape, change.perm)
    result.metadata_props[_MARK] = str(change)
    value.name = names.value(f"{value.name}_{change.assumes.lower() or 'before'}")
    graph.append(node)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = result


def _transpose(value: ir.Value, change: Change, names: Names) -> ir.Node:
    node = ir.node("Transpose", [value], {"perm": list(change.perm)}, name=names.node(f"{value.name}/Transpose"))
    result = node.outputs[0]
    result.type = None if value.type is None else copy_type(value.type)
    carry_annotations(value, result)
    return node


def _permuted(shape: ir.Shape, perm: Sequence[int]) -> ir.Shape:
    return ir.Shape([shape[axis] for axis in perm], denotations=[shape.get_denotation(axis) for axis in perm])
