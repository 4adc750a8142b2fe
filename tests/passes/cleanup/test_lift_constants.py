from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.cleanup.lift_constants import LiftConstants
from tests.helpers.random_models import random_inputs, random_model
from tests.passes.tools import apply, assert_equal_results, check, model_of, notes_of, operators, run


@pytest.mark.parametrize(
    ("attribute", "type_", "expected"),
    [
        ("value = float[2] {1, 2}", "float[2]", np.array([1, 2], np.float32)),
        ("value = int8 {3}", "int8", np.array(3, np.int8)),
        ("value_float = 2.5", "float", np.array(2.5, np.float32)),
        ("value_floats = [2.5, 1.0]", "float[2]", np.array([2.5, 1.0], np.float32)),
        ("value_int = 7", "int64", np.array(7)),
        ("value_ints = [7, 8]", "int64[2]", np.array([7, 8])),
    ],
)
def test_lifts_every_kind_of_number(attribute: str, type_: str, expected: np.ndarray):
    model = model_of(f"g () => ({type_} y) {{ c = Constant <{attribute}> () y = Identity (c) }}")
    assert apply(LiftConstants(), model)
    assert operators(model.graph) == ["Identity"]
    value = model.graph.initializers["c"]
    assert value.const_value is not None
    assert value.const_value.numpy().tobytes() == expected.tobytes()
    assert (value.dtype, value.shape) == (ir.DataType.from_numpy(expected.dtype), list(expected.shape))
    check(model)
    assert_equal_results(model, [expected], {})


@pytest.mark.parametrize(
    ("attribute", "shape"),
    [('value_string = "ä"', []), ('value_strings = ["ä", "b"]', [2]), ('value = string[2] {"ä", "b"}', [2])],
)
def test_lifts_strings(attribute: str, shape: list[int]):
    model = model_of(f"g () => (string{shape or ''} y) {{ c = Constant <{attribute}> () y = Identity (c) }}")
    expected = run(model, {})
    assert apply(LiftConstants(), model)
    assert model.graph.initializers["c"].shape == shape
    check(model)
    assert run(model, {})[0].tolist() == expected[0].tolist()


def test_name_annotations_and_metadata_come_along():
    model = model_of("g (float[1] x) => (float[1] y) { [n] c = Constant <value = float[1] {1}> () y = Add (x, c) }")
    node = model.graph[0]
    output = node.outputs[0]
    annotations.set(output, {"finn_datatype": "INT2"})
    output.metadata_props["of"] = "value"
    node.metadata_props.update({"of": "node", "by": "node"})
    output.doc_string = "one"
    output.meta["mine"] = 5
    assert apply(LiftConstants(), model)
    value = model.graph.initializers["c"]
    assert annotations.get(value) == {"finn_datatype": "INT2"}
    assert value.metadata_props == {"of": "value", "by": "node"}
    assert (value.doc_string, value.meta["mine"]) == ("one", 5)


def test_constants_that_are_outputs_stay():
    model = model_of(
        "g (float[1] x) => (float[1] y, float[1] c) { c = Constant <value = float[1] {1}> () y = Add (x, c) }"
    )
    assert not apply(LiftConstants(), model)
    check(model)


def test_subgraphs_keep_their_constants_and_outputs():
    model = model_of("""g (bool k, float[2] x) => (float[2] y) {
      y = If (k) <then_branch = t () => (float[2] r) { c = Constant <value = float[2] {1, 2}> () r = Mul (x, c) },
                  else_branch = e () => (float[2] s) { s = Constant <value = float[2] {3, 4}> () }>
    }""")
    feeds = {"k": np.array(True), "x": np.array([5, 6], np.float32)}
    expected = run(model, feeds)
    assert apply(LiftConstants(), model)
    found = {graph.name: (operators(graph), list(graph.initializers)) for graph in model.graphs()}
    assert found == {"g": (["If"], []), "t": (["Mul"], ["c"]), "e": (["Constant"], [])}
    check(model)
    assert_equal_results(model, expected, feeds)


def test_functions_are_left_alone():
    model = model_of(
        'g (float[1] x) => (float[1] y) { y = local.f <k = 2.0> (x) }\n<domain: "local", opset_import: ["" : 18]>\n'
        "f <k> (a) => (b) { c = Constant <value_float : float = @k> () b = Mul (a, c) }",
        domains='"local" : 1',
    )
    assert not apply(LiftConstants(), model)


def test_a_constant_of_another_domain_is_left_alone():
    model = model_of(
        "g () => (float[1] y) { c = other.Constant <value_float = 1.0> () y = Identity (c) }", domains='"other" : 1'
    )
    assert not apply(LiftConstants(), model)


def test_old_models_are_refused_with_a_note():
    text = "g (float[1] x) => (float[1] y) { c = Constant <value = float[1] {1}> () y = Add (x, c) }"
    model = model_of(text, ir_version=3, opset=8)
    assert not apply(LiftConstants(), model)
    assert notes_of(LiftConstants(), model) == ["nothing lifted: in IR version 3 every initializer has to be an input"]
    assert not notes_of(
        LiftConstants(), model_of("g (float[1] x) => (float[1] y) { y = Relu (x) }", ir_version=3, opset=8)
    )


def test_clones_do_not_notice():
    model = model_of("g (float[1] x) => (float[1] y) { c = Constant <value = float[1] {1}> () y = Add (x, c) }")
    clone = model.clone()
    before = full_hash(clone)
    apply(LiftConstants(), model)
    model.graph.initializers["c"].name = "renamed"
    ir.to_proto(model)
    assert full_hash(clone) == before


@pytest.mark.parametrize("seed", range(15))
def test_random_models_compute_the_same(seed: int):
    model = random_model(seed, nodes=30)
    feeds = random_inputs(model)
    expected = run(model, feeds)
    apply(LiftConstants(), model)
    check(model)
    assert_equal_results(model, expected, feeds)
