"""Infer types and shapes."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.shapes.known_shapes import KnownShapes, Memory, contradict, forget_made_up
from onnx_passes.analysis.shapes.standard_engine import (
    false_claims,
    fill_gaps,
    has_gaps,
    has_static_inputs,
    is_static,
    nodes_with_gaps,
)
from onnx_passes.analysis.shapes.symbolic_engine import infer_alone, infer_symbolically
from onnx_passes.core.base import Annotation, Context, PassResult
from onnx_passes.core.errors import PassFailedError
from onnx_passes.core.options import option
from onnx_passes.graph import annotations
from onnx_passes.graph.functions import MOST_NODES, expanded_size
from onnx_passes.graph.wording import describe

_ROUNDS = 3
_FEW = 32
"""Up to this number of nodes, gaps are filled node by node."""


@passes.verify.equality
@passes.register(tags=("annotate", "shapes"))
class ShapeInference(Annotation):
    """Infer the types and shapes of all values, with names and arithmetic for dynamic dimensions.

    Rewrites: ``y = Concat <axis = 0> (x, x)`` with ``x: float[N, 8]`` → ``y: float[2*N, 8]``. Unknown dimensions
              of inputs get names (``_d0``), so that equal dimensions share a name. Quant, Trunc, MultiThreshold and
              other operators of QONNX, Brevitas and FINN are known.
    Refuses:  to replace a declared type; to replace a declared dimension name except by a number. A declared shape that
              the operator, or a branch of an If, contradicts is dropped and reported; ``strict-mode`` makes it an
              error.
    Exactness: annotates only; no node and no result changes.
    """

    check_type: bool = option(False, "refuse element types that contradict the operators")
    strict_mode: bool = option(False, "refuse shapes that contradict the operators, and nodes that cannot be inferred")
    gaps_only: bool = option(False, "only infer missing types and shapes, node by node or by onnx: fast")
    renew: bool = option(False, "infer again where a dimension has only a made-up name")
    data_prop: bool = option(True, "let onnx propagate the contents of small tensors where it fills gaps")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a pass manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Alternate symbolic inference and onnx, as long as each fills gaps of the other."""
        if model.functions and (size := expanded_size(model)) > MOST_NODES:
            context.note(f"nothing is inferred: the functions of the model expand to {size} nodes")
            return PassResult(model, modified=False)
        if self.check_type or self.strict_mode:
            self._refuse_contradictions(model)
        forgotten = forget_made_up(model.graph) if self.renew else {}
        result = self._infer(model, context)
        for value, shape in forgotten.items():
            value.shape = shape if value.shape is None else value.shape
        return result

    def _infer(self, model: ir.Model, context: Context) -> PassResult:
        filled = False
        if self.gaps_only:
            gaps = list(nodes_with_gaps(model.graph))
            if 0 < len(gaps) <= _FEW:
                # onnx infers on a serialized copy of the whole model.
                filled = infer_alone(model, gaps)
            if not has_gaps(model.graph):
                return PassResult(model, modified=filled)
        before = KnownShapes(model.graph)
        memory = context.memory.setdefault(Memory, Memory())
        if self.gaps_only or has_static_inputs(model.graph):
            # Without dynamic dimensions, symbolic inference finds nothing more, and onnx is much faster.
            if not (self.gaps_only or memory.has_checked):
                before.drop(false_claims(model, data_prop=self.data_prop))
            fill_gaps(model, data_prop=self.data_prop)
            if self.gaps_only or (is_static(model.graph) and not self.strict_mode):
                return self._settled(model, before, context, filled=filled)
        problem = None
        for _ in range(_ROUNDS):
            problem = infer_symbolically(model, before, memory)
            if problem is not None and self.strict_mode:
                before.undo()
                raise PassFailedError(problem, hint="without strict-mode the rest of the model is inferred")
            if not fill_gaps(model, data_prop=self.data_prop):
                break
        if problem is not None:
            context.note(f"some shapes may be missing: {problem}")
        return self._settled(model, before, context)

    def _settled(self, model: ir.Model, before: KnownShapes, context: Context, *, filled: bool = False) -> PassResult:
        """Keep the inferred shapes, and report false declarations."""
        context.memory[Memory].has_checked |= not self.gaps_only
        modified = before.settle()
        if before.contradicted:
            value, shape = next(iter(before.contradicted.items()))
            found = f"has {value.shape}" if value.shape is not None else "may have another rank"
            others = f", and so for {more} more" if (more := len(before.contradicted) - 1) else ""
            context.note(f"dropped a declared shape: {describe(value)} is declared as {shape}, but {found}{others}")
        return PassResult(model, modified=modified or filled)

    def _refuse_contradictions(self, model: ir.Model) -> None:
        for declared, inferred in _declared_and_inferred(model):
            if self.check_type and None not in (declared.dtype, inferred.dtype) and declared.dtype != inferred.dtype:
                raise PassFailedError(
                    f"{describe(declared)} is declared as {declared.dtype}, but its operator gives {inferred.dtype}",
                    hint="correct the declaration, or run without check-type",
                )
            if self.strict_mode and contradict(declared.shape, inferred.shape):
                raise PassFailedError(
                    f"{describe(declared)} is declared as {declared.shape}, but its operator gives {inferred.shape}",
                    hint="correct the declaration, or run without strict-mode",
                )


def _declared_and_inferred(model: ir.Model) -> list[tuple[ir.Value, ir.Value]]:
    """Pair each result with a copy inferred from the inputs of the model alone."""
    try:
        copy = model.clone()
    except RuntimeError as error:
        raise PassFailedError("the nodes are not in order", hint="run topological-sort first") from error
    for node in copy.graph.all_nodes():
        for value in node.outputs:
            value.type = value.shape = None
    if infer_symbolically(copy, KnownShapes(copy.graph)) is not None:
        return []
    return list(zip(annotations.values(model.graph), annotations.values(copy.graph), strict=True))
