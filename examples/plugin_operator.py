"""Bring an operator of your own: one definition, and it is executed, folded, verified, lowered and explained."""

import numpy as np
import onnx

import onnx_passes
from onnx_passes import operators


@operators.define
class Ternary(operators.Quantizer):
    """Quantize to 1 above the threshold, to -1 below its opposite, and to 0 between; NaN gives 0."""

    name = "Ternary"
    domains = ("my.domain",)
    inputs = (operators.Input("x", "the values"), operators.Input("threshold", "how far zero reaches; positive"))

    def grid(self, node):
        """Say which levels there are, so that range analysis and streamline know them."""
        return operators.IntegerGrid(-1, 1, np.array(1.0), np.array(0.0))

    def quantize(self, inputs, attributes):
        """Compute it in numpy."""
        x, threshold = inputs
        return (x > threshold).astype(x.dtype) - (x < -threshold).astype(x.dtype)

    def build(self, op, call):
        """Write it in standard operators."""
        threshold = call.input(1)
        above, below = op.Greater(call.x, threshold), op.Less(call.x, op.Neg(threshold))
        return op.Sub(op.Cast(above, to=call.dtype), op.Cast(below, to=call.dtype))


model = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>
g (float[1, 4] x) => (float[1, 2] y) <float t = {0.5}, float[4, 2] w = {1, 2, -1, 3, 0, 1, 2, -2}> {
  q = my.domain.Ternary (x, t)
  y = MatMul (q, w)
}""")

print(onnx_passes.run_model(model, {"x": np.float32([[-2, 0.1, 0.7, 3]])})["y"])
y = onnx_passes.ranges(model)["y"]
print(f"y is between {y.low.tolist()} and {y.high.tolist()}")
lowered = onnx_passes.apply(model, "inline-qonnx, lift-constants")
print("in standard operators:", ", ".join(node.op_type for node in lowered.model.graph))
