"""Convert networks on images to channels last, node by node.

Operators with a channels-last form (``CHANNELS_LAST``: convolutions, pooling, …) read transposed images and return such
images; the transposition back that follows sinks past the next operators (``AXES``) until one absorbs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.edits import carry_annotations, copy_type
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.permutations import (
    Permutation,
    inverse,
    moves_only_ones,
    permutation,
    permuted,
    reshape_target,
    transposed,
    untransposed,
)
from onnx_passes.graph.shapes import Dim, dims, rank
from onnx_passes.graph.tensor_types import datatype_of, layout_of, set_datatype, set_layout
from onnx_passes.graph.traits import is_elementwise, is_product
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.quantizer import Quantizer
from onnx_passes.passes.layout.flattened import before_flattening
from onnx_passes.passes.layout.rearranged import rearranged
from onnx_passes.passes.move.axes import AXES, Handler, elementwise, is_join, is_steady
from onnx_passes.passes.move.forms import shaped
from onnx_passes.passes.move.quantizer_axes import past_quantizer
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

_LEAST_RANK, _DENSE_RANK = 3, 2


@dataclass(frozen=True)
class ChannelsLastForm:
    """The channels-last form of an operator.

    ``build`` returns the result with channels last, or refuses. Operators with ``starts`` have their images transposed;
    others only use images that already are. Those that are not ``exact`` sum in another order. ``in_qonnx``: QONNX can
    execute the operator.
    """

    build: Callable[[ChannelsLast, ir.Node], ir.Value | Refusal]
    starts: bool = True
    exact: bool = True
    in_qonnx: bool = True


CHANNELS_LAST: Interface[ChannelsLastForm] = Interface(
    "channels_last",
    "its form for images with channels last",
    "onnx_passes.passes.layout.window_forms",
    "onnx_passes.passes.layout.space_forms",
)


def to_last(length: int) -> Permutation:
    """Return the permutation that moves the second axis to the end."""
    return [0, *range(2, length), 1]


def to_first(length: int) -> Permutation:
    """Return the permutation that moves the last axis to the second place."""
    return [0, length - 1, *range(1, length - 1)]


def follower(node: ir.Node) -> Handler | None:
    """Return the handler that moves a node before a transposition; None if there is none."""
    handler = AXES.get(node)
    if handler is None and is_elementwise(node):
        return elementwise
    return past_quantizer if handler is None and isinstance(definition_of(node), Quantizer) else handler


class ChannelsLast:
    """Converts the images of a graph to channels last in one sweep; each node is one rewrite of ``op``.

    If ``exact``, operators whose bits depend on the order of elements keep their layout.
    """

    def __init__(self, editor: Editor, *, exact: bool = False) -> None:
        self.editor, self._exact = editor, exact
        self.op = editor.builder()
        self._turned: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}
        self._wanted: set[ir.Value | None] = set()
        self._of_constants: set[ir.Value | None] = set()

    def form(self, node: ir.Node) -> ChannelsLastForm | None:
        """Return the channels-last form of a node; targets override it."""
        return CHANNELS_LAST.get(node)

    def sinks(self, transpose: ir.Node) -> bool:
        """Return whether a transposition is to sink past its consumers."""
        return True

    def is_exact(self, node: ir.Node) -> bool:
        """Return whether a node gives the same bits for elements in another order."""
        form = self.form(node)
        return is_steady(node) if form is None else form.exact

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Report a node with a channels-last form that stays unchanged."""
        self.editor.context.note(f"{name_of(node)} keeps its channels first: {reason}")

    def convert_all(self, rule: str) -> None:
        """Convert all nodes in graph order, so that each node reads converted values."""
        self.convert(tuple(self.editor.graph), rule)

    def convert(self, nodes: Sequence[ir.Node], rule: str) -> None:
        """Convert the given nodes, in their graph order."""
        self._wanted, self._of_constants = self._find_wanted(nodes), _of_constants(nodes)
        for node in nodes:
            if self.editor.stopped:
                return
            if node.graph is not None:
                self._convert(f"{rule} of {node.op_type}", node)

    def starts(self, node: ir.Node) -> bool:
        """Return whether images are transposed for a node."""
        form = self.form(node)
        return form is not None and form.starts and _may_be_image(argument(node, 0))

    def asked(self, nodes: Sequence[ir.Node]) -> set[ir.Value | None]:
        """Return the images that are transposed for a node, directly or through followers."""
        found: set[ir.Value | None] = set()
        for node in reversed(nodes):
            if self.starts(node):
                found.add(argument(node, 0))
            elif follower(node) is not None and any(value in found for value in node.outputs):
                length = rank(node.outputs[0])
                found.update(value for value in node.inputs if rank(value) == length and not is_constant(value))
        return found

    def _find_wanted(self, nodes: Sequence[ir.Node]) -> set[ir.Value | None]:
        """Return the values whose transposition a later node absorbs, directly or through followers."""
        found: set[ir.Value | None] = set(self.editor.graph.outputs)
        for node in reversed(nodes):
            if self._exact and not self.is_exact(node):
                continue
            is_dense = is_product(node) and rank(argument(node, 0)) == _DENSE_RANK
            if self.form(node) is not None or is_dense or (node.domain, node.op_type) == ("", "Transpose"):
                found.add(argument(node, 0))
            elif follower(node) is not None and not found.isdisjoint(node.outputs):
                found.update(value for value in node.inputs if not is_constant(value))
        return found

    def last(self, value: ir.Value) -> ir.Value:
        """Return an image with its channels last."""
        return self.before(value, to_first(rank(value) or 0))

    def before(self, value: ir.Value, perm: Permutation) -> ir.Value:
        """Return the value before its transposition by ``perm``; build the inverse, once, if there is none."""
        found = untransposed(value, perm)
        if isinstance(found, ir.Value):
            return found
        if found is not None:
            made = self.op.initializer(found, value.name)
            carry_annotations(value, made)
            return made
        key = value, tuple(perm)
        made = self._turned.get(key)
        if made is None or (made.graph is None and made.producer() not in self.op.nodes):
            made = self._turned[key] = self._put_back(value, inverse(perm))
        return made

    def _put_back(self, value: ir.Value, back: Permutation) -> ir.Value:
        if value in self._of_constants:
            turned = rearranged(self.op, value, len(back), lambda array: array.transpose(back))
            if turned is not None:
                return turned
        wide = as_vector(value, back)
        target = None if wide is None else reshape_target(permuted(wide, back))
        if wide is not None and target is not None:
            return shaped(self.op.Reshape(value, np.array(target, np.int64)), permuted(wide, back))
        own = permutation(value.producer())
        inner = None if own is None else value.producer().inputs[0]  # pyright: ignore[reportOptionalMemberAccess]
        if own is None or inner is None:
            return describe(self.op.Transpose(value, perm=back), value, back)
        return describe(transposed(self.op, inner, [own[axis] for axis in back]), value, back)

    def _convert(self, rule: str, node: ir.Node) -> None:
        form = self.form(node)
        takes = form is not None and _may_be_image(argument(node, 0)) and (form.starts or self._reads(node) is not None)
        if not takes and self._reads(node) is None and not self._reads_flat(node):
            return
        with self.editor.rewrite(rule, node, matched=self._with_transposes(node)) as r:
            self.op = r.op
            if self._exact and not self.is_exact(node):
                built = no("it might round differently, as elements lie in another order", at=node)
            else:
                built = self._formed(form, node) if form is not None and takes else self._followed(node)
            if built is None or isinstance(built, Refusal):
                reason = "it has no form for channels last" if built is None else built.reason
                r.refuse(reason, at=node if built is None else built.at)
                if self.starts(node):
                    self.note_refusal(node, reason)
                return
            for old, new in zip(node.outputs, [built] if isinstance(built, ir.Value) else built, strict=False):
                describe_result(new, old)
                if old.uses() or old.is_graph_output():
                    r.replace(old, new)

    def _formed(self, form: ChannelsLastForm, node: ir.Node) -> Rewritten:
        if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
            return no("more than its first result is used", at=node)
        length = rank(node.outputs[0])
        if length is None or rank(argument(node, 0)) is None:
            return no("the rank of the image is not known; give its shape, or infer it", at=node)
        built = form.build(self, node)
        if isinstance(built, Refusal):
            return built
        describe(built, node.outputs[0], to_last(length))
        return transposed(self.op, built, to_first(length))

    def _followed(self, node: ir.Node) -> Rewritten:
        read = self._reads(node)
        if read is None:
            return before_flattening(self.op, node, follower(node))
        x, perm = read
        if node.op_type == "Transpose" and node.domain == "":
            return self._merged(node, x, perm)
        handler = follower(node)
        if handler is None:
            return None
        is_wanted = not self._wanted.isdisjoint(node.outputs)
        if not is_wanted and any(_is_forked(value, node) for value in node.inputs):
            return no("no later node absorbs the transposition, which has other consumers", at=node)
        joined = self._joined(node, perm) if is_join(node) else node
        if joined is not node and not is_wanted:
            return no("an operand would have to be transposed", at=node)
        return handler(self.op, joined, x, perm)

    def _merged(self, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
        outer = permutation(node, len(perm))
        if outer is None:
            return no("the rank is not known", at=node)
        return transposed(self.op, x, [perm[axis] for axis in outer])

    def _joined(self, node: ir.Node, perm: Permutation) -> ir.Node:
        """Return the node with all operands readable before transposition, some by new transpositions."""
        inputs = list(node.inputs)
        for index, value in enumerate(inputs):
            if value is None or untransposed(value, perm) is not None:
                continue
            if rank(value) == len(perm) or as_vector(value, inverse(perm)) is not None:
                inputs[index] = restored(self.op, self.before(value, perm), perm)
        if inputs == list(node.inputs):
            return node
        copy: Any = self.op.like(node, inputs)
        describe(copy, node.outputs[0])
        return copy.producer()

    def _reads(self, node: ir.Node) -> tuple[ir.Value, Permutation] | None:
        """Return the untransposed operand of the highest rank, and its transposition; None if there is none."""
        found: list[tuple[ir.Value, Permutation]] = []
        for value in node.inputs if is_join(node) else node.inputs[:1]:
            producer = None if value is None else value.producer()
            perm, x = permutation(producer), None if producer is None or not producer.inputs else producer.inputs[0]
            if producer is None or perm is None or x is None or is_constant(x) or x in self._of_constants:
                continue
            if self.sinks(producer):
                found.append((x, perm))
        return max(found, key=lambda each: len(each[1]), default=None)

    def _reads_flat(self, node: ir.Node) -> bool:
        """Return whether a node reads a flattened transposed image."""
        flat = node.inputs[0] if node.inputs else None
        producer = None if flat is None else flat.producer()
        return producer is not None and producer.op_type in ("Flatten", "Reshape") and self._reads(producer) is not None

    def _with_transposes(self, node: ir.Node) -> list[ir.Node]:
        """Return a node, preceded by the transpositions that only it reads."""
        alone = [value for value in node.inputs if value is not None and not _is_forked(value, node)]
        before = [value.producer() for value in alone]
        return [*dict.fromkeys(each for each in before if each is not None and permutation(each) is not None), node]


def _may_be_image(value: ir.Value | None) -> bool:
    length = rank(value)
    return length is None or length >= _LEAST_RANK


def _is_forked(value: ir.Value | None, reader: ir.Node) -> bool:
    return value is not None and (value.is_graph_output() or any(user is not reader for user in value.consumers()))


def _of_constants(nodes: Sequence[ir.Node]) -> set[ir.Value | None]:
    """Return the values that are computed from constants only."""
    found: set[ir.Value | None] = {None}
    for node in nodes:
        if node.inputs and all(value in found or is_constant(value) for value in node.inputs):
            found.update(node.outputs)
    return found


def describe(made: ir.Value, like: ir.Value, perm: Permutation | None = None) -> ir.Value:
    """Give a new value the type, annotations and permuted shape of another."""
    sizes, layout = dims(like), layout_of(like)
    set_datatype(made, datatype_of(like))
    if layout is not None and perm is not None and len(layout) == len(perm):
        set_layout(made, permuted(layout, perm))
    if like.type is not None:
        made.type = copy_type(like.type)
    if sizes is not None:
        made.shape = ir.Shape(sizes if perm is None else permuted(sizes, perm))
    return made


def as_vector(value: ir.Value, perm: Permutation) -> list[Dim] | None:
    """Return the broadcast sizes of a vector along one axis, whose transposition is a reshape; None otherwise."""
    sizes = dims(value)
    if sizes is None or len(sizes) > len(perm):
        return None
    wide: list[Dim] = [*[1] * (len(perm) - len(sizes)), *sizes]
    is_vector = sum(size != 1 for size in wide[1:]) <= 1
    return wide if is_vector and moves_only_ones(perm, wide) else None


def restored(op: Builder, value: ir.Value, perm: Permutation) -> ir.Value:
    """Transpose a value, with its shape."""
    sizes = dims(value)
    return shaped(op.Transpose(value, perm=perm), None if sizes is None else permuted(sizes, perm))


def describe_result(new: ir.Value, old: ir.Value) -> None:
    """Set type and shape of a result, and of the value that it transposes."""
    node = new.producer()
    perm = permutation(node, rank(old))
    if node is None or node.graph is not None:
        return
    describe(new, old)
    if perm is not None and len(perm) == rank(old) and node.inputs[0] is not None and node.inputs[0].graph is None:
        describe(node.inputs[0], old, inverse(perm))
