from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.api import run_model
from onnx_passes.core.errors import ModelError
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.qonnx.import_qonnx import ImportQonnx
from tests.helpers.small_models import files
from tests.passes.qonnx.tools import GENERAL, X, quantized, stored
from tests.passes.tools import apply, model_of, notes_of, value


def expected() -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return (np.rint(np.clip(X / np.float32(0.5), -8, 7)) * np.float32(0.5)).astype(np.float32)


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general", "finn"])
def test_earlier_domains_become_that_of_qonnx(domain: str):
    model = quantized(domain=domain)
    assert apply(ImportQonnx(), model)
    assert model.graph[0].domain == GENERAL
    assert dict(model.opset_imports) == {"": 18, GENERAL: 1}
    np.testing.assert_array_equal(run_model(model, {"x": X})["y"], expected())


def test_normal_form_stays_as_it_is():
    assert not apply(ImportQonnx(), quantized())
    assert not apply(ImportQonnx(), quantized(version=2, opset=13))


def test_model_without_custom_operators_stays_as_it_is():
    assert not apply(ImportQonnx(), model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }"))


def test_quantizer_has_one_name():
    model = quantized(operator="IntQuant")
    assert apply(ImportQonnx(), model)
    assert model.graph[0].op_type == "Quant"


def test_attributes_are_completed_and_spelled_alike():
    model = quantized('rounding_mode = "floor"')
    assert apply(ImportQonnx(), model)
    attributes = model.graph[0].attributes
    assert attributes.get_string("rounding_mode") == "FLOOR"
    assert (attributes.get_int("signed"), attributes.get_int("narrow")) == (1, 0)


@pytest.mark.parametrize(("second", "name"), [("half_even", "ROUND"), ("ROUND_TO_ZERO", "DOWN")])
def test_ways_of_rounding_have_one_name(second: str, name: str):
    model = quantized(f'signed = 1, narrow = 0, rounding_mode = "{second}"')
    before = run_model(model, {"x": X})["y"]
    assert apply(ImportQonnx(), model)
    assert model.graph[0].attributes.get_string("rounding_mode") == name
    assert run_model(model, {"x": X})["y"].tobytes() == before.tobytes()


