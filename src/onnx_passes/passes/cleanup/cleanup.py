"""The usual clean-up of a model."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class Cleanup(ComposePass):
    """Tidy a model: nothing unused, nothing twice, nodes in order, names unique, constants as initializers.

    Rewrites: ``remove-unused, topological-sort, lift-constants, unique-names, deduplicate-initializers``.
    Refuses:  to touch the interface: inputs and outputs keep names, order and types, and initializers that a
              caller may override stay so.
    Exactness: bit-exact.
    """

    passes = ("remove-unused", "topological-sort", "lift-constants", "unique-names", "deduplicate-initializers")
