"""The usual clean-up of a model."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class Cleanup(ComposePass):
    """Clean up a model: remove what is unused or there twice, sort nodes, make names unique, lift constants.

    Rewrites: ``remove-unused, topological-sort, lift-constants, unique-names, deduplicate-initializers``.
    Refuses:  to touch the interface: inputs and outputs keep names, order and types, and initializers that a
              caller may override stay so.
    Exactness: bit-exact.
    """

    passes = ("remove-unused", "topological-sort", "lift-constants", "unique-names", "deduplicate-initializers")
