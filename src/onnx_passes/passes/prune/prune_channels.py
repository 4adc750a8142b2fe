"""Remove channels that do not influence the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.channels import by_channel
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.graph.arguments import argument, integers
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import carry_annotations
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.range import Range
from onnx_passes.passes.integers.containers import held_integers, is_exact_product
from onnx_passes.passes.prune.channel_groups import ChannelGroup, ChannelPlace, group_of, made_place
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass

_RULE = "channels that make no difference"
_PADDED = "the border of a padded image would lack its value"
_ROUNDED = "sums of floats would round differently: streamline first"


@passes.verify.equality
@passes.register(tags=("quantized", "prune"))
class PruneChannels(EditorPass):
    """Remove channels of integer networks that are constant for all inputs, or that no node uses.

    Rewrites: ``MatMul(MultiThreshold(MatMul(x, w), t), v)`` where thresholds keep channel 2 at 7 for all sums →
              ``Add(MatMul(MultiThreshold(MatMul(x, w'), t'), v'), 7 * v[2])`` with one channel less. An existing bias
              absorbs the sum, following thresholds absorb it by fuse-thresholds; a channel that is 0, or has only zero
              weights, adds nothing. Channels are followed through elementwise operators, joins of branches, thresholds,
              pooling, depthwise convolutions, sums over pixels, transpositions and flattening, from all products that
              compute them to all that contract them. One channel always stays.
    Refuses:  channels that are outputs of the network, or that other operators mix (Concat, Softmax …); products whose
              sums are not exact; a channel with another constant than 0 before a padded convolution.
    Exactness: bit-exact: sums of integers are the same in any order.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference", "cleanup")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Sweep until nothing changes, as removing a consumer of channels may make others unused."""
        while not editor.stopped:
            pruned, refused = _sweep(model, editor)
            if not pruned:
                for maker, reason in refused.items():
                    editor.refuse(_RULE, reason, maker)
                return


def _sweep(model: ir.Model, editor: Editor) -> tuple[int, dict[ir.Node, str]]:
    """Remove channels of all groups with known ranges; return their number, and the reasons for refusals.

    A group that shares nodes with a pruned one is left to the next sweep, which knows the ranges of the new nodes.
    """
    known, nodes = ranges_of(model), tuple(model.graph)
    present, seen, refused, pruned = set(nodes), set[ir.Node](), dict[ir.Node, str](), 0
    for maker in nodes:
        if maker.graph is None or maker in seen or made_place(maker) is None:
            continue
        group = group_of(maker)
        if isinstance(group, str):
            refused[maker] = group
            continue
        seen.update(group.makers)
        if not group.nodes <= present:
            continue
        found = _removable(group, known)
        if isinstance(found, str):
            refused[maker] = found
        elif found.any():
            pruned += _prune(editor, model.graph, group, found, known)
    return pruned, refused


def _removable(group: ChannelGroup, known: Mapping[ir.Value, Range]) -> np.ndarray | str:
    """Return the mask of channels without influence on any reader, or the reason why all have to stay."""
    for node in (*group.makers, *group.readers):
        if not is_exact_product(node, lambda value: held_integers(value, known)):
            return _ROUNDED
    if not group.readers:
        return "no product contracts its channels"
    removable, needed = np.ones(group.channels, bool), np.zeros(group.channels, bool)
    for node in group.readers:
        same, weights = _constants(group, node, known), _rows(node)
        unread = ~weights.any(axis=1)
        padded = np.isfinite(same) & (same != 0) & ~unread & _is_padded(node)
        needed |= padded.reshape(group.channels, -1).any(axis=1)
        removable &= (unread | (np.isfinite(same) & ~padded)).reshape(group.channels, -1).all(axis=1)
    if not removable.any() and needed.any():
        return _PADDED
    if removable.all():
        removable[0] = False
    return removable


def _constants(group: ChannelGroup, node: ir.Node, known: Mapping[ir.Value, Range]) -> np.ndarray:
    """Return the constant value of each element along the channel axis, NaN for varying elements."""
    value = node.inputs[0]
    assert value is not None
    place, found = group.places[value], known[value]
    size, axis = group.channels * place.block, found.low.ndim + place.axis
    low = by_channel(found.low, axis, size, np.minimum)
    return np.where(low == by_channel(found.high, axis, size, np.maximum), low, np.nan)


def _rows(node: ir.Node) -> np.ndarray:
    """Return the weights of a reader, with a row per element of the channel axis."""
    weights = constant(node.inputs[1])
    assert weights is not None
    return np.moveaxis(weights, 1, 0).reshape(weights.shape[1], -1) if node.op_type == "Conv" else weights


def _is_padded(node: ir.Node) -> bool:
    if node.op_type != "Conv" or node.attributes.get_string("auto_pad", "NOTSET") == "VALID":
        return False
    return node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET" or any(node.attributes.get_ints("pads", ()))


def _prune(
    editor: Editor, graph: ir.Graph, group: ChannelGroup, gone: np.ndarray, known: Mapping[ir.Value, Range]
) -> bool:
    nodes = [node for node in graph if node in group.nodes]
    with editor.rewrite(_RULE, nodes[-1], matched=nodes) as rewrite:
        pruning = _Pruning(rewrite, group, np.flatnonzero(~gone), known)
        for node in nodes:
            pruning.build(node)
    return rewrite.applied


class _Pruning:
    """Rebuilds the nodes of a group for the remaining channels."""

    def __init__(
        self, rewrite: Rewrite, group: ChannelGroup, kept: np.ndarray, known: Mapping[ir.Value, Range]
    ) -> None:
        self.rewrite, self.group, self.kept, self.known = rewrite, group, kept, known
        self.made: dict[ir.Value, ir.Value] = {}

    def build(self, node: ir.Node) -> None:
        inputs: list[Any] = [None if value is None else self.made.get(value, value) for value in node.inputs]
        attributes: dict[str, Any] = {"_name": node.name}
        added = self._read(node, inputs) if node in self.group.readers else None
        if node in self.group.makers:
            added = self._make(node, inputs, added)
        if node in self.group.between:
            attributes |= self._between(node, inputs)
        bias = constant(inputs[2]) if node in self.group.readers and len(inputs) > 2 else None
        if bias is not None and added is not None:
            inputs[2], added = (bias + added).astype(bias.dtype), None
        result = self._typed(self.rewrite.op.like(node, inputs, _outputs=[node.outputs[0].name], **attributes), node)
        if added is not None and added.any():
            behind = len(result.shape or ()) - 2 if node.op_type == "Conv" else 0
            constants = added.astype(_dtype(node)).reshape(-1, *(1,) * behind)
            result = self._typed(self.rewrite.op.Add(result, constants), node)
        self.made[node.outputs[0]] = result
        if node.outputs[0] not in self.group.places:
            self.rewrite.replace(node.outputs[0], result)

    def _read(self, node: ir.Node, inputs: list[Any]) -> np.ndarray:
        """Prune the weights of a reader; return the sum that the removed channels contributed to each result."""
        value, weights = node.inputs[0], constant(node.inputs[1])
        assert value is not None
        assert weights is not None
        axis = 1 if node.op_type == "Conv" else 0
        kept = self._elements(self.group.places[value])
        same = _constants(self.group, node, self.known)
        same[kept] = 0
        rows = weights.astype(np.float64).sum(axis=tuple(range(2, weights.ndim))) if axis else weights.T
        inputs[1] = self._cut(node.inputs[1], weights.take(kept, axis))
        return rows.astype(np.float64) @ np.nan_to_num(same)

    def _make(self, node: ir.Node, inputs: list[Any], added: np.ndarray | None) -> np.ndarray | None:
        """Prune the weights of a maker."""
        is_conv = node.op_type == "Conv"
        weights = constant(inputs[1])
        assert weights is not None
        inputs[1] = self._cut(node.inputs[1], weights.take(self.kept, 0 if is_conv else 1))
        bias = argument(node, 2)
        held = constant(bias)
        if bias is not None and held is not None:
            inputs[2] = self._cut(bias, held[self.kept])
        return None if added is None else added[self.kept]

    def _between(self, node: ir.Node, inputs: list[Any]) -> dict[str, Any]:
        spread = self.group.between[node]
        place = spread.places[node.outputs[0]]
        for index, axis in spread.cuts.items():
            held = constant(node.inputs[index])
            assert held is not None
            inputs[index] = self._cut(node.inputs[index], held.take(self._elements(place), axis))
        if node.op_type == "Reshape":
            shape = integers(node, 1)
            assert shape is not None
            inputs[1] = np.array([shape[0], len(self._elements(place)) if shape[1] > 0 else shape[1]], np.int64)
        return {"group": len(self.kept)} if node.op_type == "Conv" else {}

    def _elements(self, place: ChannelPlace) -> np.ndarray:
        """Return the indices of the remaining elements along the channel axis."""
        return (self.kept[:, None] * place.block + np.arange(place.block)).reshape(-1)

    def _cut(self, old: ir.Value | None, array: np.ndarray) -> ir.Value:
        assert old is not None
        value = self.rewrite.op.initializer(np.ascontiguousarray(array), name=old.name)
        carry_annotations(old, value)
        return value

    def _typed(self, new: ir.Value, node: ir.Node) -> ir.Value:
        """Give a result the type and pruned shape of the original, so that its range can be computed."""
        old = node.outputs[0]
        place, shape = self.group.places.get(old), None if old.shape is None else list(old.shape)
        if place is not None and shape is not None:
            shape[place.axis] = len(self.kept) * place.block
        new.type = old.type
        new.shape = None if shape is None else ir.Shape(shape)
        if place is not None:
            carry_annotations(old, new)
        return new


def _dtype(node: ir.Node) -> np.dtype[Any]:
    dtype = node.outputs[0].dtype
    assert dtype is not None, name_of(node)
    return dtype.numpy()
