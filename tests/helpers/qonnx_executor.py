"""Models run by QONNX itself."""

from __future__ import annotations

from collections.abc import Mapping
from unittest import mock

import numpy as np
import onnx
import onnx_ir as ir
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx


def execute(model: ir.Model, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return everything that a model computes, by name."""
    make = onnx.helper.make_model

    def make_old_model(*args: object, **kwargs: object) -> onnx.ModelProto:
        """Make the models of single nodes old enough for any ONNX Runtime."""
        made = make(*args, **kwargs)  # type: ignore[arg-type]
        made.ir_version = 8
        return made

    with mock.patch.object(onnx.helper, "make_model", make_old_model):
        return execute_onnx(ModelWrapper(ir.to_proto(model)), dict(feeds), return_full_exec_context=True)
