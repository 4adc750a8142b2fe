"""Upgrade a model to current operators for attention, rotary embedding and normalization."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.tolerance
@passes.register(tags=("simplify", "attention"))
class Modernize(ComposePass):
    """Upgrade a model to opset 23, simplify it, and fuse attention and rotary embeddings.

    Rewrites: ``convert-opset{version=23, only-raise=true}, simplify, fuse-rotary-embedding, fuse-attention, cleanup``;
              ``modernize{convert-opset.version=24}`` raises it further.
    Refuses:  the cases that its members refuse.
    Exactness: tolerance: fusing changes rounding.
    """

    passes = (
        "convert-opset{version=23, only-raise=true}",
        "simplify",
        "shape-inference{renew=true}",
        "simplify",
        "shape-inference{renew=true}",
        "fuse-rotary-embedding",
        "shape-inference",
        "fuse-attention",
        "fold-constants",
        "eliminate-common-subexpression",
        "cleanup",
    )
