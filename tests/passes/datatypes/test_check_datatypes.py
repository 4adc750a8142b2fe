"""Constants and results are held to their data types."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.base import Context
from onnx_passes.core.errors import ExitCode, ModelError
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.passes.datatypes.check_datatypes import CheckDatatypes, DataTypeError
from tests.passes.tools import apply, model_of, notes_of, value

TEXT = "g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, -8, 9, 7.5}> { a = Relu (x) y = Mul (a, w) }"


def declared(text: str, *, domains: str = "", **types: str) -> ir.Model:
    model = model_of(text, domains=domains)
    for name, datatype in types.items():
        set_datatype(value(model, name), datatype)
    return model


def check(model: ir.Model, *, execute: bool = True) -> dict[str, int]:
    return CheckDatatypes(execute=execute).analyze(model)


def test_names_tensor_type_and_first_element():
    model = declared(TEXT, w="INT4")
    before = full_hash(model)
    with pytest.raises(DataTypeError) as caught:
        check(model)
    assert caught.value.what == "'w' is declared as INT4, but holds 9.0 at [1, 0] and 1 more"
    assert caught.value.exit_code == ExitCode.VERIFICATION
    assert full_hash(model) == before


def test_in_a_pipeline_it_ends_the_run():
    with pytest.raises(DataTypeError, match="pass 'check-datatypes': 'w' is declared as INT4"):
        onnx_passes.apply(declared(TEXT, w="INT4"), "check-datatypes")


def test_says_how_much_was_checked():
    model = declared(TEXT, x="INT4", w="FIXED<6,5>", a="UINT3", y="FLOAT32")
    assert check(model) == {"constants": 1, "results": 1, "samples": 3}
    assert check(model, execute=False) == {"constants": 1, "results": 0, "samples": 0}
    assert not apply(CheckDatatypes(), model)


def test_results_are_executed():
    model = declared(TEXT, x="INT4", a="UINT2")
    with pytest.raises(DataTypeError, match=r"^'a' is declared as UINT2, but holds [4-7]\.0 at \[\d, \d\]"):
        check(model)
    assert check(model, execute=False) == {"constants": 0, "results": 0, "samples": 0}


def test_results_of_the_model_count_as_well():
    model = declared("g (float[4] x) => (float[4] y) { y = Neg (x) }", x="INT4", y="INT4")
    with pytest.raises(DataTypeError, match=r"'y' is declared as INT4, but holds 8\.0"):
        check(model)


def test_several_tensors_are_named_and_the_rest_counted():
    names = [f"c{i}" for i in range(7)]
    constants = ", ".join(f"float {name} = {{0.5}}" for name in names)
    model = declared(
        f"g (float x) => (float y) <{constants}> {{ y = Sum (x, {', '.join(names)}) }}", **dict.fromkeys(names, "INT4")
    )
    with pytest.raises(DataTypeError) as caught:
        check(model)
    assert caught.value.what.count("is declared as INT4, but holds 0.5") == 5
    assert caught.value.what.endswith("; and 2 more tensors")


def test_constant_nodes_and_defaults_of_inputs_are_constants():
    node = "g (float[2] x) => (float[2] y) { c = Constant <value = float[2] {0, 0.5}> () y = Add (x, c) }"
    with pytest.raises(DataTypeError, match=r"'c' is declared as BINARY, but holds 0.5 at \[1\]"):
        check(declared(node, c="BINARY"))
    default = "g (float[2] x, float[2] c = {0, 2}) => (float[2] y) { y = Add (x, c) }"
    with pytest.raises(DataTypeError, match=r"'c' is declared as BINARY, but holds 2\.0"):
        check(declared(default, c="BINARY"))


def test_constants_in_subgraphs_are_looked_at():
    text = (
        "g (float x, bool b) => (float y) { y = If (b) <then_branch = t () => (float p) <float c = {3}>"
        " { p = Add (x, c) }, else_branch = e () => (float q) { q = Neg (x) }> }"
    )
    with pytest.raises(DataTypeError, match=r"'c' is declared as BINARY, but holds 3\.0"):
        check(declared(text, c="BINARY"))


def test_infinite_results_and_nan_are_no_integers():
    model = declared("g (float[4] x) => (float[4] y) { a = Sub (x, x) y = Div (x, a) }", x="INT4", y="INT8")
    with pytest.raises(DataTypeError, match=r"'y' is declared as INT8, but holds (-?inf|nan)"):
        check(model)


def test_what_cannot_be_executed_is_said():
    model = declared("g (float[2] x) => (float[2] y) { y = my.Thing (x) }", domains='"my" : 1', y="INT4")
    (note,) = notes_of(CheckDatatypes(), model)
    assert note.startswith("1 result with a data type could not be checked: ")
    assert "nothing defines the operator my::Thing" in note
    context = Context()
    assert CheckDatatypes().run(model, context).value["samples"] == 0
    without_shape = declared("g (float[2] x) => (float[2] y) { y = Relu (x) }", y="INT4")
    without_shape.graph.inputs[0].shape = None
    assert "input 'x' has no shape" in notes_of(CheckDatatypes(), without_shape)[0]


def test_nothing_is_executed_without_need():
    model = declared("g (float[2] x) => (float[2] y) { y = my.Thing (x) }", domains='"my" : 1', y="FLOAT32")
    assert notes_of(CheckDatatypes(), model) == []


def test_an_unknown_type_names_the_tensor():
    model = model_of(TEXT)
    annotations.set(value(model, "w"), {"finn_datatype": "__import__('os')"})
    with pytest.raises(ModelError, match="finn_datatype of tensor 'w': there is no data type"):
        check(model)


def test_integers_beyond_a_float_are_found():
    model = declared(TEXT, w="INT33")
    weights = value(model, "w")
    weights.const_value = ir.Tensor(np.array([[2.0**32, 1], [1, 1]], np.float32), name="w")
    with pytest.raises(DataTypeError, match=r"'w' is declared as INT33, but holds 4294967296\.0"):
        check(model)


def test_what_rewrites_do_to_annotated_constants():
    """Constants that a rewrite computes start without a type; those that stay keep theirs."""
    model = declared(
        "g (int32[2] x) => (int32[2] y) <int32[2] c = {1, 2}, int32[2] d = {100, 2}> { a = Add (x, c) y = Add (a, d) }",
        x="INT4",
        c="UINT2",
        d="UINT7",
        a="INT5",
    )
    result = onnx_passes.apply(model, "group-constants").model
    (name, folded) = next((n, v) for n, v in result.graph.initializers.items())
    assert folded.const_value is not None
    assert folded.const_value.numpy().tolist() == [101, 4]
    assert annotations.get(folded) == {}, name
    CheckDatatypes().analyze(result)


def test_results_that_a_rewrite_replaces_keep_their_types():
    model = declared(
        "g (float[2, 3] x) => (float[2, 3] y) { a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a)"
        " c = Relu (b) y = Neg (c) }",
        x="INT4",
        b="INT4",
        c="UINT3",
    )
    result = onnx_passes.apply(model, "eliminate-transpose").model
    assert annotations.get(value(result, "c")) == {"finn_datatype": "UINT3"}
    assert annotations.get(value(result, "x")) == {"finn_datatype": "INT4"}
