"""Let a model take and return its data in another layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError
from onnx_passes.core.options import internal, option
from onnx_passes.graph.edits import carry_annotations, copy_type
from onnx_passes.graph.names import Names
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.layout.layouts import Change, change_text, parse_change
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_MARK = "onnx_passes.layout"


@passes.verify.equality
@passes.register(tags=("layout",))
class ConvertLayouts(EditorPass):
    """Change the layout of inputs and outputs: a transpose at the interface.

    Rewrites: with ``inp=[NHWC>NCHW]`` the first input ``x: float[1,3,8,9]`` → ``x: float[1,8,9,3]``, and what read it
              reads ``Transpose<perm=[0,3,1,2]>(x)``; with ``out=[NCHW>NHWC]`` the first output is transposed before it
              is returned. Names stay. An input or output that was converted so before is left as it is.
              With ``keep-interface`` inputs and outputs stay as they are, and what reads them reads
              ``Transpose(LayoutConverter(x))``, which does nothing: absorb-layouts lets the converter take up the
              transpositions that it meets.
    Refuses:  more changes than there are inputs (without those that have a default) or outputs; a rank that is not
              known or does not fit; an input that is returned as it is; with ``keep-interface``, axes without letters.
    Exactness: bit-exact up to the change itself: ``after(inputs_after(x)) = outputs_after(before(x))``.
    """

    inp: tuple[Any, ...] = option((), "for each input the layout that it comes in, and the one it is put in: NHWC>NCHW")
    out: tuple[Any, ...] = option((), "for each output the layout that it has, and the one it is returned in")
    keep_interface: bool = option(False, "put converters at inputs and outputs, which stay as they are")

    _inputs: dict[str, Change] = internal(default_factory=dict[str, Change])
    _outputs: dict[str, Change] = internal(default_factory=dict[str, Change])

    def __post_init__(self) -> None:
        self.inp = tuple(map(change_text, self.inp))
        self.out = tuple(map(change_text, self.out))
        for text in (*self.inp, *self.out) if self.keep_interface else ():
            change = parse_change(text)
            if change is not None and not change.assumes:
                raise OptionError(
                    f"{text} names no axes, as a LayoutConverter does", hint="write NCHW>NHWC, or add assumes: NCHW"
                )

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Check everything first, then change inputs and outputs one by one."""
        graph, names = model.graph, editor.scope.names
        required = [value for value in graph.inputs if not value.is_initializer()]
        inputs = _pending(required, self.inp, "input")
        outputs = _pending(list(graph.outputs), self.out, "output")
        self._inputs, self._outputs = {}, {}
        put_input = _put_at_input if self.keep_interface else _convert_input
        put_output = _put_at_output if self.keep_interface else _convert_output
        for value, change in inputs:
            name, put = value.name or "", partial(put_input, graph, value, change, names)
            done = editor.change("layout of an input", list(dict.fromkeys(value.consumers())), put)
            if done and not self.keep_interface:
                self._inputs[name] = change
        for value, change in outputs:
            name, put = value.name or "", partial(put_output, graph, value, change, names)
            producer = value.producer()
            done = editor.change("layout of an output", [] if producer is None else [producer], put)
            if done and not self.keep_interface:
                self._outputs[name] = change

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
    node = _transpose(value, change.perm, names)
    node.outputs[0].name = names.value(f"{value.name}_{change.gives.lower() or 'transposed'}")
    node.outputs[0].shape = old
    _read_instead(value, [node])
    value.shape = _permuted(old, _inverse(change.perm))
    value.metadata_props[_MARK] = str(change)
    _prepend(graph, [node])


def _put_at_input(graph: ir.Graph, value: ir.Value, change: Change, names: Names) -> None:
    """Put a converter and what undoes it behind an input."""
    graph.opset_imports.setdefault(OUR_DOMAIN, 1)
    nodes = _there_and_back(value, change, names)
    _read_instead(value, nodes)
    value.metadata_props[_MARK] = str(change)
    _prepend(graph, nodes)


def _put_at_output(graph: ir.Graph, value: ir.Value, change: Change, names: Names) -> None:
    """Put a converter and what undoes it in front of an output."""
    graph.opset_imports.setdefault(OUR_DOMAIN, 1)
    _return_instead(graph, value, _there_and_back(value, change, names), change, names)


def _read_instead(value: ir.Value, nodes: Sequence[ir.Node]) -> None:
    """Let all that reads a value read what the last of some nodes makes of it."""
    for user, index in list(value.uses()):
        if user is not nodes[0]:
            user.replace_input_with(index, nodes[-1].outputs[0])


def _prepend(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    if len(graph):
        graph.insert_before(graph[0], nodes)
    else:
        graph.extend(nodes)


def _convert_output(graph: ir.Graph, value: ir.Value, change: Change, names: Names) -> None:
    """Return a transposed value under the name of the old one, which gets another."""
    assert value.shape is not None
    node = _transpose(value, change.perm, names)
    node.outputs[0].shape = _permuted(value.shape, change.perm)
    _return_instead(graph, value, [node], change, names)


def _return_instead(graph: ir.Graph, value: ir.Value, nodes: Sequence[ir.Node], change: Change, names: Names) -> None:
    """Return what the last of some nodes makes of a value, under its name."""
    result = nodes[-1].outputs[0]
    result.name, value.name = value.name, names.value(f"{value.name}_{change.assumes.lower() or 'before'}")
    result.metadata_props[_MARK] = str(change)
    graph.extend(nodes)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = result


def _there_and_back(value: ir.Value, change: Change, names: Names) -> list[ir.Node]:
    """Make a converter and the transposition that undoes it."""
    assert value.shape is not None
    name = names.node(f"{value.name}/LayoutConverter")
    layouts = {"from_layout": change.assumes, "to_layout": change.gives}
    converter = ir.node("LayoutConverter", [value], layouts, domain=OUR_DOMAIN, name=name)
    converted = converter.outputs[0]
    _describe(converted, value)
    converted.name = names.value(f"{value.name}_{change.gives.lower()}")
    converted.shape = _permuted(value.shape, change.perm)
    back = _transpose(converted, _inverse(change.perm), names)
    back.outputs[0].name = names.value(f"{value.name}_{change.assumes.lower()}")
    back.outputs[0].shape = _permuted(converted.shape, _inverse(change.perm))
    return [converter, back]


def _transpose(value: ir.Value, perm: Sequence[int], names: Names) -> ir.Node:
    node = ir.node("Transpose", [value], {"perm": list(perm)}, name=names.node(f"{value.name}/Transpose"))
    _describe(node.outputs[0], value)
    return node


def _describe(result: ir.Value, value: ir.Value) -> None:
    result.type = None if value.type is None else copy_type(value.type)
    carry_annotations(value, result)


def _inverse(perm: Sequence[int]) -> list[int]:
    return [perm.index(axis) for axis in range(len(perm))]


def _permuted(shape: ir.Shape, perm: Sequence[int]) -> ir.Shape:
    return ir.Shape([shape[axis] for axis in perm], denotations=[shape.get_denotation(axis) for axis in perm])
