from __future__ import annotations

from dataclasses import replace
from functools import partial

import onnx_ir as ir
import pytest

from onnx_passes.api import apply
from onnx_passes.core.records import Application, NodeUpdate, StepRecord
from onnx_passes.fragment.fragment import Fragment
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.constants import METHOD as CONSTANT
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.here import prove_here
from onnx_passes.verify.proving.shapes import prove_shapes
from tests.verify.proving.near_misses import scaled
from tests.verify.proving.windows import HEAD, _application, is_exact, prove


def model() -> ir.Model:
    return ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ a = Exp(x) y = Neg(a) }}")


def application(of: ir.Model, **given) -> Application:
    empty = {"matched": (), "added": (), "replaced": (), "initializers": ()}
    step = StepRecord(1, "planted", "planted", "")
    return Application(1, step, "planted", "", of.graph, None, **{**empty, **given})


def test_nothing_is_proved_of_an_application_that_only_says_so():
    of = model()
    assert not is_exact(prove_here(application(of), Facts(of)))
    pair = (of.graph[0].outputs[0], of.graph[1].outputs[0])
    given = application(of, matched=tuple(of.graph), replaced=(pair,))
    given.settled = True
    assert not is_exact(prove_here(given, Facts(of)))


@pytest.mark.parametrize(("held", "right"), [("0.5, 2", True), ("0.5, 3", False)])
def test_constants_are_computed_and_compared(held: str, right: bool):
    constants = f"float[2] c = {{2, 0.5}}, float[2] d = {{{held}}}"
    found = prove("float[2] x", "y = Reciprocal(c)", "y = Identity(d)", constants=constants)
    assert is_exact(found) == right
    assert not right or found.method == CONSTANT


def test_what_no_method_foresaw_is_not_proved(monkeypatch):
    def broken(*_: object) -> None:
        raise IndexError("planted")

    monkeypatch.setattr("onnx_passes.verify.proving.here.prove_congruent", broken)
    monkeypatch.setattr("onnx_passes.verify.proving.here.prove_constant", broken)
    found = prove("float[2] x", "y = Reciprocal(c)", "y = Identity(c)", constants="float[2] c = {1, 1}")
    assert found == replace(Unproved(""), reason="IndexError: planted")


def test_random_operators_are_not_proved():
    text = "y = RandomUniformLike(x)"
    assert "each time" in prove("float[2] x", text, text).reason


QUANT = """<ir_version: 9, opset_import: ["": 17, "onnx.brevitas": 1]> g (float[2] x) => (float[2] y)
<float s = {0.5}, float z = {0}, float b = {4}>
{ y = onnx.brevitas.Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (x, s, z, b) }"""


@pytest.mark.parametrize(
    ("fields", "attributes", "right"),
    [
        ({"domain": "qonnx.custom_op.general"}, {}, True),
        ({"domain": "qonnx.custom_op.general"}, {"signed": ir.AttrInt64("signed", 0)}, False),
        ({"op_type": "BipolarQuant"}, {}, False),
        ({"domain": "some.where"}, {}, False),
    ],
)
def test_a_node_that_changes_in_place_keeps_its_definition(fields, attributes, right):
    of = ir.from_onnx_text(QUANT)
    node = of.graph[0]
    given = application(of, matched=(node,), added=(node,))
    given.root, given.update = node, NodeUpdate(fields, attributes)
    assert is_exact(prove_here(given, Facts(of))) == right
    assert [user for user, _ in of.graph.inputs[0].uses()] == [node]


def test_operators_of_another_version_are_not_taken_for_the_same():
    of = model()
    given = application(of)
    given.versions = True
    assert not is_exact(prove_here(given, Facts(of)))


@pytest.mark.parametrize(("after", "keeps"), [("y = Mul(s, x)", True), ("y = Mul(x, f)", False)])
def test_only_a_proof_of_bits_says_that_bits_are_kept(after: str, keeps: bool):
    constants = "float s = {0.1}, float t = {0.3}, float f = {0.03}"
    before = "y = Mul(x, s)" if keeps else "a = Mul(x, s) y = Mul(a, t)"
    old, new = (
        apply(ir.from_onnx_text(f"{HEAD} g (float[2] x) => (y) <{constants}> {{ {body} }}"), "shape-inference").model
        for body in (before, after)
    )
    facts = Facts(old)
    found = prove_here(_application(old, new, 0), facts)
    assert facts.keeps_bits == keeps == is_exact(found)


def test_what_holds_graphs_is_not_proved():
    text = """c = Constant <value = bool {1}> () y = If (c) <
        then_branch = yes () => (float[2] t) { t = Neg (x) }, else_branch = no () => (float[2] e) { e = Abs (x) }>"""
    assert "holds graphs" in prove("float[2] x", text, text).reason


NOISE = '<domain: "local", opset_import: ["": 20]> noise (v) => (w) { r = RandomNormalLike(v) w = Add(r, v) }'
DEEP = f'{NOISE} <domain: "local", opset_import: ["": 20, "local": 1]> deep (v) => (w) {{ w = local.noise(v) }}'


@pytest.mark.parametrize("function", ["noise", "deep"])
def test_functions_that_draw_random_numbers_are_not_proved(function: str):
    head = HEAD.replace("]>", ', "local": 1]>')
    old, new = (
        apply(ir.from_onnx_text(f"{head} g (float[2] x) => (y) {{ {body} }} {DEEP}"), "shape-inference").model
        for body in (
            f"a = local.{function}(x) b = local.{function}(x) y = Sub(a, b)",
            f"a = local.{function}(x) y = Sub(a, a)",
        )
    )
    found = prove_here(_application(old, new, 0), Facts(old))
    assert "something else each time" in found.reason


def test_a_proof_in_other_semantics_does_not_end_the_search(monkeypatch: pytest.MonkeyPatch):
    """The same coefficients in real numbers come before the same levels, which are wanted here."""
    found = {}
    for wanted in ("reals", "levels"):
        search = partial(prove_here, wanted=(wanted,))
        monkeypatch.setattr("tests.verify.proving.windows.prove_here", search)
        found[wanted] = scaled.pair(
            "a = MatMul(q, v) b = Mul(a, s) y = Mul(b, t)",
            "a = MatMul(q, v) y = Mul(a, eighth)",
            held={"v": scaled.MATRIX},
        ).proof()
    assert all(isinstance(proof, Proof) and wanted in proof.preserves for wanted, proof in found.items())


def test_what_was_computed_of_shapes_is_told_apart_by_which_it_was_of():
    text = """<ir_version: 10, opset_import: ["": 20]> g (float[2,3] x, float[4,5] z)
        => (int64[2] d, int64[2] right, int64[2] wrong) {
        a = Shape(x) b = Shape(z) d = Sub(a, b)
        c = Shape(x) e = Shape(z) n = Neg(e) right = Add(c, n)
        f = Shape(x) h = Shape(z) k = Neg(f) wrong = Add(h, k)
    }"""
    model = apply(ir.from_onnx_text(text), "shape-inference", verify=False).model
    facts = Facts(model)
    difference, right, wrong = (Fragment.between(list(model.graph.inputs), [output]) for output in model.graph.outputs)
    assert isinstance(prove_shapes(difference, right, facts), Proof)
    assert not isinstance(prove_shapes(difference, wrong, facts), Proof)
