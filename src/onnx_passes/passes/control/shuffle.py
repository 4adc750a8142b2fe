"""Apply rules in a random order."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core import compose


@passes.register(tags=("control",))
class Shuffle(compose.Shuffle):
    """Run a nested pipeline whose rules visit nodes in a random order, to test for order dependence.

    Rewrites: ``shuffle{seed=3}(simplify)`` runs ``simplify``, taking the next node from the worklist at random. Equal
              seeds give equal orders.
    Refuses:  the cases that its members refuse; passes without rules keep their own order.
    Exactness: that of its members.
    """
