"""Write a pass: a pattern, a check that says why it refuses, a rewrite; then look what it does to a model."""

import onnx_passes
from onnx_passes import RewriteRulePass, Transformation, constant, examples, no, passes, yes

QONNX = "qonnx.custom_op.general"


@passes.verify.equality  # what the pass promises: the same bits; a run that finds others fails
@passes.register()
class DropReluBeforeQuant(Transformation, RewriteRulePass):
    """Drop a Relu in front of a quantizer that returns no negative numbers.

    Rewrites: ``Quant(Relu(x), scale, 0, bits)`` → ``Quant(x, scale, 0, bits)``.
    Refuses:  quantizers with negative levels, or with a zero point.
    Exactness: bit-exact.
    """

    def pattern(self, op, x, scale, zero, bits):
        return op.Quant(op.Relu(x), scale, zero, bits, _domain=QONNX, _outputs=["result"])

    def check(self, op, result, zero, **_):
        if result.producer().attributes["signed"].as_int():
            return no("the quantizer keeps negative numbers")
        if constant(zero) is None or constant(zero).any():
            return no("the zero point is not zero", at=zero)
        return yes

    def rewrite(self, op, x, scale, zero, bits, result):
        return op.Quant(x, scale, zero, bits, _domain=QONNX, **result.producer().attributes)


result = onnx_passes.apply(examples.path("digits-cnn"), "drop-relu-before-quant")
(step,) = [step for step in result.steps if step.modified]
print(f"{step.name}: {step.applications} rewrites, {step.nodes_before} → {step.nodes_after} nodes, {step.level}")
print(onnx_passes.diff(examples.path("digits-cnn"), result.model).summary())
