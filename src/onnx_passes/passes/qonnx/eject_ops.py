"""Take the functions that stand for operators out of a model again."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.walk import all_nodes
from onnx_passes.legacy.operators import adopt
from onnx_passes.ops.functions import MARK
from onnx_passes.passes.qonnx.dialect import scopes


@passes.verify.equality
@passes.register(tags=("qonnx", "functions"))
class EjectOps(Transformation):
    """Take the functions that inject-ops or version 0.4 made for operators out of a model again.

    Rewrites: nodes with an ``overload`` made by inject-ops → the same nodes without it, and no function;
              ``onnx_passes.ops::Quant``, ``MultiThreshold`` and ``LayoutConverter``, as 0.4 saves them → the operators
              that are defined here, and no functions of that domain that nothing calls.
    Refuses:  all other functions: they stay.
    Exactness: bit-exact.
    """

    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names", "import-qonnx")

    def call(self, model: ir.Model) -> PassResult:
        """Eject in place."""
        injected = eject(model)
        return PassResult(model, modified=adopt(model) or injected)


def eject(model: ir.Model) -> bool:
    """Remove all functions that were made of definitions; tells whether there were any."""
    injected = {key for key, function in model.functions.items() if MARK in function.metadata_props}
    for scope in scopes(model):
        for node in all_nodes(scope):
            if node.op_identifier() in injected:
                node.overload = ""
    for key in injected:
        del model.functions[key]
    return bool(injected)
