"""Replace QONNX's channels-last operators by standard ones."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, DEFINITIONS
from onnx_passes.passes.qonnx.inline_qonnx import inlining
from onnx_passes.rewrite.leftovers import ANY
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule

_WINDOWS = "kernel_shape: ints = [2, 2], strides: ints = [1, 1], dilations: ints = [1, 1], pads: ints = [0, 1, 1, 0]"
_KERNELS = ", ".join(f"{number / 8}" for number in range(16))
_MODELS = tuple(
    f'<ir_version: 9, opset_import: ["" : 20, "{CHANNELS_LAST_DOMAIN}" : 1]> '
    f"g (float[{batch}, 3, 4, 2] x) => (float[{batch}, 3, 4, 2] y) "
    f"<float[2, 2, 2, 2] w = {{{_KERNELS}}}, float[2] n = {{1, 4}}> "
    f"{{ y = {CHANNELS_LAST_DOMAIN}.{call} }}"
    for batch in (1, 2)
    for call in (
        f"Conv <{_WINDOWS}, group: int = 1> (x, w)",
        f"Conv <{_WINDOWS}, group: int = 1> (x, w, n)",
        f"MaxPool <{_WINDOWS}> (x)",
        f"AveragePool <{_WINDOWS}> (x)",
        "BatchNormalization (x, n, n, n, n)",
    )
)


@passes.verify.equality
@passes.register(tags=("qonnx", "layout", "convert"))
class ConvertChannelsFirst(Transformation, RewriteRuleSetPass):
    """Lower QONNX's operators on channels-last images to standard operators between transposes.

    Rewrites: ``qonnx.custom_op.channels_last.Conv(x, w)`` → ``Transpose(Conv(Transpose(x), Transpose(w)))``, likewise
              for ConvTranspose, pooling and BatchNormalization; ``absorb-transpose-into-weights`` and
              ``sink-transposes`` then transpose weights and cancel the transpositions between layers.
    Refuses:  operators that the model overrides by a function, and those with unsupported inputs or attributes.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    followed_by = ("shape-inference", "absorb-transpose-into-weights", "sink-transposes", "shape-inference")
    functions = True
    fuzz_hints = MappingProxyType({"models": _MODELS})
    converts = MappingProxyType({ANY: "there is no such operator of QONNX"})

    def is_wanted(self, node: ir.Node) -> bool:
        """Return whether a node is in the channels-last domain of QONNX."""
        return node.domain == CHANNELS_LAST_DOMAIN

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return inlining(key for key in DEFINITIONS.table() if key[0] == CHANNELS_LAST_DOMAIN)
