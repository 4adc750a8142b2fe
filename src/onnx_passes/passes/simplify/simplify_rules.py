"""The rules that simplify a model, in one worklist."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.rewrite.together import Together


@passes.verify.tolerance
@passes.register(tags=("simplify",))
class SimplifyRules(Together):
    """Apply the rules of ``eliminate`` and ``fuse`` in one worklist, until none fits.

    Rewrites: ``together(eliminate, fuse)``; types and shapes that were known before stay known, those of new values
              inside may be missing.
    Refuses:  what its members refuse.
    Exactness: that of its members, rewrite by rewrite.
    """

    passes = ("eliminate", "fuse")
    preserves = ("shape-inference",)
