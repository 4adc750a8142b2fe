from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import ExitCode
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.load import load
from onnx_passes.graph.weightless import weightless
from onnx_passes.passes.check.checker import Checker, InvalidModelError
from tests.helpers.random_models import random_model
from tests.passes.tools import apply, model_of


def refusal(text: str, *, full_check: bool = False, **header: str) -> str:
    model = model_of(text, **header)
    before = full_hash(model)
    with pytest.raises(InvalidModelError) as caught:
        Checker(full_check=full_check)(model)
    assert full_hash(model) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("[n] y = Foo (x)", "Foo 'n': No Op registered for Foo with domain_version of 18; the operator set of the"),
        ("[n] y = Relu <q = 1> (x)", "Relu 'n': Unrecognized attribute: q for operator Relu"),
        ("[n] y = Cast (x)", "Cast 'n': Required attribute 'to' is missing"),
        ("[n] y = other.Op (x)", "Op 'n': No opset import for domain 'other'; import the domain in the model"),
        ("y = Relu (x, x)", "Relu without a name: Node with schema(::Relu:14) has input size 2"),
        ("[n] y = Relu (a) a = Abs (x)", "Relu 'n': Nodes in a graph must be topologically sorted, however input 'a'"),
    ],
)
def test_names_the_node_and_says_in_one_sentence_what_is_wrong(nodes: str, message: str):
    assert refusal(f"g (float[2] x) => (float[2] y) {{ {nodes} }}").startswith(message)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("int64[2] y", "Relu 'n': Inferred elem type differs from existing elem type: FLOAT vs INT64"),
        ("float[3] y", "Relu 'n': Inferred shape and existing shape differ in dimension 0: (2) vs (3)"),
    ],
)
def test_full_check_compares_types_and_shapes(output: str, message: str):
    text = f"g (float[2] x) => ({output}) {{ [n] y = Relu (x) }}"
    assert not apply(Checker(), model_of(text))
    assert refusal(text, full_check=True) == message


def test_an_error_of_a_pass_has_its_exit_code():
    with pytest.raises(InvalidModelError) as caught:
        Manager().run(plan("checker"), model_of("g (float[2] x) => (float[2] y) { y = Foo (x) }"))
    assert caught.value.exit_code == ExitCode.PASS


def test_says_what_was_checked():
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    (step,) = Manager().run(plan("checker{full-check=true}"), model).record.steps
    assert step.result == {"valid": True, "full_check": True}


def test_custom_domains_pass_if_they_are_imported():
    domains = '"qonnx.custom_op.general" : 2'
    text = "g (float[2] x) => (float[2] y) { t = qonnx.custom_op.general.Quant (x) y = Relu (t) }"
    for full_check in (False, True):
        assert not apply(Checker(full_check=full_check), model_of(text, domains=domains))


def test_functions_pass():
    model = model_of(
        'g (float[2] x) => (float[2] y) { y = local.f (x) }\n<domain: "local", opset_import: ["" : 18]>\n'
        "f (a) => (b) { b = Relu (a) }",
        domains='"local" : 1',
    )
    assert not apply(Checker(full_check=True), model)


def with_weight(array: np.ndarray, ir_version: int = 9) -> ir.Model:
    model = model_of("g (float[1] x) => (float[n] y) <float[1] w = {1}> { y = Mul (x, w) }", ir_version=ir_version)
    weight = model.graph.initializers["w"]
    weight.const_value, weight.shape = ir.Tensor(array), ir.Shape(array.shape)
    return model


def test_models_beyond_two_gigabytes_pass():
    model = with_weight(np.broadcast_to(np.float32(1), 600_000_000))
    assert model.graph.initializers["w"].const_value.nbytes > 2**31
    Checker(full_check=True)(model)


def test_models_with_external_data_pass(tmp_path: Path):
    path = tmp_path / "model.onnx"
    ir.save(with_weight(np.ones(1000, np.float32)), path, external_data="model.data", size_threshold_bytes=0)
    model = load(path)
    assert isinstance(model.graph.initializers["w"].const_value, ir.ExternalTensor)
    assert not apply(Checker(full_check=True), model)


def test_weightless_models_are_small_valid_and_leave_the_model_alone():
    model = model_of("""g (bool k, float[4] x) => (float[4] y) <int64[1] shape = {4}, float[4] w = {1, 2, 3, 4}> {
      a = Reshape (x, shape)
      b = Mul (a, w)
      y = If (k) <then_branch = t () => (float[4] r) <float[4] v = {1, 2, 3, 4}> { r = Mul (b, v) },
                  else_branch = e () => (float[4] s) { s = Identity (b) }>
    }""")
    branch, other = (attribute.as_graph() for attribute in model.graph[-1].attributes.values())
    for weight in (model.graph.initializers["w"], branch.initializers["v"]):
        weight.const_value = ir.Tensor(np.ones((300_000, 4), np.float32))
        weight.shape = ir.Shape((300_000, 4))
    for value in (*branch.outputs, *other.outputs, *model.graph.outputs):
        value.shape = ir.Shape(["N", 4])
    before = full_hash(model)
    proto = weightless(model)
    assert full_hash(model) == before
    assert proto.ByteSize() < 2000
    assert [tensor.name for tensor in proto.graph.initializer] == ["shape"]
    assert [value.name for value in proto.graph.input] == ["k", "x", "w", "v"]
    onnx.checker.check_model(proto, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    assert [dim.dim_value for dim in inferred.output[0].type.tensor_type.shape.dim] == [300_000, 4]


def test_old_models_list_no_input_twice():
    model = with_weight(np.ones(1000, np.float32), ir_version=3)
    model.graph.inputs.append(model.graph.initializers["w"])
    assert [value.name for value in weightless(model).graph.input] == ["x", "w"]


@pytest.mark.parametrize("seed", range(5))
def test_random_models_pass(seed: int):
    assert not apply(Checker(full_check=True), random_model(seed))
