"""Count bit operations, and memory by bit width."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.bit_cost import ModelBitCost, bit_cost_of
from onnx_passes.core.base import Analysis
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.datatypes import DataType
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.passes.datatypes.facts import fact_of_element

_PREPARED = (
    "eject-ops, remove-initializers-from-inputs, inline-functions, lift-constants, shape-inference, import-qonnx, "
    "import-quantized, shape-inference, infer-datatypes{allow-scaledint=true}, "
    "fold-constants, fold-quantized-weights, fold-constants"
)


@passes.verify.equality
@passes.register(tags=("analyse", "cost", "quantized"))
class BitCost(Analysis):
    """Count the bit operations (BOPs) of all products, and the bits of their weights and sums, by data type.

    Rewrites: nothing; finds a ``ModelBitCost``: ``apply(model, "bit-cost")["bit-cost"].bops``. A multiply-accumulate of
              a and w bits counts a * w, as in the tools of QONNX and FINN; zero weights count nothing.
    Refuses:  nothing; a product whose shapes are not known is left out of the sums.
    Exactness: changes nothing. Data types are the targets of quantizers, narrowed by ranges.
    """

    needs = ("shape-inference",)

    def analyze(self, model: ir.Model) -> ModelBitCost:
        """Return the bit cost, computed on a copy with quantized weights."""
        return bit_cost(model)


def bit_cost(model: ir.Model) -> ModelBitCost:
    """Return the bit cost, computed on a copy with quantized weights."""
    prepared = Manager([]).run(plan(_PREPARED), copy_model(model)).model
    return bit_cost_of(prepared, _datatype)


def _datatype(value: ir.Value) -> DataType:
    return datatype_of(value) or fact_of_element(value.dtype).datatype
