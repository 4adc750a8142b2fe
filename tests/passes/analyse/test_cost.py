from __future__ import annotations

import json

import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes import apply, load
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.analyse.inspection import inspect, try_to_run
from onnx_passes.report.inspection import sections
from tests.helpers.small_models import named
from tests.passes.tools import model_of


def test_the_finding_of_the_pass_is_plain_data_with_stable_keys():
    model = model_of(
        "g (float[N, 4] x) => (y) <float[4, 2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> { y = MatMul(x, w) }"
    )
    data = json.loads(json.dumps(apply(model, "cost")["cost"].to_json()))
    assert data["macs"] == "8*N"
    assert (data["parameters"], data["weight_bytes"], data["read_bytes"], data["written_bytes"]) == (
        8,
        32,
        "16*N",
        "8*N",
    )
    assert data["peak_activation_bytes"] == "24*N"
    assert data["layers"][0]["inputs"] == ["N×4", "4×2"]
    assert list(data) == [
        "macs", "operations", "parameters", "weight_bytes", "read_bytes", "written_bytes", "peak_activation_bytes",
        "peak_at", "peak_without", "symbols", "unknown", "uncounted", "operators", "layers",
    ]  # fmt: skip


def test_statistics_is_a_pass():
    model = model_of("g (float x) => (y) { a = Relu(x)  y = Neg(a) }")
    assert apply(model, "statistics")["statistics"].to_json()["depth"] == 2


def test_shared_weights_are_parameters_once_and_read_twice():
    text = "g (float[1, 2] x) => (y) <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}> { a = MatMul(x, w)  y = MatMul(a, w) }"
    cost = inspect(model_of(text)).cost
    assert (cost.parameters, cost.weight_bytes) == (4, 32)


def test_bodies_count_once_and_say_where_they_are():
    text = """g (bool c, float[1, 2] x, float[2, 2] w) => (y) {
        [choose] y = If (c) <
            then_branch = t () => (float[1, 2] p) { p = MatMul(x, w) },
            else_branch = e () => (float[1, 2] q) { q = Relu(x) }
        >
    }"""
    cost = inspect(model_of(text)).cost
    assert [layer.scope for layer in cost.layers] == ["", "If 'choose'", "If 'choose'"]
    assert (cost.macs, cost.operations) == (4, 2)


def test_functions_are_counted_at_every_call_and_the_model_stays_as_it_is():
    text = """g (float[1, 2] x, float[2, 2] w) => (y) { a = local.F(x, w)  y = local.F(a, w) }
    <domain: "local", opset_import: ["": 18]> F (p, q) => (r) { r = MatMul(p, q) }"""
    model = model_of(text, domains='"local": 1')
    before = full_hash(model)
    found = inspect(model)
    assert found.cost.macs == 8
    assert found.summary.functions == ("local::F",)
    assert full_hash(model) == before


def test_a_number_for_a_dimension_gives_what_the_formula_says():
    model = model_of(
        "g (float[N, S, 4] x, float[4, 3] w) => (y) { a = MatMul(x, w)  b = Concat <axis = 1> (a, a)  y = Relu(b) }"
    )
    formula, number = inspect(model).cost, inspect(model, dimensions={"N": 3, "S": 5}).cost
    assert str(formula.macs) == "12*N*S"
    assert str(formula.operations) == "6*N*S"
    assert (number.macs, number.operations) == (12 * 15, 6 * 15)
    assert str(inspect(model, dimensions={"S": 5}).cost.macs) == "60*N"


def test_an_unknown_dimension_is_refused():
    with pytest.raises(UsageError, match="no dimension is called 'batc'") as refused:
        inspect(model_of("g (float[batch] x) => (y) { y = Relu(x) }"), dimensions={"batc": 2})
    assert "'batch'" in str(refused.value)


def test_a_trial_says_what_is_missing():
    missing = try_to_run(model_of("g (float x) => (y) { [odd] y = other.Thing(x) }", domains='"other": 1'))
    assert not missing.runs
    assert "Thing" in missing.why
    found = try_to_run(model_of("g (float[N] x) => (y) { y = Relu(x) }"))
    assert (found.runs, found.level) == (True, "default")


def test_a_trial_is_that_of_a_default_session():
    """ONNX Runtime drops the Cast to its own type and then misses what Mul reads, unless optimizations are off."""
    model = model_of(
        "g (float[4] x, float[4] a) => (float[4] y) <float[1] one = {1}>"
        " { mid = Cast<to=1>(x) r = Div(one, a) y = Mul(r, mid) }",
        opset=17,
    )
    proto = ir.serde.serialize_model(model)
    try:
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        accepted = True
    except Exception:  # noqa: BLE001 - whatever a user would see
        accepted = False
    found = inspect(model, run=True)
    assert found.trial.runs == accepted
    lines = dict(sections(found))["runs"]
    if not accepted:
        assert found.trial.level == "none"
        assert "not in ONNX Runtime as it runs by default" in lines[0]
        assert "ORT_DISABLE_ALL" in lines[1]


def test_a_trial_names_operators_that_onnx_runtime_lacks():
    model = model_of(
        "g (float[4] x) => (y) <float s = {0.5}, float z = {0}, float b = {4}>"
        " { y = qonnx.custom_op.general.Quant<signed=1, narrow=0>(x, s, z, b) }",
        domains='"qonnx.custom_op.general": 1',
    )
    [ran, lacks] = dict(sections(inspect(model, run=True)))["runs"]
    assert "default optimizations" in ran
    assert "lacks qonnx.custom_op.general::Quant" in lacks


MACS = {
    # Each pixel of 6 × 6 in every channel: kernels times channels of the three convolutions.
    "float/small_residual": 36 * 8 * (9 * 4 + 9 * 8 + 4),
    # The kernels of 8 groups, two products of channels, over the image and over what is pooled of it.
    "float/small_mobile": 64 * 8 * (9 + 8) + 8 * 8,
    "float/onnx_light_resnet50": 4.09e9,
    "float/onnx_light_densenet121": 2.83e9,
    "float/onnx_light_squeezenet": 0.35e9,
}


@pytest.mark.parametrize(("path", "macs"), named(MACS), indirect=["path"])
def test_macs_of_known_networks(path, macs):
    model = load(path)
    found = inspect(model, dimensions={"N": 1} if path.stem == "small_mobile" else {})
    assert isinstance(found.cost.macs, int)
    assert found.cost.macs == macs if isinstance(macs, int) else round(found.cost.macs / 1e9, 2) == macs / 1e9
    assert not found.cost.unknown


def test_a_model_of_unknown_shapes_is_still_inspected():
    model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float x) => (y) { y = NonZero(x) }')
    assert inspect(model).cost.macs == 0
