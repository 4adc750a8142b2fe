"""A pipeline makes a model wrong: find the one rewrite that does so, and the line of code that wrote it."""

import numpy as np

import onnx_passes
from onnx_passes import RewriteRulePass, Transformation, constant, examples, passes


@passes.register()
class SplitBatchNorm(Transformation, RewriteRulePass):
    """Write batch normalization as a product and a sum; somebody forgot epsilon."""

    def pattern(self, op, x, gamma, beta, mean, variance):
        return op.BatchNormalization(x, gamma, beta, mean, variance)

    def rewrite(self, op, x, gamma, beta, mean, variance):
        factor = constant(gamma) / np.sqrt(constant(variance))
        shift = constant(beta) - constant(mean) * factor
        return op.Add(op.Mul(x, factor.reshape(-1, 1, 1)), shift.reshape(-1, 1, 1))


model = examples.path("digits-cnn")
image = examples.digits().image[:64]
expected = onnx_passes.run_model(model, {"image": image})["logits"]


def is_bad(candidate):
    """Tell whether a model is wrong; any test will do: an accuracy, a run on a device."""
    return np.abs(onnx_passes.run_model(candidate, {"image": image})["logits"] - expected).max() > 1e-2


found = onnx_passes.bisect(model, "eliminate, split-batch-norm, cleanup", is_bad=is_bad)
print(found)
