"""Convert floats to another type where measured magnitudes fit, with a reason for every node that stays."""

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
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.coverage import run_samples

_SUMMING = ("normalization", "reduction")
"""Kinds of operators that accumulate many elements."""
_KEPT_MOST = 5
"""Number of reasons named in notes."""


class ConvertFloats(EditorPass):
    """Base of the conversions between floating-point types."""

    followed_by = ("eliminate-cast",)
    fast_math = ("nnan", "ninf", "nsz")

    sources: ClassVar[frozenset[ir.DataType]]
    target: ClassVar[ir.DataType]
    _retyped_names: frozenset[str] = internal(frozenset[str]())

    def objection(self, model: ir.Model, editor: Editor) -> Objection:
        """Return the objection to nodes: the reason why a node keeps its type, or an empty text."""
        raise NotImplementedError

    def keeps_interface(self) -> bool:
        """Return whether inputs and outputs keep their type."""
        raise NotImplementedError

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Plan the conversion, report the nodes that stay, and apply it as one change."""
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
        """Return inputs in the new type, unless the interface keeps its types."""
        return self._retyped(sample)

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs in the new type, unless the interface keeps its types."""
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
    """Base of the conversions to a shorter type."""

    sources = frozenset({ir.DataType.FLOAT})

    keep_io: bool = option(True, "inputs and outputs of the model stay float, with Casts next to them")
    block: tuple[str, ...] = option((), "nodes that stay: names of nodes, of their results, or operators; with * and ?")
    sums: bool = option(False, "sums, averages, norms and softmax stay float")
    measure: bool = option(True, "run the model, and keep nodes with values that the type cannot hold")
    data: str = option("", "file of inputs to measure with (.npz); by default inputs are generated")

    def keeps_interface(self) -> bool:
        """Return whether inputs and outputs keep their type."""
        return self.keep_io

    def objection(self, model: ir.Model, editor: Editor) -> Objection:
        """Object to blocked nodes, to counts and sizes, and to values beyond the range of the type."""
        chosen(model, self.block)
        return all_of(self._blocked, counts(), overflows(self._greatest(model, editor), self.target))

    def _blocked(self, node: ir.Node) -> str:
        if any(fnmatchcase(text, pattern) for text in texts_of(node) for pattern in self.block):
            return "it is blocked"
        return "it sums up" if self.sums and traits_of(node).kind in _SUMMING else ""

    def _greatest(self, model: ir.Model, editor: Editor) -> dict[ir.Value, np.ndarray]:
        from onnx_passes.passes.convert.float_types import greatest_values

        if not self.measure:
            return {}
        try:
            return greatest_values(model, self.data)
        except OnnxPassesError as error:
            if self.data:
                raise
            editor.context.note(f"values are not measured: {error}")
            return {}


def greatest_values(model: ir.Model, data: str = "") -> dict[ir.Value, np.ndarray]:
    """Return the largest finite magnitude of each floating-point value, on data from a file or generated.

    Raises ExecutionError if the model cannot be run.
    """
    executor = Executor()
    # The default samples are those of the verification, so that their overflows are known beforehand.
    samples, _ = run_samples(executor.prepare(model), model, [data] if data else [], 0)
    known = Activations(executor)
    known.fill(model, samples)
    found: dict[ir.Value, np.ndarray] = {}
    for value in (*model.graph.inputs, *(value for node in model.graph for value in node.outputs)):
        arrays = [array for array in known.get(value) or () if array.dtype.kind == "f"]
        finite = [np.abs(array[np.isfinite(array)]).max(initial=0.0) for array in arrays]
        if finite:
            found[value] = np.array([max(finite)], np.float64)
    return found
