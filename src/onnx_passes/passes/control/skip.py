"""Leave passes and rules out of a pipeline."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core import compose


@passes.register(tags=("control",))
class Skip(compose.Skip):
    """Run a nested pipeline without some of its passes, groups or rules, wherever they are in it.

    Rewrites: ``skip{names=[fuse-bias, eliminate-slice/SliceOfSlice]}(simplify)`` runs ``simplify`` without the pass and
              without the rule; ``fuse-*`` leaves out all that fits. What was left out is noted.
    Refuses:  names that nothing in the pipeline has. What a pass that stays needs is run all the same.
    Exactness: that of its members.
    """
