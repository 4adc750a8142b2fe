"""What a front end of version 0.4 asks for, stage by stage: FINN+ 1.6 is the one that exists."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from qonnx.core.modelwrapper import ModelWrapper

import onnx_passes.examples
from onnx_passes.ops import DOMAIN, inject_custom_ops
from onnx_passes.ops.im2col import Im2Col
from onnx_passes.ops.qonnx import DOMAIN as QONNX_DOMAIN
from onnx_passes.passes import collect
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.passes.util import is_constant
from onnx_passes.verify.run.execute import Executor
from tests.helpers.qonnx_executor import execute

EXAMPLES = Path(onnx_passes.examples.__file__).parent
STAGES = {
    "prepare": ["import-qonnx", "convert-layouts", "shape-inference", "checker"],
    "inline": [
        *("inline-qonnx", "inline-batchnorm", "inline-gemm", "lower-conv", "lower-pooling"),
        *("shape-inference", "checker"),
    ],
    "streamline": ["streamline-thresholds", "streamline", "checker"],
    "export": [
        *("decompose-thresholds", "shape-inference", "fold-constants", "eliminate", "cleanup", "checker", "verify"),
    ],
    "finish": ["absorb-layouts", "inline-functions"],
}
CONFIG = {
    "reference": {"inp": [None], "out": [None]},
    "onnxruntime": {"providers": [["CPUExecutionProvider", {}]], "full_context_dump": False},
    "verify": {},
    "model_checker": {"full_check": True},
    "logging": {"verbose": False},
    "layouts": {},
}
VERIFIED = CONFIG | {"verify": {"tolerance": {"atol": 1e-4, "rtol": 1e-4}}}


def stage(model: ir.Model, names: list[str], config: dict, state: dict) -> ir.Model:
    """Go through a protocol buffer before and after, as programs on other representations do."""
    given = ir.from_proto(ModelWrapper(ir.to_proto(model)).model)
    made = [cls(config, state) for cls in collect(names)]
    return ir.passes.PassManager(passes=made, steps=1)(inject_custom_ops(given)).model


def front_end(model: ir.Model, config: dict) -> ir.Model:
    for names in STAGES.values():
        model = stage(model, names, config, {})
    return model


def load(name: str) -> ir.Model:
    """Read an example; hardware is built for a known number of images."""
    model = ir.from_proto(onnx.load(EXAMPLES / f"{name}.onnx"))
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape = ir.Shape([1, *value.shape[1:]])
    return model


def images(amount: int) -> list[np.ndarray]:
    pixels = np.load(EXAMPLES / "digits_test.npz")["pixels"][:amount]
    return [(image[None, None] / 16).astype(np.float32) for image in pixels]


@pytest.mark.parametrize(
    ("config", "opset"),
    [(CONFIG, None), (CONFIG, 19), (CONFIG, 21), (VERIFIED, None)],
    ids=["as it is", "opset 19", "opset 21", "verified"],
)
@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_networks_come_out_in_integers_and_compute_the_same(name: str, config: dict, opset: int | None):
    original = load(name)
    if opset is not None:
        original = onnx_passes.apply(original, f"convert-opset{{version={opset}}}").model
    model = front_end(original.clone(), config)
    reference = Executor().prepare(original)
    for x in images(3):
        expected = next(iter(reference.run({original.graph.inputs[0].name: x}).values()))
        values = execute(model, {model.graph.inputs[0].name: x})
        np.testing.assert_allclose(values[model.graph.outputs[0].name], expected, atol=1e-5)
        products = [node for node in model.graph if node.op_type in ("MatMul", "Conv", "Gemm")]
        assert products
        for value in (value for node in products for value in node.inputs[:2]):
            np.testing.assert_array_equal(values[value.name], np.rint(values[value.name]), err_msg=value.name)


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_results_have_the_form_that_hardware_is_built_from(name: str):
    model = front_end(load(name), CONFIG)
    assert not model.functions
    assert {node.domain for node in model.graph} <= {"", QONNX_DOMAIN}
    allowed = {"MultiThreshold", "MatMul", "Im2Col", "MaxPoolNHWC", "Mul", "Add", "Transpose", "Reshape", "Flatten"}
    assert {node.op_type for node in model.graph} <= allowed | {"ReduceSum"}
    for node in model.graph:
        if node.op_type == "MultiThreshold":
            x, thresholds = node.inputs
            rows, layout = thresholds.shape[0], node.attributes.get_string("data_layout", "")
            assert rows == 1 or (rows == x.shape[-1] and layout.endswith("C")), node


def test_intermediate_stages_have_standard_operators_only_where_0_4_had_them():
    model = stage(load("digits_mlp"), STAGES["prepare"], CONFIG, {})
    model = stage(model, STAGES["inline"], CONFIG, {})
    assert {node.domain for node in model.graph} == {""}


def test_verification_follows_the_configuration(monkeypatch: pytest.MonkeyPatch):
    runs: list[str] = []
    prepare = Executor.prepare
    monkeypatch.setattr(Executor, "prepare", lambda *args, **kwargs: (runs.append(""), prepare(*args, **kwargs))[1])
    stage(load("digits_mlp"), ["cleanup"], CONFIG, {})
    assert not runs
    stage(load("digits_mlp"), ["cleanup"], VERIFIED, {})
    assert runs


def test_names_and_signatures():
    assert isinstance(DOMAIN, str)
    assert QONNX_DOMAIN == "qonnx.custom_op.general"
    assert Im2Col.name == "Im2Col"
    for names in STAGES.values():
        for cls in collect(names):
            assert list(inspect.signature(cls).parameters)[:2] == ["config", "state"]
            assert issubclass(cls, ir.passes.PassBase)
            cls(config={}, state={})


@pytest.mark.parametrize(
    "module", ["passes.imports.qonnx", "passes.inline.qonnx", "passes.verify", "passes.compose", "passes.base"]
)
def test_modules_are_where_they_were(module: str):
    importlib.import_module(f"onnx_passes.{module}")


def test_functions_let_stock_onnx_runtime_run_a_model():
    import onnxruntime

    model = load("digits_mlp")
    injected = inject_custom_ops(model)
    assert not model.functions
    session = onnxruntime.InferenceSession(ir.to_proto(injected).SerializeToString())
    [x] = images(1)
    expected = next(iter(Executor().prepare(model).run({model.graph.inputs[0].name: x}).values()))
    np.testing.assert_allclose(session.run(None, {session.get_inputs()[0].name: x})[0], expected, atol=1e-5)


class ExportThresholds(Transformation, RewriteRulePass):
    """A rule as FINN+ has it: not registered, of operators of two domains."""

    def pattern(self, op, x, thresholds, weights):
        return op.MultiThreshold(x, thresholds, weights, _domain=DOMAIN)

    def check(self, op, x, thresholds, weights):
        if not is_constant(thresholds) or not is_constant(weights):
            return False
        return not np.any(ir.convenience.get_const_tensor(weights).numpy() != 1)

    def rewrite(self, op, x, thresholds, weights):
        rows = ir.convenience.get_const_tensor(thresholds).numpy().reshape(1, -1)
        attributes = {"out_dtype": "UINT2", "data_layout": "NC"}
        return op.MultiThreshold(x, op.Constant(value=ir.tensor(rows)), **attributes, _domain=QONNX_DOMAIN)


@pytest.mark.parametrize(("weights", "domain"), [("1, 1, 1", QONNX_DOMAIN), ("1, 2, 1", DOMAIN)])
def test_rules_of_others_take_over(weights: str, domain: str):
    model = ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["" : 19, "{DOMAIN}" : 1]>
        g (float[2,3] x) => (float[2,3] y) <float[3] t = {{-1, 0, 1}}, float[3] w = {{{weights}}}> {{
            y = {DOMAIN}.MultiThreshold (x, t, w)
        }}""")
    result = ExportThresholds(config={}, state={})(model).model
    assert [node.domain for node in result.graph if node.op_type == "MultiThreshold"] == [domain]
