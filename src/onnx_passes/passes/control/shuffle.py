"""Apply rules in a random order."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core import compose


@passes.register(tags=("control",))
class Shuffle(compose.Shuffle):
    """Run a nested pipeline whose rules look at nodes in a random order, to see what depends on it.

    Rewrites: ``shuffle{seed=3}(simplify)`` runs ``simplify``; of the nodes that wait to be looked at, any may be next.
              The same seed means the same order.
    Refuses:  what its members refuse; passes that are not made of rules keep their own order.
    Exactness: that of its members.
    """
