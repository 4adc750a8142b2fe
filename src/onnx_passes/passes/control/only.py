"""Apply passes to some nodes only."""

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
    """Apply a nested pipeline to some nodes only: options for one layer.

    Rewrites: ``only{nodes=[conv1*]}(infer-thresholds{max-bits=2})`` lets its members make those rewrites that take one
              of these nodes, or one that such a rewrite made. What is an option of a pass is so one of a layer.
    Refuses:  patterns that fit no node.
    Exactness: that of its members.
    """

    needs = ("unique-names",)

    nodes: tuple[str, ...] = option((), "names of nodes, of their results, or operators; * and ? stand for anything")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.nodes:
            raise OptionError("it is not said which nodes are meant", hint="as in only{nodes=[conv1*]}(fuse-batchnorm)")

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Mean the nodes as long as the members run."""
        before, meant = names_in(model, MEANT), chosen(model, self.nodes)
        write_names(model, MEANT, meant if before is None else meant & before)
        result = super().run(model, context)
        write_names(result.model, MEANT, before)
        return result
