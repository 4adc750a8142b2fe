"""Change the layout of a model's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError
from onnx_passes.core.options import internal, option
from onnx_passes.graph.edits import prepend, read_instead
from onnx_passes.graph.names import Names
from onnx_passes.graph.permutations import inverse
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.layout.interface import (
    MARK,
    convert_input,
    convert_output,
    describe,
    permuted_shape,
    return_instead,
    transpose_of,
)
from onnx_passes.passes.layout.layouts import LayoutChange, change_text, parse_change
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("layout",))
class ConvertLayouts(EditorPass):
    """Change the layout of inputs and outputs by a transpose at the interface.

    Rewrites: with ``inp=[NHWC>NCHW]`` the first input ``x: float[1,3,8,9]`` → ``x: float[1,8,9,3]``, and its consumers
              read ``Transpose<perm=[0,3,1,2]>(x)``; with ``out=[NCHW>NHWC]`` the first output is transposed before it
              is returned. Names stay. Inputs and outputs that are already converted are left alone. With
              ``keep-interface`` inputs and outputs are unchanged, and their consumers read
              ``Transpose(LayoutConverter(x))``, which is the identity: absorb-layouts lets the converter absorb the
              transpositions next to it.
    Refuses:  more changes than there are inputs (without those that have a default) or outputs; an unknown rank, or
              another rank than the change has; an input that is also an output; with ``keep-interface``, axes without
              letters.
    Exactness: bit-exact up to the change itself: ``after(inputs_after(x)) = outputs_after(before(x))``.
    """

    inp: tuple[Any, ...] = option((), "for each input the given and the required layout, as in NHWC>NCHW")
    out: tuple[Any, ...] = option((), "for each output the original and the returned layout")
    keep_interface: bool = option(False, "insert converters at inputs and outputs, which keep their layouts")

    _inputs: dict[str, LayoutChange] = internal(default_factory=dict[str, LayoutChange])
    _outputs: dict[str, LayoutChange] = internal(default_factory=dict[str, LayoutChange])

    def __post_init__(self) -> None:
        self.inp = tuple(map(change_text, self.inp))
        self.out = tuple(map(change_text, self.out))
        for text in (*self.inp, *self.out) if self.keep_interface else ():
            change = parse_change(text)
            if change is not None and not change.assumes:
                raise OptionError(
                    f"{text} names no axes, but a LayoutConverter needs names",
                    hint="write NCHW>NHWC, or add assumes: NCHW",
                )

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Check all changes first, then convert inputs and outputs one by one."""
        graph, names = model.graph, editor.scope.names
        required = [value for value in graph.inputs if not value.is_initializer()]
        inputs = _pending(required, self.inp, "input")
        outputs = _pending(list(graph.outputs), self.out, "output")
        self._inputs, self._outputs = {}, {}
        put_input = _put_at_input if self.keep_interface else convert_input
        put_output = _put_at_output if self.keep_interface else convert_output
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
        """Return data for the original model in the layout of the converted model."""
        return {name: _transposed(array, self._inputs.get(name), back=True) for name, array in sample.items()}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return results of the original model in the layout of the converted model."""
        return {name: _transposed(array, self._outputs.get(name)) for name, array in results.items()}


def _transposed(array: np.ndarray, change: LayoutChange | None, *, back: bool = False) -> np.ndarray:
    if change is None:
        return array
    return array.transpose(np.argsort(change.perm) if back else change.perm)


def _pending(values: Sequence[ir.Value], texts: Sequence[str], what: str) -> list[tuple[ir.Value, LayoutChange]]:
    """Pair values with their changes, without changes that are already applied."""
    if len(texts) > len(values):
        raise PassFailedError(
            f"layouts of {len(texts)} {what}s are given, the model has {len(values)}",
            hint="give one for each, in order",
        )
    found: list[tuple[ir.Value, LayoutChange]] = []
    for value, text in zip(values, texts, strict=False):
        change = parse_change(text)
        if change is None or value.metadata_props.get(MARK) == str(change):
            continue
        if value.shape is None or len(value.shape) != len(change.perm):
            rank = "unknown rank" if value.shape is None else f"rank {len(value.shape)}"
            raise PassFailedError(
                f"{what} '{value.name}' of {rank} cannot be changed by {change}", hint="give as many axes as it has"
            )
        if value.is_graph_input() and value.is_graph_output():
            raise PassFailedError(f"{what} '{value.name}' is also an output", hint="leave it with '-'")
        found.append((value, change))
    return found


def _put_at_input(graph: ir.Graph, value: ir.Value, change: LayoutChange, names: Names) -> None:
    """Insert a converter and its inverse after an input."""
    graph.opset_imports.setdefault(OUR_DOMAIN, 1)
    nodes = _there_and_back(value, change, names)
    read_instead(value, nodes)
    value.metadata_props[MARK] = str(change)
    prepend(graph, nodes)


def _put_at_output(graph: ir.Graph, value: ir.Value, change: LayoutChange, names: Names) -> None:
    """Insert a converter and its inverse before an output."""
    graph.opset_imports.setdefault(OUR_DOMAIN, 1)
    return_instead(graph, value, _there_and_back(value, change, names), change, names)


def _there_and_back(value: ir.Value, change: LayoutChange, names: Names) -> list[ir.Node]:
    """Make a converter and the transposition that undoes it."""
    assert value.shape is not None
    name = names.node(f"{value.name}/LayoutConverter")
    layouts = {"from_layout": change.assumes, "to_layout": change.gives}
    converter = ir.node("LayoutConverter", [value], layouts, domain=OUR_DOMAIN, name=name)
    converted = converter.outputs[0]
    describe(converted, value)
    converted.name = names.value(f"{value.name}_{change.gives.lower()}")
    converted.shape = permuted_shape(value.shape, change.perm)
    back = transpose_of(converted, inverse(change.perm), names)
    back.outputs[0].name = names.value(f"{value.name}_{change.assumes.lower()}")
    back.outputs[0].shape = permuted_shape(converted.shape, inverse(change.perm))
    return [converter, back]
