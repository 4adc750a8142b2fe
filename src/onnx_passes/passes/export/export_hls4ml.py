"""Write a quantized network as hls4ml reads it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import internal
from onnx_passes.passes.export.hls4ml_constants import give_own_constants
from onnx_passes.passes.export.hls4ml_names import rename
from onnx_passes.passes.export.hls4ml_support import unsupported
from onnx_passes.passes.qonnx.export_qonnx import ExportQonnx
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("export", "quantized", "qonnx", "convert"))
class ExportHls4ml(EditorPass):
    """Convert a quantized network to the dialect of QONNX that hls4ml reads.

    Rewrites: what export-qonnx does, and ``Gemm`` → ``MatMul`` and ``Add``; a constant that several inputs read → one
              for each, as hls4ml takes it away with the first layer that uses it; names of nodes and tensors →
              identifiers of C++, all different, none of them ``input``. Inputs and outputs are renamed, too.
    Refuses:  nothing; what hls4ml has no layer for, or would compute wrong, is noted with the reason and what helps:
              hls4ml, the sequence, runs that before. What is known of operators is the interface ``hls4ml``.
    Exactness: bit-exact up to the names: ``after(inputs_after(x)) = outputs_after(before(x))``.
    """

    needs = ("import-qonnx", "lift-constants", "shape-inference", "inline-gemm")
    followed_by = ("remove-unused", "topological-sort")

    _names: dict[str, str] = internal(default_factory=dict[str, str])

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Write it as QONNX does, then as hls4ml wants it."""
        self._names = {}
        ExportQonnx(ir_version=8).write(model, editor)
        if not editor.stopped:
            give_own_constants(editor)
        if not editor.stopped:
            self._names = rename(editor)
        for text in unsupported(model.graph):
            editor.context.note(text)

    @property
    def renamed(self) -> Mapping[str, str]:
        """Return the new names of inputs and outputs, of the last call."""
        return self._names

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return data for the model before the last call as the model after it takes it."""
        return {self._names.get(name, name): array for name, array in sample.items()}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return results of the model before the last call as the model after it returns them."""
        return {self._names.get(name, name): array for name, array in results.items()}
