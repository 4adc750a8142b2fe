"""Export a quantized network to hls4ml."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import internal
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.passes.export.hls4ml_names import rename
from onnx_passes.passes.export.hls4ml_support import unsupported
from onnx_passes.passes.qonnx.export_qonnx import ExportQonnx
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("export", "quantized", "qonnx", "convert"))
class ExportHls4ml(EditorPass):
    """Convert a quantized network to the dialect of QONNX that hls4ml reads.

    Rewrites: the rewrites of export-qonnx, and ``Gemm`` → ``MatMul`` and ``Add``; a constant with several consumers →
              one for each, as hls4ml removes it with the first layer that uses it; names of nodes and tensors →
              distinct C++ identifiers, none of them ``input``. Inputs and outputs are renamed, too.
    Refuses:  nothing; operators that hls4ml lacks, or computes wrongly, are noted with the reason and a remedy, which
              the pipeline hls4ml applies. Plug-ins describe operators by the interface ``hls4ml``.
    Exactness: bit-exact up to the names: ``after(inputs_after(x)) = outputs_after(before(x))``.
    """

    needs = ("import-qonnx", "lift-constants", "shape-inference", "inline-gemm")
    followed_by = ("remove-unused", "topological-sort")

    _names: dict[str, str] = internal(default_factory=dict[str, str])

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Export to QONNX, then adapt the model to hls4ml."""
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
        """Return data of the original model under the new names."""
        return {self._names.get(name, name): array for name, array in sample.items()}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return results of the original model under the new names."""
        return {self._names.get(name, name): array for name, array in results.items()}


_RULE = "constants of their own"


def give_own_constants(editor: Editor) -> None:
    """Give every node input with a shared initializer its own copy."""
    graph, names = editor.graph, editor.scope.names
    shared = [value for value in graph.initializers.values() if is_used_elsewhere(value) and not value.is_graph_input()]
    if not shared:
        return

    def make() -> None:
        for value in shared:
            for user, index in list(value.uses())[0 if value.is_graph_output() else 1 :]:
                own = ir.Value(
                    name=names.value(value.name or "constant"),
                    type=value.type,
                    shape=value.shape,
                    const_value=value.const_value,
                )
                graph.register_initializer(own)
                user.replace_input_with(index, own)

    editor.change(_RULE, list(dict.fromkeys(node for value in shared for node in value.consumers())), make)
