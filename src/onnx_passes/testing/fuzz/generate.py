"""Generate a case for a rule from choices."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnx_passes.graph.text import from_text
from onnx_passes.testing.fuzz.build import ModelInput, build
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws
from onnx_passes.testing.fuzz.sketch import sketch
from onnx_passes.testing.fuzz.surround import surround
from onnx_passes.testing.fuzz.targets import FuzzTarget

_SEEDS = 65_536


def generate(target: FuzzTarget, draws: Draws) -> Case:
    """Generate a model that the pattern of a rule should match; raise UnbuildableError if that is impossible."""
    if target.hints.models and draws.often("model of the author", percent=50):
        model = from_text(draws.choose("model", target.hints.models), target.name)
        return case_of_model(model, draws.number(0, _SEEDS - 1))
    parts = build(sketch(target.rule, draws), draws, target.hints)
    return surround(parts, draws, annotated=target.needs_shapes)


def case_of_model(model: onnx.ModelProto, seed: int) -> Case:
    """Make a case of an unchanged model; dynamic dimensions become 2."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    inputs: list[ModelInput] = []
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else 2 for dim in tensor.shape.dim)
        overridable = value.name in defaults
        inputs.append(ModelInput(value.name, ir.DataType(tensor.elem_type), shape, overridable=overridable))
    return Case(model.SerializeToString(), tuple(inputs), seed)
