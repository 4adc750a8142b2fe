"""LayoutConverter and DebugMarker: values as they are."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.layout_converter import DebugMarker, LayoutConverter
from tests.ops.tools import assert_computes, one_node

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


@pytest.mark.parametrize("opset", [9, 18, 23])
def test_converts_by_name(opset: int):
    model = one_node(LayoutConverter, X, opset=opset, from_layout="NCHW", to_layout="NHWC")
    assert_computes(model, X, X.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(("old", "new"), [("NCHW", "NHW"), ("NCHW", "NHWX"), ("NCCW", "NCWC")])
def test_refuses_axes_that_are_not_the_same(old: str, new: str):
    with pytest.raises(ModelError, match="not the same axes in two orders"):
        expand_nodes(one_node(LayoutConverter, X, from_layout=old, to_layout=new))


@pytest.mark.parametrize("given", [{}, {"export_debug_name": "here"}])
def test_marker_changes_nothing(given: dict[str, str]):
    x = np.array([np.nan, -0.0, 1], np.float32)
    assert_computes(one_node(DebugMarker, x, **given), x, x)
