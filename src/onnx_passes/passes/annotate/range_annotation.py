"""Annotate tensors with their ranges."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.range_text import KEY, parse_inputs, range_text
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.base import Annotation, PassResult
from onnx_passes.core.options import option


@passes.verify.equality
@passes.register(tags=("annotate", "ranges"))
class RangeAnnotation(Annotation):
    """Infer the range of every value, as an interval and as scaled integers, and annotate it.

    Rewrites: ``y = Quant <signed = 0> (x, 0.5, 0, 4)`` → ``y`` with ``onnx_passes.range`` =
              ``{"low":0,"high":7.5,"scale":0.5,"bias":0,"qlow":0,"qhigh":15}``: every value of ``y`` lies between
              ``low`` and ``high``, and is ``scale * q + bias`` for an integer ``q`` between ``qlow`` and ``qhigh``.
              Per-channel bounds are a list along ``axis``; an open end is null. Constants and values of unknown range
              get no annotation.
    Refuses:  to annotate values in bodies of If, Loop and Scan, or results of unknown operators.
    Exactness: annotates only; bounds include rounding errors of floats, and hold for all inputs within
              ``inputs``, within their data types (``finn_datatype``) and, for integers, their element types. Runs
              with NaN are not covered.
    """

    needs = ("shape-inference",)

    inputs: str = option("", "ranges of inputs, as in 'x=0:255 y=INT4'; by default those of their data types")

    def call(self, model: ir.Model) -> PassResult:
        """Compute the ranges and write the annotations."""
        known = ranges_of(model, parse_inputs(self.inputs))
        modified = False
        for value, found in known.items():
            text = None if value.const_value is not None or found.is_unknown else range_text(found)
            if value.metadata_props.get(KEY) == text:
                continue
            modified = True
            if text is None:
                del value.metadata_props[KEY]
            else:
                value.metadata_props[KEY] = text
        return PassResult(model, modified=modified)
