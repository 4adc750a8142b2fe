"""Convert networks on images to channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.claims import Claim
from onnx_passes.core.options import internal, option
from onnx_passes.graph.edits import prepend, read_instead
from onnx_passes.graph.permutations import inverse, permutation
from onnx_passes.graph.shapes import dims, rank
from onnx_passes.ops.number_systems.constants import rounded
from onnx_passes.passes.fuse.layer_laws import normalization_of
from onnx_passes.passes.layout.images import CHANNELS_LAST, ChannelsLast, ChannelsLastForm, follower, to_first, to_last
from onnx_passes.passes.layout.interface import convert_input, convert_output, transpose_of
from onnx_passes.passes.layout.layouts import LayoutChange
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.rewrite.refusal import Refusal, no

_RULE = "channels last"
_LETTERS = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


@passes.verify.tolerance
@passes.register(tags=("layout", "qonnx", "convert"))
class ConvertChannelsLast(EditorPass):
    """Convert networks on images to channels last: convolutions, pooling and the operators between them.

    Rewrites: ``Conv(x, w)`` → ``Transpose(Conv(Transpose(x), w'))`` with Conv of ``qonnx.custom_op.channels_last`` and
              transposed constant weights; likewise ConvTranspose, MaxPool, AveragePool and BatchNormalization;
              GlobalAveragePool → ReduceMean. The transposition after them sinks past the following operators
              (elementwise operators, quantizers, thresholds, Concat, Split, Slice, Pad, Resize, Softmax, reductions,
              Reshape, also into the rows of a dense layer) until the next channels-last operator absorbs it; where
              branches join, the other operands are transposed. Only transpositions at inputs and outputs remain, and
              none with ``inputs`` and ``outputs``. ``domain=standard`` keeps standard convolutions and pooling between
              transpositions, and converts everything else to channels last.
    Refuses:  images of unknown rank; ``auto_pad`` with strides, for images of unknown size; second results of MaxPool;
              padding of ConvTranspose that ``output_shape`` determines; Resize modes that ONNX Runtime has for channels
              first only; unknown operators, which stay unchanged between transpositions.
    Exactness:up to rounding: means of images, reductions and dense layers sum in another order, and functions round
              differently in other places. Bit-exact with ``exact``, which leaves these operators unchanged.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    domain: Literal["qonnx", "standard"] = option("qonnx", "domain of the convolutions and pooling")
    strict: bool = option(False, "use only operators that QONNX itself executes: not AveragePool, not ConvTranspose")
    inputs: bool = option(False, "convert inputs of the model to channels last, too")
    outputs: bool = option(False, "convert outputs of the model to channels last, too")
    exact: bool = option(False, "leave operators unchanged that would round differently")

    _inputs: dict[str, list[int]] = internal(default_factory=dict[str, list[int]])
    _outputs: dict[str, list[int]] = internal(default_factory=dict[str, list[int]])

    def __post_init__(self) -> None:
        if self.exact:
            self.claims = (Claim("equality"),)  # pyright: ignore[reportAttributeAccessIssue]

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Transpose the images at the inputs, then convert node after node."""
        self._inputs, self._outputs = {}, {}
        images, nodes = self._images(editor), tuple(editor.graph)
        if not any(map(images.starts, nodes)):
            return
        turned = self._turn_inputs(editor, images.asked(nodes))
        images.convert(nodes, _RULE)
        if self.outputs:
            turned.extend(self._turn_outputs(editor))
        images.convert(turned, _RULE)

    def _images(self, editor: Editor) -> ChannelsLast:
        if self.domain == "qonnx" and not self.strict:
            return ChannelsLast(editor, exact=self.exact)
        return StandardImages(editor, exact=self.exact, qonnx=self.domain == "qonnx")

    def _turn_inputs(self, editor: Editor, asked: set[ir.Value | None]) -> list[ir.Node]:
        """Convert the wanted inputs, with the transpositions their other consumers need; return the last new nodes."""
        found: list[ir.Node] = []
        if self.domain == "standard" and not self.inputs:
            return found
        for value in editor.graph.inputs:
            length, name = rank(value), value.name or ""
            if value not in asked or length is None or value.is_initializer() or value.is_graph_output():
                continue
            turn = partial(_turn_input if self.inputs else _there_and_back, editor, value)
            if editor.change("channels last at an input", list(value.consumers()), turn):
                found.append(editor.graph[0 if self.inputs else 1])
                if self.inputs:
                    self._inputs[name] = to_last(length)
        return found

    def _turn_outputs(self, editor: Editor) -> list[ir.Node]:
        """Return channels-last images from the model, without the transpositions at the outputs."""
        found: list[ir.Node] = []
        for value in list(editor.graph.outputs):
            producer, length = value.producer(), rank(value) or 0
            if producer is None or editor.stopped or permutation(producer) != to_first(length):
                continue
            turn = partial(convert_output, editor.graph, value, _change(length, first=True), editor.scope.names)
            name = value.name or ""
            if editor.change("channels last at an output", [producer], turn):
                found.append(editor.graph[-1])
                self._outputs[name] = to_last(length)
        return found

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return data for the original model in the layout of the converted model."""
        return _transposed(sample, self._inputs)

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return results of the original model in the layout of the converted model."""
        return _transposed(results, self._outputs)


def _transposed(arrays: Mapping[str, np.ndarray], perms: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    return {name: array.transpose(perms[name]) if name in perms else array for name, array in arrays.items()}


def _change(length: int, *, first: bool) -> LayoutChange:
    """Return the change of layout from channels first, or from channels last, to the other."""
    letters = _LETTERS.get(length, "")
    if first:
        return LayoutChange(tuple(to_last(length)), letters)
    return LayoutChange(tuple(to_first(length)), "".join(letters[axis] for axis in to_last(length)) if letters else "")


def _turn_input(editor: Editor, value: ir.Value) -> None:
    convert_input(editor.graph, value, _change(rank(value) or 0, first=False), editor.scope.names)


def _there_and_back(editor: Editor, value: ir.Value) -> None:
    length, names = rank(value) or 0, editor.scope.names
    there = transpose_of(value, to_last(length), names)
    there.outputs[0].name = names.value(f"{value.name}_channels_last")
    assert value.shape is not None
    there.outputs[0].shape = ir.Shape([value.shape[axis] for axis in to_last(length)])
    back = transpose_of(there.outputs[0], inverse(to_last(length)), names)
    back.outputs[0].name = names.value(f"{value.name}_channels_first")
    back.outputs[0].shape = ir.Shape(list(value.shape))
    read_instead(value, [there, back])
    prepend(editor.graph, [there, back])


_SEQUENCE = 3


class StandardImages(ChannelsLast):
    """Keeps operators that ONNX has for channels first only, and transposes their results for later operators.

    With ``qonnx`` only operators without a form in QONNX are kept.
    """

    def __init__(self, editor: Editor, *, exact: bool = False, qonnx: bool = False) -> None:
        super().__init__(editor, exact=exact)
        self._qonnx = qonnx

    def form(self, node: ir.Node) -> ChannelsLastForm | None:
        """Return the form of a node; operators in QONNX's domain stay between transpositions."""
        form = CHANNELS_LAST.get(node)
        if form is None or not form.starts or (self._qonnx and form.in_qonnx):
            return form
        return _NORMALIZED if node.op_type == "BatchNormalization" else _BETWEEN

    def sinks(self, transpose: ir.Node) -> bool:
        """Return whether a transposition is to sink: not if it moves channels to the end."""
        perm, source = permutation(transpose), transpose.inputs[0]
        if perm is None or perm != to_last(len(perm)):
            return True
        # With a single spatial axis, the permutation is its own inverse.
        producer = None if source is None else source.producer()
        return len(perm) == _SEQUENCE and producer is not None and not self.starts(producer)

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Report nodes that stay unchanged, except in the standard domain, where all do."""
        if self._qonnx:
            super().note_refusal(node, reason)


def _between(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    if not any(_follows(images, user) for user in node.outputs[0].consumers()):
        return no("no consumer works with channels last", at=node)
    sizes = dims(node.outputs[0])
    if sizes is not None and all(size == 1 for size in sizes[2:]):
        return no("its result is a single pixel, for which the axis order does not matter", at=node)
    return images.op.Transpose(images.op.like(node, node.inputs), perm=to_last(rank(node.outputs[0]) or 0))


def _follows(images: ChannelsLast, node: ir.Node) -> bool:
    form = images.form(node)
    return follower(node) is not None if form is None else not form.starts


def _normalized(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    """Build the normalization as product and sum, with constants along the last axis."""
    x = node.inputs[0]
    read = normalization_of(node)
    if isinstance(read, Refusal) or x is None or x.dtype is None:
        return read if isinstance(read, Refusal) else no("its type is not known", at=node)
    factors, shifts = (rounded(array, x.dtype) for array in read)
    if factors is None or shifts is None:
        return no("the factors would not be finite", at=node)
    product = images.op.Mul(images.last(x), ir.Tensor(factors, dtype=x.dtype))
    return images.op.Add(product, ir.Tensor(shifts, dtype=x.dtype))


_BETWEEN = ChannelsLastForm(_between)
_NORMALIZED = ChannelsLastForm(_normalized, starts=False, exact=False)
