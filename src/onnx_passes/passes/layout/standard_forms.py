"""Standard convolutions and pooling between transpositions, in channels-last networks."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.arithmetic import rounded
from onnx_passes.graph.permutations import permutation
from onnx_passes.graph.shapes import dims, rank
from onnx_passes.passes.fuse.layer_laws import normalization_of
from onnx_passes.passes.layout.images import CHANNELS_LAST, ChannelsLast, ChannelsLastForm, follower, to_last
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.refusal import Refusal, no

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
