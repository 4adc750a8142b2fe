"""Compute the quantizers of constants."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import remove_if_dead, replace_value
from onnx_passes.graph.names import Names
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.quantizer import Quantizer


@passes.verify.equality
@passes.register(tags=("streamline", "quantized"))
class FoldQuantizedWeights(Transformation):
    """Compute the quantizers of constants: what remains are the weights that the network really uses.

    Rewrites: ``Quant(w, s, z, bits)`` with constant inputs → a constant.
    Refuses:  quantizers of which an input is computed, or can be overridden by the caller.
    Exactness: bit-exact.
    """

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Replace quantizers in the order of the graph, so that one behind another is found too."""
        names = Names.of(model.graph)
        count = 0
        for node in tuple(model.graph):
            folded = _folded(node)
            if folded is not None:
                old = node.outputs[0]
                value = ir.Value(name=names.value(f"{old.name}_folded"), const_value=ir.Tensor(folded))
                value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(folded.dtype)), ir.Shape(folded.shape)
                model.graph.register_initializer(value)
                replace_value(old, value, names)
                remove_if_dead([node])
                count += 1
        return PassResult(model, modified=count > 0)


def _folded(node: ir.Node) -> np.ndarray | None:
    definition = definition_of(node)
    arrays = [constant(value) for value in node.inputs if value is not None]
    given = [array for array in arrays if array is not None]
    if not isinstance(definition, Quantizer) or len(given) < len(arrays) or len(arrays) < len(node.inputs):
        return None
    return np.asarray(definition.compute(given, definition.checked(node)))
