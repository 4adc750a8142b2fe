"""The simplifying rules in one worklist."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.rewrite.together import Together


@passes.verify.tolerance
@passes.register(tags=("simplify",))
class SimplifyRules(Together):
    """Apply the rules of ``eliminate`` and ``fuse`` in one worklist until none matches.

    Rewrites: ``together(eliminate, fuse)``; known types and shapes are kept, those of new interior values may be
              missing.
    Refuses:  the cases that its members refuse.
    Exactness: that of its members, rewrite by rewrite.
    """

    passes = ("eliminate", "fuse")
    preserves = ("shape-inference",)
