"""Fold computations on constants, within limits on the size of each tensor and of all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.shapes.standard_engine import has_gaps
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.options import Size, option
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant_tensor, is_constant
from onnx_passes.graph.edits import is_dead
from onnx_passes.graph.wording import count, name_of
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.fold.candidates import Candidates, Eligibility, bytes_of
from onnx_passes.passes.fold.evaluation import ConstantEvaluator, Results, inexact_values
from onnx_passes.passes.fold.fold_if import inline_branches
from onnx_passes.passes.fold.fold_shapes import fold_shapes
from onnx_passes.rewrite.editor import Editor

_ROUNDS = 100
_CONSTANT = "result of constants"
_ADDED = "onnx_passes.folded_bytes"
"""Where a model remembers by how much it grew: the limit is one for all runs together."""
_INFERENCE = ShapeInference(check_type=False, strict_mode=False, gaps_only=False, data_prop=True)


@passes.verify.equality
@passes.register(tags=("fold", "constants"))
class FoldConstants(Transformation):
    """Fold nodes that depend only on constants into their values, computed in ONNX Runtime as the model would.

    Rewrites: ``c = Mul (a, b); y = Add (x, c)`` → ``y = Add (x, c)`` with initializer ``c``, if ``a`` and ``b`` are
              constant; the rewrites of ``fold-shapes`` and ``fold-if``; also in the bodies of If, Loop and Scan.
              Operators of other domains are computed by their function.
    Refuses:  initializers that a caller may override; random operators, sequences, loops; DequantizeLinear unless
              ``dequantize``; function bodies unless ``functions``; half-precision results that ONNX Runtime does not
              round; results larger than 1 MiB, unless they have at most 64 MiB and four times the size of the constants
              from which they are computed; results above ``max-input`` and ``max-growth``.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    preserves = ("checker", "shape-inference", "topological-sort", "unique-names")

    max_size: Size | None = option(None, "bytes that a result may have, instead of what its inputs suggest")
    max_input: Size = option(2**28, "leave nodes alone that read a larger constant")
    max_growth: Size = option(2**28, "bytes that all results together, also of earlier runs, may add to the model")
    dequantize: bool = option(False, "also compute DequantizeLinear, which makes weights several times as large")
    functions: bool = option(False, "also inside the bodies of functions")
    nonempty: bool = option(False, "assume that no dimension is ever 0, which lets more shapes be constant")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Fold shapes, constants and branches in turn, as long as each helps the others."""
        containers = [model.graph, *(model.functions.values() if self.functions else ())]
        with ExitStack() as stack:
            editors = [stack.enter_context(Editor(model, context, container)) for container in containers]
            inferred = self._fold(model, context, editors)
        return PassResult(model, modified=inferred or any(editor.applied for editor in editors))

    def _fold(self, model: ir.Model, context: Context, editors: Sequence[Editor]) -> bool:
        """Fold in rounds; return whether shape inference in between changed anything."""
        modified = inferred = False
        added = cast(MutableMapping[str, int], model.meta)
        room = self.max_growth - added.get(_ADDED, 0)
        parts: list[_Round] = []
        for _ in range(_ROUNDS):
            parts = []
            for editor in editors:
                parts.append(_Round(self, editor, room, inferred=inferred))
                room = parts[-1].run()
            changed = any(part.changed for part in parts)
            waiting = any(part.waiting or part.branched for part in parts) or _may_know_more(
                model.graph, changed=changed
            )
            if any(editor.stopped for editor in editors):
                break
            if waiting and (changed or not inferred):
                modified |= _INFERENCE.run(model, Context(context.record, memory=context.memory)).modified
                inferred = True
            elif not changed:
                break
            else:
                inferred = False
        else:
            context.note(f"stopped after {_ROUNDS} rounds, still changing")
        added[_ADDED] = self.max_growth - room
        for part in parts:
            part.tell(context)
        return modified


class _Round:
    """One turn over a graph with its subgraphs."""

    def __init__(self, options: FoldConstants, editor: Editor, room: int, *, inferred: bool) -> None:
        self.options = options
        self.editor = editor
        self.room = room
        self.inferred = inferred
        self.changed = self.waiting = self.branched = False
        self.refused = FoldRefusals()
        self.may_fold = Eligibility(
            editor.scope.model, editor.scope.container.opset_imports, dequantize=options.dequantize
        )

    def run(self) -> int:
        """Fold; returns how many bytes may still be added."""
        before = self.editor.applied
        fold_shapes(self.editor, nonempty=self.options.nonempty)
        self._fold()
        # Behind an If of which one branch is left, more is known.
        self.branched = inline_branches(self.editor)
        self.changed = self.editor.applied > before
        return self.room

    def tell(self, context: Context) -> None:
        """Note the nodes that were not folded, with reasons."""
        for note in self.refused.notes():
            context.note(note)
        for reason, nodes in self.refused.items():
            for node in nodes:
                self.editor.refuse(_CONSTANT, reason, node)
        for node in all_nodes(self.editor.graph) if self.editor.is_watched else ():
            if not self.refused.has(node) and node.op_type != "Constant":
                variable = next((v for v in node.inputs if v is not None and not is_constant(v)), None)
                reason = self.may_fold.objection(node) or "its result is not known to be small, or cannot be computed"
                self.editor.refuse(_CONSTANT, "an input is not constant" if variable else reason, node, at=variable)

    def _fold(self) -> None:
        limits = FoldLimits(self.options.max_size, self.options.max_input, self.options.max_growth)
        candidates = Candidates(
            self.editor.graph,
            self.may_fold,
            largest=limits.computed,
            largest_input=limits.input,
            inferred=self.inferred,
        )
        self.waiting = bool(candidates.waiting)
        evaluator = ConstantEvaluator(self.editor.scope.model, self.editor.scope.container.opset_imports)
        inexact = inexact_values(evaluator, candidates.nodes)
        named = self.editor.scope.keep
        selection = Selection(candidates, limits, inexact, named, self.room)
        self.refused = selection.refused
        results = evaluator.run(candidates.nodes, selection.wanted)
        for node in self._store(results, candidates, limits, named):
            self.room -= selection.added[node]
        unread = [node for node in candidates.nodes if node.graph is not None and is_dead(node)]
        if any(output.name not in named for node in unread for output in node.outputs):
            self.editor.remove("unused constant", unread)

    def _store(
        self, results: Results, candidates: Candidates, limits: FoldLimits, named: Collection[str]
    ) -> Iterator[ir.Node]:
        """Store the results of each node that has all that are read; without, it would have to stay anyway."""
        by_node: dict[ir.Node, dict[ir.Value, ir.TensorProtocol]] = {}
        for value, tensor in results.items():
            node = value.producer()
            if node is not None and limits.allow(bytes_of(tensor), candidates.source[value]):
                by_node.setdefault(node, {})[value] = tensor
        for node, tensors in by_node.items():
            read = [value for value in node.outputs if value.uses() or value.is_graph_output() or value.name in named]
            if all(value in tensors for value in read):
                known = {value: tensors[value] for value in read}
                # What executed the nodes of the model is what would check it.
                if self.editor.store(_CONSTANT, node, known, settled=True):
                    yield node


def _may_know_more(graph: ir.Graph, *, changed: bool) -> bool:
    """Return whether shape inference may help: a node needs a shape, and not all are known."""
    asks = any(node.op_type in ("Shape", "Size") and node.domain == "" for node in all_nodes(graph))
    return asks and (changed or has_gaps(graph))


_ALWAYS = 2**20
_NEVER = 2**26
_GROWTH = 4


@dataclass(frozen=True)
class FoldLimits:
    """Bytes of a result, of an input, and of everything that is added."""

    size: int | None
    input: int
    growth: int

    @property
    def computed(self) -> int:
        """Return how large a result may be that is not stored itself."""
        return max(self.size or 0, _NEVER)

    def allow(self, size: int, source: int) -> bool:
        """Return whether a result may be stored that was computed from constants of a given size."""
        if self.size is not None:
            return size <= self.size
        return size <= _ALWAYS or size <= min(_NEVER, _GROWTH * source)


_LARGE = "too large to store (max-size)"
_GROWING = "beyond the growth of the model that is allowed (max-growth)"
_FED = "with a constant too large to compute with (max-input)"
_INEXACT = "in half precision that ONNX Runtime does not round where they stand"
_OVERRIDABLE = "on defaults of inputs, constant only after remove-initializers-from-inputs"


class FoldRefusals(dict[str, dict[ir.Node, int]]):
    """Nodes that a limit excludes, with the bytes that they would need, by the reason, which names the option."""

    def has(self, node: ir.Node) -> bool:
        """Return whether a limit excludes a node."""
        return any(node in nodes for nodes in self.values())

    def notes(self) -> list[str]:
        """Describe the excluded nodes."""
        return [
            f"left {count(nodes, 'node')} {why}: the largest is {name_of(worst)} with {_bytes(nodes[worst])}"
            for why, nodes in self.items()
            if nodes and (worst := max(nodes, key=nodes.__getitem__))
        ]


class Selection:
    """The results to store: results with consumers that are not folded themselves.

    ``added`` has the bytes by which storing the results of a node enlarges the model.
    """

    def __init__(
        self,
        candidates: Candidates,
        limits: FoldLimits,
        inexact: Collection[ir.Value],
        named: Collection[str],
        room: int,
    ) -> None:
        self.wanted: list[ir.Value] = []
        self.added: dict[ir.Node, int] = {}
        self.refused = FoldRefusals({_LARGE: dict(candidates.huge), _GROWING: {}, _FED: dict(candidates.fed)})
        self.refused |= {_INEXACT: {}, _OVERRIDABLE: candidates.overridable}
        folded = set(candidates.nodes)
        readers = Counter(value for node in candidates.nodes for value in node.inputs if value is not None)
        freed = {value for value, number in readers.items() if number == 1 and len(value.uses()) == 1}
        # From the outputs back, because what is left alone still needs its inputs.
        for node in reversed(candidates.nodes):
            read = [value for value in node.outputs if value.name in named or _is_read(value, folded)]
            if not read:
                continue
            size = sum(candidates.bytes[value] for value in read)
            added = size - _bytes_of(value for value in node.inputs if value in freed)
            if any(value in inexact for value in read):
                self.refused[_INEXACT][node] = size
            elif not all(limits.allow(candidates.bytes[value], candidates.source[value]) for value in read):
                self.refused[_LARGE][node] = size
            elif added > room:
                self.refused[_GROWING][node] = size
            else:
                room -= added
                self.added[node] = added
                self.wanted.extend(read)
                continue
            folded.discard(node)


def _is_read(value: ir.Value, folded: set[ir.Node]) -> bool:
    return value.is_graph_output() or any(user not in folded for user, _ in value.uses())


def _bytes_of(values: Iterable[ir.Value | None]) -> int:
    tensors = [constant_tensor(value) for value in values]
    return sum(bytes_of(tensor) for tensor in tensors if tensor is not None)


def _bytes(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return count(size, "byte")
