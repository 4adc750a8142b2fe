"""Put standard operators in the place of QONNX's for images whose channels come last."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.passes.qonnx.inline_qonnx import inlining
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register(tags=("qonnx", "layout", "convert"))
class ConvertChannelsLast(Transformation, RewriteRuleSetPass):
    """Put standard operators between transpositions in the place of QONNX's for images whose channels come last.

    Rewrites: ``qonnx.custom_op.channels_last.Conv(x, w)`` → ``Transpose(Conv(Transpose(x), Transpose(w)))``, and so on
              for MaxPool, AveragePool and BatchNormalization; ``sink-transposes`` then lets the transpositions between
              layers cancel.
    Refuses:  operators that the model has a function for, and those with inputs or attributes that they cannot have.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference", "sink-transposes", "shape-inference")
    functions = True

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return inlining((CHANNELS_LAST_DOMAIN,))
