"""Apply passes to selected nodes only."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult
from onnx_passes.core.compose import ComposePass
from onnx_passes.core.errors import OptionError
from onnx_passes.core.options import option
from onnx_passes.rewrite.choice import MEANT, chosen, names_in, write_names


@passes.register(tags=("control",))
class Only(ComposePass):
    """Apply a nested pipeline to selected nodes only: options for one layer.

    Rewrites: ``only{nodes=[conv1*]}(infer-thresholds{max-bits=2})`` restricts its members to rewrites that match one of
              these nodes, or a node that such a rewrite created. An option of a pass thereby becomes an option of a
              layer.
    Refuses:  patterns that match no node.
    Exactness: that of its members.
    """

    needs = ("unique-names",)

    nodes: tuple[str, ...] = option((), "names of nodes, of their results, or operators; * and ? are wildcards")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.nodes:
            raise OptionError("no nodes are selected", hint="as in only{nodes=[conv1*]}(fuse-batchnorm)")

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Restrict rewrites to the selected nodes while the members run."""
        before, meant = names_in(model, MEANT), chosen(model, self.nodes)
        write_names(model, MEANT, meant if before is None else meant & before)
        result = super().run(model, context)
        write_names(result.model, MEANT, before)
        return result
