"""Windows compare what the model computes, all of it, and excuse by ties and rounding no more than was claimed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.api import apply
from onnx_passes.core.claims import Claim, ClaimKind
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import Promise
from onnx_passes.verify.local.batch import FragmentBatch, Window
from onnx_passes.verify.local.specials import Specials
from onnx_passes.verify.local.windows import LocalChecks, WindowCheck
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import Executor

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
STEP = StepRecord(1, "planted", "planted", "")
EXECUTOR = Executor()


def model(body: str, signature: str = "float[N] x => float[N] y", constants: str = "") -> ir.Model:
    before, after = signature.split(" => ")
    given = ir.from_onnx_text(f"{HEAD} g ({before}) => ({after}) <{constants}> {{ {body} }}")
    return apply(given, "shape-inference", verify=False).model


def named(graph: ir.Graph, name: str) -> ir.Value:
    return next(value for node in graph for value in node.outputs if value.name == name)


def rewrite(graph: ir.Graph, number: int, old: ir.Value, new: ir.Value, *added: ir.Node) -> Application:
    producer = old.producer()
    assert producer is not None
    return Application(number, STEP, "planted", "", graph, producer, (producer,), added, ((old, new),), ())


def made(operator: str, *inputs: ir.Value, name: str) -> ir.Node:
    node = ir.Node("", operator, inputs)
    node.outputs[0].name, node.outputs[0].type = name, ir.TensorType(ir.DataType.FLOAT)
    return node


def windows_of(of: ir.Model, samples: list[Mapping[str, np.ndarray]], limit: int = 2**20) -> LocalChecks:
    known = Activations(EXECUTOR, limit)
    known.fill(of, [dict(sample) for sample in samples])
    checks = LocalChecks(lambda _: known)
    checks.begin(of)
    return checks


def by(claim: ClaimKind):
    return lambda _: Promise.of(Claim(claim))


X = {"x": np.array([0.5, -1.5, 2.0], np.float32)}


def test_what_was_there_before_is_computed_from_what_was_put_in_before_it():
    """Two equal nodes behind a value that changed: what was kept of either is out of date."""
    of = model("p = Tanh(x) q = Neg(p) r = Neg(p) y = Sub(q, r)")
    graph, windows = of.graph, windows_of(of, [X])
    p, q, r = (named(graph, name) for name in "pqr")
    other = made("Exp", of.graph.inputs[0], name="p2")
    windows.add(rewrite(graph, 1, p, other.outputs[0], other))
    graph.insert_before(graph[0], other)
    p.replace_all_uses_with(other.outputs[0])
    windows.add(rewrite(graph, 2, r, q))
    first, second = windows.run()
    assert not first.equal
    assert second.equal


def test_what_an_earlier_rewrite_put_in_is_there_already():
    of = model("a = Neg(x) y = Relu(a)")
    graph, windows = of.graph, windows_of(of, [X])
    a, x = named(graph, "a"), graph.inputs[0]
    first = made("Floor", x, name="b")
    windows.add(rewrite(graph, 1, a, first.outputs[0], first))
    graph.insert_before(graph[0], first)
    a.replace_all_uses_with(first.outputs[0])
    second = made("Ceil", x, name="c")
    windows.add(rewrite(graph, 2, first.outputs[0], second.outputs[0], second))
    assert windows.windows[1].expected == windows.windows[0].found


def test_random_numbers_are_not_drawn_again():
    of = model("r = RandomUniformLike(x) a = Neg(r) y = Abs(a)")
    windows = windows_of(of, [{"x": np.ones(4000, np.float32)}], limit=8)
    a = named(of.graph, "a")
    other = made("Floor", named(of.graph, "r"), name="b")
    windows.add(rewrite(of.graph, 1, a, other.outputs[0], other))
    assert windows.missed(1) == 1
    assert not windows.windows


@pytest.mark.parametrize("wrong", range(4))
def test_one_value_in_one_sample_is_enough_to_differ(wrong: int):
    zero, one = ({"v": np.array([number], np.float32)} for number in (0, 1))
    found = [compare(zero, one if number == wrong else zero) for number in range(4)]
    planted = Application(1, STEP, "planted", "", model("y = Neg(x)").graph, None, (), (), (), ())
    check = WindowCheck(Window(planted, (), (), frozenset()), (tuple(found[:2]), tuple(found[2:])))
    assert not check.equal
    right = compare(zero, zero)
    assert WindowCheck(check.window, ((right, right), (right, right))).equal


PART = np.float32(1) / np.float32(13)


def on_ties() -> dict[str, np.ndarray]:
    """Return numbers whose parts are rounded to other levels by a product than by a quotient."""
    x = np.float32(13) * (np.arange(5000) + 0.5).astype(np.float32)
    flips = np.rint(x / np.float32(13)) != np.rint(x * PART)
    assert flips.any()
    return {"x": x[flips][:5]}


def judged(before: str, after: str, claim: ClaimKind, sample: Mapping[str, np.ndarray], constants: str):
    """Return what is wrong about a rewrite of two nodes."""
    of = model(before, constants=constants)
    graph, windows = of.graph, windows_of(of, [sample])
    new = model(after, constants=constants).graph
    weights = graph.initializers
    for name in new.initializers.keys() - weights.keys():
        weights.add(ir.Value(name=name, const_value=new.initializers[name].const_value))
    for node in new:
        for place, value in enumerate(node.inputs):
            known = {each.name: each for each in (*graph.inputs, *weights.values())}
            node.replace_input_with(place, known.get(value.name, value))
    nodes = tuple(graph)
    pairs = ((graph.outputs[0], new.outputs[0]),)
    application = Application(1, STEP, "planted", "", graph, nodes[-1], nodes, tuple(new), pairs, ())
    windows.add(application)
    return windows.first_wrong(windows.run(), by(claim))


CONSTANTS = f"float all = {{13}}, float part = {{{float(PART)!r}}}, float other = {{0.0772}}"
QUOTIENT = "a = Div(x, all) y = Round(a)"


def test_ties_excuse_a_tolerance_and_no_equality():
    product = "a = Mul(x, part) y = Round(a)"
    assert judged(QUOTIENT, product, "tolerance", on_ties(), CONSTANTS) is None
    found = judged(QUOTIENT, product, "equality", on_ties(), CONSTANTS)
    assert found is not None
    assert found[1].is_equality


def test_levels_that_flip_are_no_matter_of_rounding():
    wrong = "a = Mul(x, other) y = Round(a)"
    assert judged(QUOTIENT, wrong, "tolerance", {"x": np.array([32.4, 130.0], np.float32)}, CONSTANTS) is not None
    assert judged(QUOTIENT, wrong, "tolerance", {"x": np.array([13.0, 130.0], np.float32)}, CONSTANTS) is None


@pytest.mark.parametrize(("operator", "bounded"), [("Neg", True), ("Round", False), ("Floor", False)])
def test_rounding_of_what_decides_has_no_bound(operator: str, bounded: bool):
    """Nodes that round to levels may move by a whole one."""
    of = model(f"a = Mul(x, part) y = {operator}(a)", constants=CONSTANTS)
    known = Activations(EXECUTOR, 2**20)
    known.fill(of, [{"x": np.array([6.5, 19.5, 32.5], np.float32)}])
    batch = FragmentBatch(of, known)
    other = made(operator, named(of.graph, "a"), name="b")
    nodes, y = tuple(of.graph), of.graph.outputs[0]
    given = Application(1, STEP, "planted", "", of.graph, nodes[-1], nodes, (other,), ((y, other.outputs[0]),), ())
    window = batch.add(given)
    values = (*window.expected, *window.found)
    batch.run(values)
    bounds = batch.rounding(values, window.own, [0], lambda *_: False)
    assert (bounds is not None) == bounded


NAN = {"x": np.array([np.nan, 1.0, -1.0], np.float32)}
LARGE = {"x": np.array([3e38, -3e38, 0.0], np.float32)}


def specials(of: ir.Model) -> Specials:
    return Specials([("infinite", NAN), ("finite", LARGE)], EXECUTOR.prepare(of), EXECUTOR, frozenset({"x"}))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("n = IsNaN(x) z = Sub(one, one) w = Where(n, z, x) y = Neg(w)", "with NaN and infinities"),
        ("a = Add(x, x) b = Mul(a, half) y = Neg(b)", "with the largest and smallest numbers"),
        ("a = Cast <to = 7> (x) b = Gather(table, a) y = Mul(b, x)", "the model no longer runs"),
    ],
)
def test_equality_covers_special_samples_and_a_tolerance_does_not(after: str, words: str):
    constants = "float one = {1}, float half = {0.5}, float[2] table = {-1, -1}"
    before = model("y = Neg(x)", constants=constants)
    found = specials(before).complaint(model(after, constants=constants), by("equality")(None))
    assert words in found
    tolerant = specials(before)
    assert tolerant.complaint(model(after, constants=constants), by("tolerance")(None)) == ""
    assert not tolerant.equal
    same = specials(before)
    assert same.complaint(model("a = Identity(x) y = Neg(a)", constants=constants), by("equality")(None)) == ""
    assert same.equal
