"""What a model declares is kept and true; what shows nothing about results says so."""

from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.claims import Claim
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.declarations import Declared, out_of_order, wrong_annotation
from onnx_passes.verify.comparison.evidence import Limits, Promise, evidence_of, says_nothing

HEAD = '<ir_version: 10, opset_import: ["": 20]>'


def model(inputs: str, outputs: str = "float[2] y", constants: str = "", body: str = "y = Neg(x)") -> ir.Model:
    return ir.from_onnx_text(f"{HEAD} g ({inputs}) => ({outputs}) <{constants}> {{ {body} }}")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("float[2] x, float[3] z", "float[2] x, float[3] z", ""),
        ("float[2] x, float[3] z", "float[3] z, float[2] x", "inputs are"),
        ("float[2] x, float[3] z", "float[2] x", "inputs are"),
        ("float[2] x", "float[2] x, float[3] z", "inputs are"),
        ("float[2] x", "float16[2] x", "was declared as"),
        ("float[2] x", "float[3] x", "was declared as"),
        ("float[2] x", "float[N] x", "was declared as"),
        ("float[N] x", "float[2] x", "was declared as"),
        ("float[2] x", "float[2,1] x", "was declared as"),
        ("float[2] x", "float x", "was declared as"),
        ("float[N] x", "float[M] x", ""),
        ("float x", "float[2] x", ""),
    ],
)
def test_inputs_stay_as_they_were_declared(before: str, after: str, said: str):
    declared = Declared.by(model(before))
    found = declared.broken_by(model(after), {})
    assert found.startswith(said) if not said else said in found


def test_only_an_input_with_a_default_may_go():
    declared = Declared.by(model("float[2] x, float[2] z", constants="float[2] z = {1, 2}"))
    assert not declared.broken_by(model("float[2] x"), {})
    assert declared.broken_by(model("float[2] z", body="y = Neg(z)"), {})


@pytest.mark.parametrize(
    ("declared", "shape", "right"),
    [
        ("float[2] y", (2,), True),
        ("float[2] y", (3,), False),
        ("float[2] y", (2, 1), False),
        ("float[2] y", (), False),
        ("float[N] y", (7,), True),
        ("float[N,2] y", (7, 3), False),
        ("float[N,2] y", (7,), False),
        ("float[] y", (), True),
    ],
)
def test_outputs_are_as_they_are_declared(declared: str, shape: tuple[int, ...], right: bool):
    here = Declared.by(model("float[2] x", declared))
    results = {"y": np.zeros(shape, np.float32)}
    assert (here.broken_by(model("float[2] x", declared), results) == "") == right
    here.excuse(results)
    assert here.broken_by(model("float[2] x", declared), results) == ""


def test_outputs_that_were_wrong_before_excuse_no_others():
    both = "float[2] y, float[2] z"
    here = Declared.by(model("float[2] x", both, body="y = Neg(x) z = Abs(x)"))
    here.excuse({"y": np.zeros(3), "z": np.zeros(2)})
    after = model("float[2] x", both, body="y = Neg(x) z = Abs(x)")
    assert here.broken_by(after, {"y": np.zeros(3), "z": np.zeros(2)}) == ""
    assert "output z" in here.broken_by(after, {"y": np.zeros(2), "z": np.zeros(3)})


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(2, np.float32), ""),
        (np.zeros(3, np.float32), "shape"),
        (np.zeros((1, 2), np.float32), "shape"),
        (np.zeros(2, np.float64), "annotated as"),
        (np.zeros(2, np.int32), "annotated as"),
    ],
)
def test_annotations_are_those_of_what_is_computed(array: np.ndarray, said: str):
    of = model("float[2] x", body="a = Neg(x) y = Abs(a)")
    a, y = of.graph[0].outputs[0], of.graph[1].outputs[0]
    a.shape, a.type = ir.Shape([2]), ir.TensorType(ir.DataType.FLOAT)
    right = np.zeros(2, np.float32)
    for value in (a, y):
        computed = {a: [right], y: [right]} | {value: [right, array]}
        assert (
            (said in wrong_annotation(of.graph, computed.get)) if said else not wrong_annotation(of.graph, computed.get)
        )
    assert not wrong_annotation(of.graph, lambda _: None)


def test_nodes_stand_behind_what_they_read_in_every_graph():
    of = model("float[2] x", body="a = Neg(x) b = Exp(a) y = Abs(b)")
    assert not out_of_order(of.graph)
    first, second, last = of.graph
    for node in (first, second):
        moved = model("float[2] x", body="a = Neg(x) b = Exp(a) y = Abs(b)")
        nodes = list(moved.graph)
        place = [first, second].index(node)
        moved.graph.remove(nodes[place])
        moved.graph.append(nodes[place])
        assert "stands before" in out_of_order(moved.graph)
        assert not Declared.by(moved).is_sorted
        assert Declared.by(of).broken_by(moved, {})
        assert not Declared.by(moved).broken_by(moved, {})
    assert last.op_type == "Abs"
    branch = "then_branch = t () => (float[2] t) { c = Neg(x) t = Abs(c) }, else_branch = e () => (float[2] e)"
    nested = model("float[2] x, bool w", body=f"y = If (w) <{branch} {{ e = Abs(x) }}>")
    inner = nested.graph[0].attributes["then_branch"].as_graph()
    assert not out_of_order(nested.graph)
    node = inner[0]
    inner.remove(node)
    inner.append(node)
    assert "stands before" in out_of_order(nested.graph)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ([[1.0, 1.0], [1.0, 1.0]], True),
        ([[np.nan, np.nan], [np.nan, np.nan]], True),
        ([[1.0, 1.0], [1.0, 2.0]], False),
        ([[1.0, 1.0], [2.0, 2.0]], False),
        ([[1.0, np.nan], [1.0, 1.0]], False),
        ([[1.0]], False),
        ([[1, 1], [1, 1]], False),
    ],
)
def test_results_that_never_change_show_little(arrays: list[list[float]], says: bool):
    dtype = np.int64 if isinstance(arrays[0][0], int) else np.float32
    assert bool(says_nothing([{"y": np.array(array, dtype)} for array in arrays])) == says
    assert not says_nothing([])


def test_evidence_is_no_more_than_all_comparisons_show():
    zero, one = np.zeros(2, np.float32), np.array([0, 0.5], np.float32)
    same, other = compare({"y": zero}, {"y": zero}), compare({"y": zero}, {"y": one})
    for comparisons, kind, level in (
        ([same, same], "equality", "bits:sampled"),
        ([same, other], "tolerance", "tolerance:sampled"),
        ([other, same], "tolerance", "tolerance:sampled"),
        ([other], "metric", "metric:sampled"),
        ([same], "metric", "bits:sampled"),
    ):
        found = evidence_of(Promise(Claim(kind), Limits()), comparisons, 3, "engine", time.perf_counter(), 2)
        assert (found.level, found.samples, found.windows, found.claim) == (level, 3, 2, kind)
        assert found.max_abs == max(each.max_abs or 0 for each in comparisons)
        assert found.max_ulp == max(each.max_ulp or 0 for each in comparisons)
