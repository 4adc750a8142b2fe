"""Convert the floating-point values of a model to another type, and say of what stays why it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.options import internal, option
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.convert.objections import Objection, all_of, counts, overflows, unsuitable
from onnx_passes.passes.convert.precision import Precision
from onnx_passes.rewrite.choice import chosen, texts_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_SUMMING = ("normalization", "reduction")
"""Kinds of operators that add up many elements."""
_KEPT_MOST = 5
"""Notes name so many reasons."""


class ConvertFloats(EditorPass):
    """What the conversions between floating-point types share."""

    followed_by = ("eliminate-cast",)
    fast_math = ("nnan", "ninf", "nsz")

    sources: ClassVar[frozenset[ir.DataType]]
    target: ClassVar[ir.DataType]
    _retyped_names: frozenset[str] = internal(frozenset[str]())

    def objection(self, model: ir.Model, editor: Editor) -> Objection:
        """Return what says of nodes why they stay as they are."""
        raise NotImplementedError

    def keeps_interface(self) -> bool:
        """Tell whether inputs and outputs keep their type."""
        raise NotImplementedError

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Find out what there is to do, say what stays, and do it at once."""
        from onnx_passes.passes.annotate.shape_inference import ShapeInference

        editor.annotated |= ShapeInference(gaps_only=True).run(model, Context()).modified
        rule = f"floats as {self.target.name.lower()}"
        interface = (*model.graph.inputs, *model.graph.outputs)
        self._retyped_names = frozenset(str(value.name) for value in interface if value.dtype in self.sources)
        keeps = self.keeps_interface()
        objection = all_of(unsuitable, self.objection(model, editor))
        found = Precision(model, self.sources, self.target, keeps, objection)
        for node, reason in found.stay.items():
            editor.refuse(rule, reason, node)
        for reason, count in Counter(found.stay.values()).most_common(_KEPT_MOST):
            editor.context.note(f"{count} node{'s' * (count > 1)} as before: {reason}")
        if found:
            editor.change(rule, found.nodes, found.apply)

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return inputs in the new type, unless the interface keeps its own."""
        return self._retyped(sample)

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs in the new type, unless the interface keeps its own."""
        return self._retyped(results)

    def _retyped(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self.keeps_interface():
            return dict(arrays)
        with np.errstate(over="ignore"):
            return {
                name: array.astype(self.target.numpy()) if name in self._retyped_names else array
                for name, array in arrays.items()
            }


class Narrow(ConvertFloats):
    """What the conversions to a shorter type share."""

    sources = frozenset({ir.DataType.FLOAT})

    keep_io: bool = option(True, "inputs and outputs of the model stay float, with Casts behind and before them")
    block: tuple[str, ...] = option((), "nodes that stay: names of nodes, of their results, or operators; with * and ?")
    sums: bool = option(False, "sums, averages, norms and softmax stay float")
    measure: bool = option(True, "run the model, and let nodes stay whose values the type cannot hold")
    data: str = option("", "file of inputs to measure with (.npz); else they are generated")

    def keeps_interface(self) -> bool:
        """Tell whether inputs and outputs keep their type."""
        return self.keep_io

    def objection(self, model: ir.Model, editor: Editor) -> Objection:
        """Let nodes stay that are asked to, that count, and whose values the type cannot hold."""
        chosen(model, self.block)
        return all_of(self._blocked, counts(), overflows(self._greatest(model, editor), self.target))

    def _blocked(self, node: ir.Node) -> str:
        if any(fnmatchcase(text, pattern) for text in texts_of(node) for pattern in self.block):
            return "it is blocked"
        return "it sums up" if self.sums and traits_of(node).kind in _SUMMING else ""

    def _greatest(self, model: ir.Model, editor: Editor) -> dict[ir.Value, np.ndarray]:
        from onnx_passes.passes.convert.measure import greatest_values

        if not self.measure:
            return {}
        try:
            return greatest_values(model, self.data)
        except OnnxPassesError as error:
            if self.data:
                raise
            editor.context.note(f"values are not measured: {error}")
            return {}
