"""Remove resizing to the size that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument, integers, text
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension
from onnx_passes.passes.eliminate.forms import bypass, examples, in_opset
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_NO_INPUT = 4


@passes.verify.equality
@passes.register("eliminate")
class EliminateResize(Transformation, RewriteRuleSetPass):
    """Remove Resize and Upsample that keep the size.

    Rewrites: ``Resize(x, scales=[1, …])``, ``Resize(x, sizes=shape of x)``, ``Upsample(x, [1, …])`` → ``x``.
    Refuses:  ``tf_crop_and_resize``, which cuts something out; scales or sizes that are computed; sizes of dimensions
              that are not known.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
        *(
            f"""g (float[{shape}] x) => (float[{shape}] y) <float[4] ones = {{1.0, 1.0, 1.0, 1.0}}> {{
                y = Resize <mode = "{mode}", coordinate_transformation_mode = "{way}"> (x, , ones)
            }}"""
            for shape in ("1,2,3,2", "N,1,M,K")
            for mode in ("nearest", "linear", "cubic")
            for way in ("half_pixel", "align_corners")
        ),
        *(
            f"""g (float[2,1,3,4] x) => (float[2,1,3,4] y) <int64[{count}] sizes = {{{sizes}}}> {{
                y = Resize <mode = "linear"{axes}> (x, , , sizes)
            }}"""
            for count, sizes, axes in ((4, "2, 1, 3, 4", ""), (2, "4, 3", ", axes = [-1, 2]"))
        ),
        *(
            in_opset(
                9,
                f"""g ({kind}[{shape}] x) => ({kind}[{shape}] y) <float[4] ones = {{1.0, 1.0, 1.0, 1.0}}> {{
                    y = Upsample <mode = "{mode}"> (x, ones)
                }}""",
            )
            for kind in ("float", "int32", "uint8")
            for shape in ("1,2,3,2", "N,1,M,K")
            for mode in ("nearest", "linear")
        ),
    )

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each of the two operators."""
        return [bypass("Resize", _keeps_size), bypass("Upsample", _scales_by_one)]


def _keeps_size(node: ir.Node) -> Any:
    if text(node, "coordinate_transformation_mode", "half_pixel") in ("tf_crop_and_resize", None):
        return no("it cuts something out", at=node)
    if len(node.inputs) == 2:  # as it was in opset 10
        return _scales_by_one(node)
    sizes = argument(node, 3)
    if sizes is None:
        scales = constant(argument(node, 2))
        return yes if scales is not None and _are_ones(scales) else no("a scale is not known to be one", at=node)
    wanted = integers(node, 3)
    if wanted is None:
        return no("the sizes are not constant", at=sizes)
    axes = integers(node, _NO_INPUT, "axes") if "axes" in node.attributes else list(range(len(wanted)))
    if axes is None or any(dimension(node.inputs[0], axis) != size for axis, size in zip(axes, wanted, strict=True)):
        return no("a size changes, or is not known", at=node)
    return yes


def _scales_by_one(node: ir.Node) -> Any:
    scales = constant(argument(node, 1))
    given = node.attributes.get("scales")
    if given is not None and not given.is_ref():
        scales = np.array(given.as_floats())
    return yes if scales is not None and _are_ones(scales) else no("a scale is not known to be one", at=node)


def _are_ones(scales: np.ndarray) -> bool:
    return scales.size > 0 and bool((scales == 1).all())
