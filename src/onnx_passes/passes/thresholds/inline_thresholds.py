"""Lower thresholds to standard operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.qonnx.inline_qonnx import inlining
from onnx_passes.passes.thresholds.examples import examples
from onnx_passes.passes.thresholds.nodes import DOMAINS, OPERATOR
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class InlineThresholds(Transformation, RewriteRuleSetPass):
    """Lower thresholds to comparisons in standard operators: one by one, or by bisection if there are many.

    Rewrites: ``MultiThreshold(x, T)`` → ``Cast(x >= T[:, 0]) + Cast(x >= T[:, 1]) + …``; quantizers are kept, unlike
              with inline-qonnx.
    Refuses:  an unknown number of thresholds, channels on an unknown axis, and operators that the model overrides by a
              function.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples()
    functions = True
    converts = MappingProxyType({"MultiThreshold": "it is not defined for this number of inputs"})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each domain."""
        return inlining((domain, OPERATOR) for domain in DOMAINS)
