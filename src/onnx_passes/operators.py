"""Operators of your own: define one, and attach its properties, in one file.

After ``define`` an operator is executed, verified, folded, lowered and explained. Each interface below is a table that
packages query; ``@ranges.of(MyOperator)`` attaches an answer for an operator. Import the file with ``--import
file.py``, or name it in the entry-point group ``onnx_passes.operators``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_passes.analysis.streamlined import Reason as Reason
    from onnx_passes.graph.operators import Interface as Interface
    from onnx_passes.graph.operators import interfaces_of as interfaces_of
    from onnx_passes.graph.traits import Traits as Traits
    from onnx_passes.numbers.range import Range as Range
    from onnx_passes.ops.definition import Attribute as Attribute
    from onnx_passes.ops.definition import Call as Call
    from onnx_passes.ops.definition import Definition as Definition
    from onnx_passes.ops.definition import Input as Input
    from onnx_passes.ops.definition import define as define
    from onnx_passes.ops.facts.work import Work as Work
    from onnx_passes.ops.quantizer import IntegerGrid as IntegerGrid
    from onnx_passes.ops.quantizer import IntegerLevels as IntegerLevels
    from onnx_passes.ops.quantizer import Quantizer as Quantizer
    from onnx_passes.ops.quantizer import Quantizing as Quantizing
    from onnx_passes.ops.quantizer import Working as Working
    from onnx_passes.passes.layout.images import ChannelsLastForm as ChannelsLastForm
    from onnx_passes.passes.streamline.form import Form as Form

_INTERFACES = {
    "attributes": "graph.attribute_kinds:ATTRIBUTES",
    "axes": "passes.move.axes:AXES",
    "channels_last": "passes.layout.images:CHANNELS_LAST",
    "critical": "ops.facts.critical_values:CRITICAL",
    "datatype": "passes.datatypes.facts:DATATYPES",
    "definition": "ops.definition:DEFINITIONS",
    "demands": "ops.facts.inputs:DEMANDS",
    "exact": "verify.ties.exact:EXACT",
    "fuzz": "testing.fuzz.site:RECIPES",
    "hls4ml": "passes.export.hls4ml_support:HLS4ML",
    "integer_export": "passes.export.export_integer:INTEGER_EXPORTS",
    "integer_form": "passes.streamline.aggregate_scales:INTEGER_FORMS",
    "quantizer": "ops.quantizer:QUANTIZERS",
    "ranges": "ops.ranges.site:RANGES",
    "shapes": "analysis.shapes.onnxruntime_shapes:SHAPES",
    "traits": "graph.traits:TRAITS",
    "vectors": "passes.fold.vectors:VECTORS",
    "work": "ops.facts.work:WORK",
}
_HOMES = {
    "Attribute": "ops.definition",
    "Call": "ops.definition",
    "ChannelsLastForm": "passes.layout.images",
    "Definition": "ops.definition",
    "Form": "passes.streamline.form",
    "Input": "ops.definition",
    "IntegerGrid": "ops.quantizer",
    "IntegerLevels": "ops.quantizer",
    "Interface": "graph.operators",
    "Quantizer": "ops.quantizer",
    "Quantizing": "ops.quantizer",
    "Range": "numbers.range",
    "Reason": "analysis.streamlined",
    "Traits": "graph.traits",
    "Work": "ops.facts.work",
    "Working": "ops.quantizer",
    "define": "ops.definition",
    "interfaces_of": "graph.operators",
}

__all__ = [*_HOMES, *_INTERFACES, "interfaces"]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll]


def interfaces() -> list[Interface[Any]]:
    """List all interfaces of operators."""
    return [_get(name) for name in _INTERFACES]


def _get(name: str) -> Any:
    module, _, attribute = _INTERFACES.get(name, f"{_HOMES.get(name, '')}:{name}").partition(":")
    return getattr(importlib.import_module(f"onnx_passes.{module}"), attribute)


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name in _HOMES or name in _INTERFACES:
        return _get(name)
    raise AttributeError(f"module 'onnx_passes.operators' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
