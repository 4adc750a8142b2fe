"""Leave passes and rules out of a pipeline."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core import compose


@passes.register(tags=("control",))
class Skip(compose.Skip):
    """Run a nested pipeline without some of its passes, groups or rules, at any depth.

    Rewrites: ``skip{names=[fuse-bias, eliminate-slice/SliceOfSlice]}(simplify)`` runs ``simplify`` without the pass and
              without the rule; ``fuse-*`` leaves out all that match. Omissions are noted.
    Refuses:  names that occur nowhere in the pipeline. A pass that another one needs still runs.
    Exactness: that of its members.
    """
