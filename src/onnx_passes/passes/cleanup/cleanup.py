"""The usual clean-up of a model."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class Cleanup(ComposePass):
    """Clean up a model: remove unused and duplicate parts, sort nodes, make names unique, lift constants.

    Rewrites: ``remove-unused, topological-sort, lift-constants, unique-names, deduplicate-initializers``.
    Refuses:  to change the interface: inputs and outputs keep names, order and types, and overridable initializers stay
              overridable.
    Exactness: bit-exact.
    """

    passes = ("remove-unused", "topological-sort", "lift-constants", "unique-names", "deduplicate-initializers")
