"""Models run by QONNX itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

import numpy as np
import onnx
import onnx_ir as ir
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes


@contextmanager
def old_models() -> Iterator[None]:
    """Make the models of single nodes old enough for any ONNX Runtime."""
    make = onnx.helper.make_model

    def make_old_model(*args: object, **kwargs: object) -> onnx.ModelProto:
        made = make(*args, **kwargs)  # type: ignore[arg-type]
        made.ir_version = 8
        return made

    with mock.patch.object(onnx.helper, "make_model", make_old_model):
        yield


def with_shapes(model: onnx.ModelProto) -> ir.Model:
    """Infer by QONNX the shapes that its execution needs, for a batch of one."""
    model = copy.deepcopy(model)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_value = dim.dim_value or 1
    with old_models():
        return ir.from_proto(ModelWrapper(model).transform(InferShapes()).model)


def execute(model: ir.Model, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return everything that a model computes, by name."""
    with old_models():
        return execute_onnx(ModelWrapper(ir.to_proto(model)), dict(feeds), return_full_exec_context=True)
