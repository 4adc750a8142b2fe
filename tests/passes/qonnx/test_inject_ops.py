from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnxruntime import GraphOptimizationLevel

import onnx_passes
from onnx_passes.api import run_model
from onnx_passes.core.build import collect
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.qonnx.eject_ops import EjectOps
from onnx_passes.passes.qonnx.inject_ops import InjectOps
from tests.helpers.small_models import files
from tests.passes.qonnx.tools import GENERAL, X, quantized, stored
from tests.passes.tools import apply, model_of, notes_of, run

_OPTIMIZED, _AS_IT_IS = GraphOptimizationLevel.ORT_ENABLE_ALL, GraphOptimizationLevel.ORT_DISABLE_ALL


def run_file(path: Path, inputs: dict[str, np.ndarray], level: GraphOptimizationLevel = _OPTIMIZED) -> list[np.ndarray]:
    """Run a file in stock ONNX Runtime, as anybody would."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    return onnxruntime.InferenceSession(path, options).run(None, inputs)


def variants(model: ir.Model) -> list[tuple[str, str]]:
    return sorted((function.name, function.overload) for function in model.functions.values())


@pytest.mark.parametrize("mode", ["ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"])
def test_file_runs_without_us(tmp_path: Path, mode: str):
    model = quantized(f'signed = 1, narrow = 1, rounding_mode = "{mode}"')
    expected = run_model(model, {"x": X})["y"]
    assert apply(InjectOps(), model)
    path = tmp_path / "injected.onnx"
    onnx_passes.save(model, path)
    onnx.checker.check_model(path, full_check=True)
    (found,) = run_file(path, {"x": X})
    np.testing.assert_array_equal(found, expected)
    # Its optimizations drop the addition of zero, which decides on the sign of a zero.
    assert run(model, {"x": X})[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("amount", [3, 15, 31, 255])
@pytest.mark.parametrize("channels", [1, 3])
def test_thresholds_of_any_number_run_without_us(tmp_path: Path, amount: int, channels: int):
    generator = np.random.default_rng(amount)
    thresholds = np.sort(generator.normal(size=(channels, amount)).astype(np.float32), axis=1)
    numbers = ", ".join(map(str, thresholds.reshape(-1)))
    model = model_of(
        f"g (float[4, 3] x) => (float[4, 3] y) <float[{channels}, {amount}] t = {{{numbers}}}> "
        f'{{ y = {GENERAL}.MultiThreshold <out_dtype = "UINT8", data_layout = "NC"> (x, t) }}',
        domains=f'"{GENERAL}" : 1',
    )
    x = np.concatenate([generator.normal(size=(3, 3)), [[np.nan, np.inf, -np.inf]]]).astype(np.float32)
    expected = (x[:, :, None] >= thresholds).sum(axis=2).astype(np.float32)
    model = onnx_passes.apply(model, "inject-ops").model
    onnx_passes.save(model, tmp_path / "m.onnx")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    for level in (_OPTIMIZED, _AS_IT_IS):
        np.testing.assert_array_equal(run_file(tmp_path / "m.onnx", {"x": x}, level)[0], expected)


def test_nodes_look_as_before_to_readers_of_qonnx():
    model = quantized()
    assert apply(InjectOps(), model)
    node = model.graph[0]
    assert (node.domain, node.op_type) == (GENERAL, "Quant")
    assert sorted(node.attributes) == ["narrow", "rounding_mode", "signed"]
    assert variants(model) == [("Quant", "signed_1_narrow_0_rounding_mode_ROUND")]
    assert model.ir_version == 10


def test_loading_again_takes_the_functions_of_the_file(tmp_path: Path):
    model = quantized()
    InjectOps().call(model)
    function = next(iter(model.functions.values()))
    result = function.outputs[0]
    negated = ir.Node("", "Neg", [result])
    negated.outputs[0].name = "negated"
    function.append(negated)
    function.outputs[0] = negated.outputs[0]
    onnx_passes.save(model, tmp_path / "changed.onnx")
    found = run_model(tmp_path / "changed.onnx", {"x": X})["y"]
    np.testing.assert_array_equal(found, -run_model(quantized(), {"x": X})["y"])


TWO = """
g (float[1, 3, 2, 2] x) => (float[1, 3, 2, 2] y)
<float s = {{0.5}}, float z = {{0.0}}, float b = {{4.0}}, float[3, 2] t = {{0.0, 1.0, -1.0, 0.5, 2.0, 2.5}},
 float[1, 3, 2, 2] d>
{{
    a = {0}.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
    c = {0}.Quant <signed = 1, narrow = 0> (a, s, z, b)
    d = {0}.Quant <signed = 1, narrow = 1, rounding_mode = "FLOOR"> (c, s, z, b)
    y = {0}.MultiThreshold <out_dtype = "INT4", out_scale = 0.5, out_bias = -1.0> (d, t)
}}
"""


def test_one_function_for_each_variant(tmp_path: Path):
    model = model_of(TWO.format(GENERAL), domains=f'"{GENERAL}" : 1')
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(1, 3, 2, 2)
    expected = run_model(model, {"x": x})["y"]
    model = onnx_passes.apply(model, "inject-ops").model
    assert variants(model) == [
        ("MultiThreshold", "out_dtype_INT4_out_scale_0_5_out_bias_m1_0"),
        ("Quant", "signed_1_narrow_0_rounding_mode_ROUND"),
        ("Quant", "signed_1_narrow_1_rounding_mode_FLOOR"),
    ]
    onnx_passes.save(model, tmp_path / "m.onnx")
    assert run_file(tmp_path / "m.onnx", {"x": x})[0].tobytes() == expected.tobytes()


def test_element_types_are_variants(tmp_path: Path):
    model = model_of(
        f"""
        g (float[4] x, double[4] w) => (float[4] y, double[4] v)
        <float s = {{0.5}}, double d = {{0.25}}>
        {{ y = {GENERAL}.BipolarQuant (x, s) v = {GENERAL}.BipolarQuant (w, d) }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    assert apply(InjectOps(), model)
    assert variants(model) == [("BipolarQuant", "double"), ("BipolarQuant", "float")]
    onnx_passes.save(model, tmp_path / "m.onnx")
    x = np.array([-1, -0.0, 2, np.nan])
    y, v = run_file(tmp_path / "m.onnx", {"x": x.astype(np.float32), "w": x})
    assert y.tolist() == [-0.5, 0.5, 0.5, -0.5]
    assert v.tolist() == [-0.25, 0.25, 0.25, -0.25]


def test_bodies_are_looked_into(tmp_path: Path):
    model = model_of(
        f"""
        g (bool c, float[4] x) => (float[4] y)
        {{
            y = If (c) <
                then_branch = then () => (float[4] t)
                    {{ one = Constant <value_float = 1.0> () t = {GENERAL}.BipolarQuant (x, one) }},
                else_branch = otherwise () => (float[4] e) {{ e = Neg (x) }}
            >
        }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    assert apply(InjectOps(), model)
    onnx_passes.save(model, tmp_path / "m.onnx")
    x = np.array([-1, -0.0, 2, np.nan], np.float32)
    assert run_file(tmp_path / "m.onnx", {"c": np.array(True), "x": x})[0].tolist() == [-1, 1, 1, -1]


def test_operators_in_functions_stay_and_are_noted():
    model = model_of(
        f"""
        g (float[4] x) => (float[4] y) {{ y = local.f (x) }}
        <domain: "local", opset_import: ["" : 18, "{GENERAL}" : 1]>
        f (a) => (b) {{ one = Constant <value_float = 1.0> () b = {GENERAL}.BipolarQuant (a, one) }}
        """,
        domains='"local" : 1',
    )
    (note,) = notes_of(InjectOps(), model)
    assert note.startswith("1 custom operator in function 'f' stay")
    assert list(model.functions) == [("local", "f", "")]
    result = onnx_passes.apply(model, "inline-functions, inject-ops")
    assert variants(result.model) == [("BipolarQuant", "float")]


def test_functions_of_the_model_stay():
    model = model_of(
        f"""
        g (float[4] x) => (float[4] y) {{ y = {GENERAL}.BipolarQuant (x, x) }}
        <domain: "{GENERAL}", opset_import: ["" : 18]>
        BipolarQuant (a, s) => (b) {{ b = Neg (a) }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    assert not apply(InjectOps(), model)
    assert not apply(EjectOps(), model)


def test_ejected_model_is_the_one_before():
    model = quantized()
    collect(["shape-inference"])[0](model)
    model.ir_version = 10
    before = full_hash(model)
    assert apply(InjectOps(), model)
    assert apply(EjectOps(), model)
    assert full_hash(model) == before


@pytest.mark.parametrize("path", files("zoo", "brevitas", "edge"), indirect=True)
def test_models_of_others_run_in_stock_onnx_runtime(path: Path, tmp_path: Path):
    if path.stat().st_size > 100_000 or not path.with_suffix(".npz").exists():
        pytest.skip("takes long, or nothing is known of its results")
    result = onnx_passes.apply(path, "import-qonnx, inject-ops", verify=False)
    onnx_passes.save(result.model, tmp_path / "m.onnx")
    inputs, outputs = stored(path)
    for value, array in zip(result.model.graph.outputs, run_file(tmp_path / "m.onnx", inputs), strict=True):
        wanted = outputs[str(value.name)]
        # Its optimizations round in other ways, and where a tie is near, a quantizer makes a step of that.
        close = np.isclose(array, wanted, rtol=0, atol=1e-5 * max(float(np.abs(wanted).max()), 1e-30))
        assert close.all()


@pytest.mark.parametrize("path", files("zoo", "brevitas", "edge"), indirect=True)
def test_streamlined_models_run_in_stock_onnx_runtime(path: Path, tmp_path: Path):
    if path.stat().st_size > 50_000 or not path.with_suffix(".npz").exists():
        pytest.skip("takes long, or no inputs are known")
    streamlined = onnx_passes.apply(path, "streamline", verify=False).model
    injected = onnx_passes.apply(streamlined, "inject-ops", verify=False).model
    onnx_passes.save(injected, tmp_path / "m.onnx")
    inputs, _ = stored(path)
    expected = run_model(streamlined, inputs)
    for value, array in zip(injected.graph.outputs, run_file(tmp_path / "m.onnx", inputs, _AS_IT_IS), strict=True):
        np.testing.assert_array_equal(array, expected[str(value.name)])
    # Its optimizations round the floats behind the integers in other ways.
    for value, array in zip(injected.graph.outputs, run_file(tmp_path / "m.onnx", inputs), strict=True):
        wanted = expected[str(value.name)]
        assert np.isclose(array, wanted, rtol=0, atol=1e-6 * max(float(np.abs(wanted).max()), 1e-30)).all()