def test_second_name_of_an_attribute_goes():
    model = model_of(
        f"""
        g (float[4] x) => (float[4] y)
        <float s = {{1.0}}, float e = {{4.0}}, float m = {{3.0}}, float b = {{7.0}}, float largest = {{448.0}}>
        {{ y = {GENERAL}.FloatQuant <has_infinity = 1, saturation = 0> (x, s, e, m, b, largest) }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    assert apply(ImportQonnx(), model)
    attributes = model.graph[0].attributes
    assert attributes.get_int("has_inf") == 1
    assert "has_infinity" not in attributes


def test_parameters_of_odd_ranks_stay():
    model = quantized(domain="onnx.brevitas", opset=9)
    scale = value(model, "scale").const_value
    assert apply(ImportQonnx(), model)
    assert value(model, "scale").const_value is scale
    assert list(scale.shape) == [1, 1, 1]


TRUNC_1 = 'a = {0}.Trunc <rounding_mode = "FLOOR"> (x, one, zero, ten, four)'
TRUNC_2 = 'b = {0}.Trunc <rounding_mode = "FLOOR"> (x, one, zero, ten, sixteen, four)'


def truncating(*nodes: str, version: int, domain: str = GENERAL) -> ir.Model:
    outputs = ", ".join(f"float[12] {node[0]}" for node in nodes)
    return model_of(
        f"""
        g (float[12] x) => ({outputs})
        <float one = {{1.0}}, float zero = {{0.0}}, float ten = {{10.0}}, float four = {{4.0}},
         float sixteen = {{16.0}}>
        {{ {" ".join(node.format(domain) for node in nodes)} }}
        """,
        domains=f'"{domain}" : {version}',
    )


def test_version_is_that_of_trunc():
    for node, version, wrong in ((TRUNC_1, 1, 2), (TRUNC_2, 2, 1)):
        model = truncating(node, version=wrong)
        assert apply(ImportQonnx(), model)
        assert model.opset_imports[GENERAL] == version


def test_refuses_both_versions_of_trunc():
    model = truncating(TRUNC_1, TRUNC_2, version=1, domain="onnx.brevitas")
    before = full_hash(model)
    with pytest.raises(ModelError, match="one version of a domain"):
        ImportQonnx().call(model)
    assert full_hash(model) == before


def test_hardware_stays():
    model = quantized('backend = "fpgadataflow"', domain="finn", operator="StreamingFCLayer")
    assert notes_of(ImportQonnx(), model) == ["unchanged nodes of FINN's hardware library: 1 StreamingFCLayer"]
    assert model.graph[0].domain == "finn"
    assert dict(model.opset_imports) == {"": 18, "finn": 1}


def test_old_standard_operators_are_raised():
    model = quantized(domain="onnx.brevitas", opset=9)
    assert apply(ImportQonnx(), model)
    assert model.opset_imports[""] == 13
    assert apply(ImportQonnx(opset=17), model)
    assert model.opset_imports[""] == 17
    assert not apply(ImportQonnx(), model)


def test_missing_imports_are_added():
    model = quantized()
    del model.opset_imports[GENERAL]
    assert ImportQonnx().call(model).modified
    assert model.opset_imports[GENERAL] == 1
    only = model_of(f"g (float[2] x) => (float[2] y) <float s = {{1.0}}> {{ y = {GENERAL}.BipolarQuant (x, s) }}")
    only.opset_imports.clear()
    assert ImportQonnx().call(only).modified
    assert dict(only.opset_imports) == {"": 13, GENERAL: 1}


def test_bodies_are_looked_into():
    model = model_of(
        """
        g (bool c, float[4] x) => (float[4] y)
        {
            y = If (c) <
                then_branch = then () => (float[4] t)
                    { one = Constant <value_float = 1.0> () t = onnx.brevitas.BipolarQuant (x, one) },
                else_branch = otherwise () => (float[4] e) { e = local.sign (x) }
            >
        }
        <domain: "local", opset_import: ["" : 18, "finn" : 1]>
        sign (a) => (b) { two = Constant <value_float = 2.0> () b = finn.BipolarQuant (a, two) }
        """,
        domains='"local" : 1, "onnx.brevitas" : 1',
    )
    assert apply(ImportQonnx(), model)
    domains = {node.domain for node in model.graph.all_nodes()} | {
        n.domain for f in model.functions.values() for n in f
    }
    assert domains == {"", "local", GENERAL}
    assert dict(next(iter(model.functions.values())).opset_imports) == {"": 18, GENERAL: 1}


def test_functions_of_the_model_keep_their_domain():
    model = model_of(
        """
        g (float[4] x) => (float[4] y) { y = onnx.brevitas.BipolarQuant (x) }
        <domain: "onnx.brevitas", opset_import: ["" : 18]>
        BipolarQuant (a) => (b) { b = Neg (a) }
        """,
        domains='"onnx.brevitas" : 1',
    )
    assert not apply(ImportQonnx(), model)


def test_data_types_are_spelled_alike():
    model = quantized()
    annotations.set(value(model, "x"), {"finn_datatype": " int4", "tensor_layout": "['N', 'C']"})
    annotations.set(value(model, "y"), {"finn_datatype": "NONSENSE"})
    assert notes_of(ImportQonnx(), model) == [
        "the annotation of 'y' is kept, but is not a data type: there is no data type 'NONSENSE'"
    ]
    assert annotations.get(value(model, "x")) == {"finn_datatype": "INT4", "tensor_layout": "['N', 'C']"}
    assert annotations.get(value(model, "y")) == {"finn_datatype": "NONSENSE"}


def test_refuses_wrong_attributes_and_names_the_node():
    with pytest.raises(ModelError, match=r"quantizer.*rounding_mode.*SIDEWAYS"):
        ImportQonnx().call(quantized('rounding_mode = "SIDEWAYS"'))


@pytest.mark.parametrize("path", files("zoo", "brevitas", "edge"), indirect=True)
def test_models_of_others_compute_what_others_found(path: Path):
    result = onnx_passes.apply(path, "import-qonnx")
    known = {"", GENERAL}
    assert set(result.model.opset_imports) <= known
    assert result.model.opset_imports[""] >= 13
    if not path.with_suffix(".npz").exists():
        run_model(result.model)
        return
    inputs, outputs = stored(path)
    found = run_model(result.model, inputs)
    for name, array in found.items():
        wanted = outputs[name]
        scale = max(float(np.abs(wanted).max()), 1e-30)
        np.testing.assert_allclose(array, wanted, rtol=0, atol=1e-6 * scale)
        # Of two models the stored results are those of another engine.
        if path.stem not in ("mobilenet_v1_w025_4w4a", "resnet18_w8_4w4a"):
            assert array.tobytes() == wanted.tobytes()
