"""What convert-channels-last writes, QONNX executes, with the results of the network before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import onnx_passes
from tests.helpers.small_models import named
from tests.passes.layout.test_convert_channels_last import family
from tests.passes.tools import run

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _old_files(monkeypatch: pytest.MonkeyPatch):
    """QONNX makes files of the newest version, which ONNX Runtime does not read yet."""
    make = onnx.helper.make_model

    def make_model(graph: Any, **given: Any) -> Any:
        return make(graph, **({"ir_version": 8} | given))

    monkeypatch.setattr(onnx.helper, "make_model", make_model)
    onnxruntime.set_default_logger_severity(4)
    yield
    onnxruntime.set_default_logger_severity(2)


def by_qonnx(model: ir.Model, x: np.ndarray) -> list[np.ndarray]:
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    wrapped = ModelWrapper(ir.to_proto(model))
    return list(execute_onnx(wrapped, {wrapped.graph.input[0].name: x}).values())


@pytest.mark.parametrize("name", ["residual", "groups", "concatenated", "squeeze and excite", "dense", "u-net"])
def test_qonnx_computes_the_same(name: str):
    model = family(name)
    x = np.random.default_rng(0).integers(-8, 9, [int(size) for size in model.graph.inputs[0].shape or ()]) / 8
    x = x.astype(np.float32)
    expected = run(model, {"x": x})
    prepared = onnx_passes.apply(model, "convert-channels-last{strict=true, inputs=true}, cleanup").model
    for found, wanted in zip(by_qonnx(prepared, np.moveaxis(x, 1, -1)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


PREPARED = "remove-initializers-from-inputs, lift-constants, import-qonnx, fold-constants, cleanup, shape-inference"


CONVERTED = (
    *("brevitas/small_biases", "brevitas/small_inception"),
    *("brevitas/biasquant_int32_w4a4", "brevitas/inception_concat_w4a4"),
)


@pytest.mark.parametrize("path", named(CONVERTED), indirect=True)
def test_as_qonnx_itself_converts(path: Path):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.channels_last import ConvertToChannelsLastAndClean
    from qonnx.util.cleanup import cleanup_model

    converted = onnx_passes.apply(path, f"{PREPARED}, convert-channels-last{{strict=true, inputs=true}}", verify=False)
    theirs = cleanup_model(ModelWrapper(str(path)))
    theirs = theirs.transform(ConvertToChannelsLastAndClean(make_input_channels_last=True))
    counts = [
        Counter(f"{n.domain}::{n.op_type}" for n in nodes) for nodes in (converted.model.graph, theirs.graph.node)
    ]
    transposes = [count.pop("::Transpose", 0) for count in counts]
    assert counts[0] == counts[1]
    assert transposes[0] <= max(transposes[1], 1), "one is of weights, which QONNX's cleanup computes"
