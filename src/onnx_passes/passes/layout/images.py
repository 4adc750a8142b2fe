"""Let networks on images work with channels last, node by node.

Operators that ask for it (``CHANNELS_LAST``: convolutions, pooling, …) take images turned so and give such images; the
transposition that restores the old order behind them sinks past all that follows (``AXES``) until somebody takes it up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.edits import carry_annotations
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.permutations import (
    Permutation,
    inverse,
    permutation,
    permuted,
    reshape_target,
    transposed,
    untransposed,
)
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.traits import is_elementwise, is_product
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.quantizer import Quantizer
from onnx_passes.passes.layout.flattened import before_flattening
from onnx_passes.passes.layout.rearranged import rearranged
from onnx_passes.passes.layout.turned import as_vector, describe, describe_result, restored
from onnx_passes.passes.move.axes import AXES, Handler, elementwise, is_join, is_steady
from onnx_passes.passes.move.forms import shaped
from onnx_passes.passes.move.quantizer_axes import past_quantizer
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

_LEAST_RANK, _DENSE_RANK = 3, 2


@dataclass(frozen=True)
class ChannelsLastForm:
    """How an operator computes on images whose channels come last.

    ``build`` returns the result, channels last, or refuses. What ``starts`` has images turned for it; others take those
    that are turned already. What is not ``exact`` adds up in another order. ``in_qonnx`` says that QONNX executes it.
    """

    build: Callable[[ChannelsLast, ir.Node], ir.Value | Refusal]
    starts: bool = True
    exact: bool = True
    in_qonnx: bool = True


CHANNELS_LAST: Interface[ChannelsLastForm] = Interface(
    "channels_last",
    "how it computes on images with channels last",
    "onnx_passes.passes.layout.window_forms",
    "onnx_passes.passes.layout.space_forms",
)


def to_last(length: int) -> Permutation:
    """Return the permutation that brings the second of so many axes to the last place."""
    return [0, *range(2, length), 1]


def to_first(length: int) -> Permutation:
    """Return the permutation that brings the last of so many axes to the second place."""
    return [0, length - 1, *range(1, length - 1)]


def follower(node: ir.Node) -> Handler | None:
    """Return how a node reads a value before that is transposed, if it is known."""
    handler = AXES.get(node)
    if handler is None and is_elementwise(node):
        return elementwise
    return past_quantizer if handler is None and isinstance(definition_of(node), Quantizer) else handler


class ChannelsLast:
    """Turns the images of a graph so that channels come last, in one sweep; each node is a rewrite of ``op``.

    If it is to be ``exact``, all that gives other bits when elements lie in another order keeps its order.
    """

    def __init__(self, editor: Editor, *, exact: bool = False) -> None:
        self.editor, self._exact = editor, exact
        self.op = editor.builder()
        self._turned: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}
        self._wanted: set[ir.Value | None] = set()
        self._of_constants: set[ir.Value | None] = set()

    def form(self, node: ir.Node) -> ChannelsLastForm | None:
        """Return how a node computes with channels last; other targets have other forms."""
        return CHANNELS_LAST.get(node)

    def sinks(self, transpose: ir.Node) -> bool:
        """Tell whether a transposition is to sink past those that follow."""
        return True

    def is_exact(self, node: ir.Node) -> bool:
        """Tell whether a node that reads elements in another order gives the same bits."""
        form = self.form(node)
        return is_steady(node) if form is None else form.exact

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Tell the user of a node that asks for channels last and stays as it is."""
        self.editor.context.note(f"{name_of(node)} keeps its channels first: {reason}")

    def convert_all(self, rule: str) -> None:
        """Convert in the order of the graph: each node lets the next read what it made."""
        self.convert(tuple(self.editor.graph), rule)

    def convert(self, nodes: Sequence[ir.Node], rule: str) -> None:
        """Convert some nodes, in their order in the graph."""
        self._wanted, self._of_constants = self._find_wanted(nodes), _of_constants(nodes)
        for node in nodes:
            if self.editor.stopped:
                return
            if node.graph is not None:
                self._convert(f"{rule} of {node.op_type}", node)

    def starts(self, node: ir.Node) -> bool:
        """Tell whether a node has images turned for it."""
        form = self.form(node)
        return form is not None and form.starts and _may_be_image(argument(node, 0))

    def asked(self, nodes: Sequence[ir.Node]) -> set[ir.Value | None]:
        """Find the images that are turned for somebody, or come before such a one past followers."""
        found: set[ir.Value | None] = set()
        for node in reversed(nodes):
            if self.starts(node):
                found.add(argument(node, 0))
            elif follower(node) is not None and any(value in found for value in node.outputs):
                length = rank(node.outputs[0])
                found.update(value for value in node.inputs if rank(value) == length and not is_constant(value))
        return found

    def _find_wanted(self, nodes: Sequence[ir.Node]) -> set[ir.Value | None]:
        """Find the values behind which, past followers, somebody takes up a transposition."""
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
        """Return what a value is before it is transposed; it is transposed back for that, once, where it is not."""
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
            return no("nobody behind it takes up the transposition, which others use too", at=node)
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
        """Return a node all whose operands are read before transposition; some may have to be transposed for it."""
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
        """Return what a node reads through a transposition, of the most axes, and the transposition."""
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
        """Tell whether a node reads, flattened, what was transposed."""
        flat = node.inputs[0] if node.inputs else None
        producer = None if flat is None else flat.producer()
        return producer is not None and producer.op_type in ("Flatten", "Reshape") and self._reads(producer) is not None

    def _with_transposes(self, node: ir.Node) -> list[ir.Node]:
        """Return a node, and before it the transpositions that nobody else reads."""
        alone = [value for value in node.inputs if value is not None and not _is_forked(value, node)]
        before = [value.producer() for value in alone]
        return [*dict.fromkeys(each for each in before if each is not None and permutation(each) is not None), node]


def _may_be_image(value: ir.Value | None) -> bool:
    length = rank(value)
    return length is None or length >= _LEAST_RANK


def _is_forked(value: ir.Value | None, reader: ir.Node) -> bool:
    return value is not None and (value.is_graph_output() or any(user is not reader for user in value.consumers()))


def _of_constants(nodes: Sequence[ir.Node]) -> set[ir.Value | None]:
    """Find the values that are computed of constants alone."""
    found: set[ir.Value | None] = {None}
    for node in nodes:
        if node.inputs and all(value in found or is_constant(value) for value in node.inputs):
            found.update(node.outputs)
    return found
