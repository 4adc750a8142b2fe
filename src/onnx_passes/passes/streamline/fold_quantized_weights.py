"""Fold the quantizers of constants."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.constants import constant
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.quantizer import Quantizer
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("streamline", "quantized"))
class FoldQuantizedWeights(EditorPass):
    """Fold quantizers of constants into the quantized constants.

    Rewrites: ``Quant(w, s, z, bits)`` with constant inputs → a constant.
    Refuses:  quantizers with an input that is computed, or that a caller may override.
    Exactness: bit-exact.
    """

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Fold quantizers in graph order, so that consecutive ones are folded, too."""
        for node in tuple(model.graph):
            if editor.stopped:
                return
            folded = folded_quantizer(node)
            if folded is not None:
                editor.store(f"value of a constant {node.op_type}", node, {node.outputs[0]: ir.Tensor(folded)})


def folded_quantizer(node: ir.Node) -> np.ndarray | None:
    """Return the result of a quantizer of constants; None for other nodes."""
    definition = definition_of(node)
    arrays = [constant(value) for value in node.inputs if value is not None]
    given = [array for array in arrays if array is not None]
    if not isinstance(definition, Quantizer) or len(given) < len(arrays) or len(arrays) < len(node.inputs):
        return None
    return np.asarray(definition.compute(given, definition.checked(node)))
