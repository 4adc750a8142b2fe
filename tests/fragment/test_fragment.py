"""Fragments compute by themselves what they compute inside their model, as ONNX Runtime says on both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes.fragment.assembly import OutsideError
from onnx_passes.fragment.fragment import Fragment, FragmentError, SideBySide
from onnx_passes.graph.constants import is_constant
from onnx_passes.numbers.arithmetic import ExactArithmetic
from onnx_passes.numbers.surds import exactly
from onnx_passes.testing.fuzz.whole.models import FAMILIES, random_case
from onnx_passes.verify.run.execute import Executor
from tests.helpers.random_models import random_inputs, random_model
from tests.helpers.thorough import some

Arrays = dict[str, Any]


def typed(model: ir.Model | onnx.ModelProto) -> ir.Model:
    """Return a model with the types of its values: a fragment has to declare those that it reads."""
    proto = model if isinstance(model, onnx.ModelProto) else ir.to_proto(model)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))


def run(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    """Run a model as it is, by ONNX Runtime without optimizations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    wanted = {value.name for value in (*session.get_inputs(), *session.get_overridable_initializers())}
    return dict(zip(names, session.run(names, {k: v for k, v in feeds.items() if k in wanted}), strict=True))


def all_values(model: ir.Model, feeds: Arrays) -> Arrays:
    """Run a model with all values of its graph as outputs."""
    proto = ir.to_proto(model)
    there = {value.name for value in proto.graph.output}
    made = dict.fromkeys(name for node in proto.graph.node for name in node.output if name and name not in there)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    defaults = {v.name: v.const_value.numpy() for v in model.graph.inputs if v.const_value is not None}
    return defaults | dict(feeds) | run(proto, feeds)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def check(model: ir.Model, fragment: Fragment, known: Arrays) -> None:
    """Run a fragment by itself on what it reads inside the model."""
    proto = ir.to_proto(fragment.model(model))
    found = run(proto, {str(value.name): known[str(value.name)] for value in fragment.inputs})
    assert [value.name for value in proto.graph.output] == [value.name for value in fragment.outputs]
    assert all(same(found[str(value.name)], known[str(value.name)]) for value in fragment.outputs)


def random_fragments(model: ir.Model, seed: int, amount: int = 6) -> list[Fragment]:
    """Cut out consecutive nodes, nodes here and there, and what lies between values."""
    rng = np.random.default_rng(seed)
    nodes = [node for node in model.graph if node.op_type != "Constant"]
    found: list[Fragment] = []
    for number in range(amount):
        if number % 3 == 0:
            start = int(rng.integers(len(nodes)))
            chosen = nodes[start : start + int(rng.integers(1, 8))]
            found.append(Fragment.of(chosen))
        elif number % 3 == 1:
            found.append(Fragment.of(node for node in nodes if rng.random() < 0.4))
        else:
            values = [value for node in nodes for value in node.outputs if value.name]
            picked = [values[at] for at in rng.permutation(len(values))[:5]]
            found.append(Fragment.between(picked[:3], picked[3:]))
    return [each for each in found if each.nodes and each.outputs]


@pytest.mark.parametrize("seed", some(range(48), every=6))
def test_random_models(seed: int):
    model = typed(random_model(seed, nodes=30))
    known = all_values(model, random_inputs(model, seed))
    for fragment in random_fragments(model, seed, 12):
        check(model, fragment, known)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", some(range(20), every=4))
def test_models_with_bodies_functions_and_quantizers(family: Any, seed: int):
    case = random_case(family, seed)
    model = typed(onnx.load_from_string(case.model))
    rng = np.random.default_rng(seed)
    feeds = {item.name: np.asarray(rng.random(item.shape) * 4).astype(item.dtype.numpy()) for item in case.inputs}
    try:
        known = all_values(model, feeds)
    except Exception as error:  # noqa: BLE001 - of operators without a kernel, nothing is known inside the model
        pytest.skip(str(error))
    for fragment in random_fragments(model, seed, 6):
        check(model, fragment, known)


HEAD = '<ir_version: 10, opset_import: ["": 20, "local": 1]>'
SPECIAL = {
    "captures of a branch in a branch": """
        g (float[N] x, bool c) => (y, z) <float w = {2.0}> {
            a = Abs(x) b = Neg(a) k = Constant<value = float {3.0}>()
            y = If (c) <then_branch = t () => (ty) { u = Mul(a, w)
                  ty = If (c) <then_branch = tt () => (tty) { v = Add(u, b) tty = Add(v, k) },
                                else_branch = te () => (tey) { tey = Identity(x) }> },
                 else_branch = e () => (ey) { ey = Sub(b, w) }>
            z = Add(y, b) }""",
    "loop": """
        g (float[N] x, bool c) => (y, z) {
            n = Constant<value = int64 {3}>() a = Abs(x)
            y, s = Loop (n, c, x) <body = b (int64 i, bool go, v) => (on, w, o)
                { on = Identity(go) w = Add(v, a) o = Mul(w, x) }>
            z = ReduceSum<keepdims = 0>(s) }""",
    "function with an attribute": """
        g (float[N] x, bool c) => (y) {
            a = Abs(x) b = local.scaled<by = 2.5>(a) d = local.twice(b) y = Neg(d) }
        <domain: "local", opset_import: ["": 20]> scaled <by> (v) => (w)
            { k = Constant<value_float: float = @by>() w = Mul(v, k) }
        <domain: "local", opset_import: ["": 20, "local": 1]> twice (v) => (w)
            { u = local.scaled<by = 1.5>(v) w = Add(u, v) }""",
    "sequence": """
        g (float[N] x, bool c) => (y) {
            a = Abs(x) b = Neg(x) s = SequenceConstruct(a, b, x) t = SequenceInsert(s, a)
            k = Constant<value = int64 {1}>() d = SequenceAt(t, k) y = Add(d, a) }""",
    "optional": """
        g (float[N] x, bool c) => (y, h) {
            a = Abs(x) o = Optional(a) p = Identity(o) e = OptionalGetElement(p) h = OptionalHasElement(p)
            y = Neg(e) }""",
    "several results, some missing": """
        g (float[N] x, bool c) => (y, m) {
            k = Constant<value_ints = [3]>() v, i = TopK(x, k) a = Neg(v) p, j = TopK(a, k)
            y = Gather(x, j) u, m = Dropout(y) }""",
    "random, with a seed": """
        g (float[N] x, bool c) => (y, z) {
            a = RandomUniformLike<seed = 7.0>(x) b = Add(a, x) y = Bernoulli<seed = 3.0>(a) z = Mul(b, y) }""",
    "default of an input": """
        g (float[N] x, bool c, float w = {2.5}) => (y) { a = Mul(x, w) b = Abs(a) y = Add(b, w) }""",
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_models(name: str):
    model = typed(ir.from_onnx_text(HEAD + SPECIAL[name]))
    x = np.array([1.5, -2.0, 0.25, 4.0, -0.5], np.float32)
    known = all_values(model, {"x": x, "c": np.array(True)})
    for seed in range(10):
        for fragment in random_fragments(model, seed):
            if "random" in name and not any(node.op_type == "RandomUniformLike" for node in fragment.nodes):
                continue
            check(model, fragment, known)


def test_captured_values_are_inputs():
    model = typed(ir.from_onnx_text(HEAD + SPECIAL["captures of a branch in a branch"]))
    fragment = Fragment.of(node for node in model.graph if node.op_type == "If")
    assert {value.name for value in fragment.inputs} == {"c", "a", "b", "x"}
    assert {value.name for value in fragment.constants} == {"w", "k"}


def test_fresh_names_do_not_shadow_those_of_bodies():
    model = ir.from_onnx_text(
        HEAD
        + """g (float[2] x, bool c) => (y) { a = Abs(x) b = Neg(a)
        y = If (c) <then_branch = t () => (v1) { v2 = Add(a, b) v1 = Mul(v2, v2) },
                    else_branch = e () => (v3) { v3 = Neg(b) }> }"""
    )
    fragment = Fragment.of(model.graph)
    side = SideBySide((fragment, fragment), model, Executor())
    (first,), (second,) = side([np.array([1, -2], np.float32), np.array(True)])
    assert np.array_equal(first, np.zeros(2))
    assert np.array_equal(first, second)


def test_a_copy_leaves_the_model_as_it_is():
    model = typed(random_model(5, nodes=30))
    before = ir.to_proto(model).SerializeToString()
    uses = {value: list(value.uses()) for node in model.graph for value in node.outputs}
    for fragment in random_fragments(model, 5, 12):
        fragment.model(model)
        fragment.assembled()
    assert ir.to_proto(model).SerializeToString() == before
    assert {value: list(value.uses()) for value in uses} == uses


@pytest.mark.parametrize("seed", some(range(24), every=4))
def test_is_what_onnx_extracts(seed: int, tmp_path: Path):
    """The extractor of onnx takes no captured values and keeps no nodes in order of use: compare what they compute."""
    model = typed(random_model(seed, nodes=25, control_flow=False))
    known = all_values(model, random_inputs(model, seed))
    onnx.save(onnx.shape_inference.infer_shapes(ir.to_proto(model)), tmp_path / "model.onnx")
    checked = 0
    for fragment in random_fragments(model, seed, 9):
        names = [str(value.name) for value in fragment.inputs], [str(value.name) for value in fragment.outputs]
        if set(names[0]) & set(names[1]) or not names[0]:
            continue
        onnx.utils.extract_model(str(tmp_path / "model.onnx"), str(tmp_path / "part.onnx"), *names)
        part = onnx.load(tmp_path / "part.onnx")
        ours = ir.to_proto(Fragment.between(fragment.inputs, fragment.outputs).model(model))
        assert {node.output[0] for node in ours.graph.node} == {
            node.output[0] for node in part.graph.node if node.op_type != "Constant"
        }
        assert {t.name for t in ours.graph.initializer} >= {t.name for t in part.graph.initializer}
        assert all(same(run(part, known)[name], run(ours, known)[name]) for name in names[1])
        checked += 1
    assert checked


def test_external_data_stay_external(tmp_path: Path):
    weights = np.arange(4096, dtype=np.float32)
    model = ir.from_onnx_text(HEAD + "g (float[4096] x) => (y) <float[4096] w = {0.0}> { a = Add(x, w) y = Abs(a) }")
    model.graph.initializers["w"].const_value = ir.Tensor(weights, name="w")
    ir.save(model, tmp_path / "m.onnx", external_data="m.data")
    loaded = ir.load(tmp_path / "m.onnx")
    fragment = Fragment.of([loaded.graph[0]]).model(loaded)
    assert isinstance(fragment.graph.initializers["w"].const_value, ir.ExternalTensor)
    ir.save(fragment, tmp_path / "f.onnx")
    session = ort.InferenceSession(tmp_path / "f.onnx", providers=["CPUExecutionProvider"])
    x = np.ones(4096, np.float32)
    assert np.array_equal(session.run(None, {"x": x})[0], x + weights)


def test_composed_with_what_comes_before_it_is_the_model():
    """onnx.compose puts the two halves of a model together again."""
    for seed in range(4):
        model = typed(random_model(seed, nodes=25, control_flow=False, inputs=1))
        feeds = random_inputs(model, seed)
        nodes = [node for node in model.graph if node.op_type != "Constant"]
        first, second = Fragment.of(nodes[:12]), Fragment.of(nodes[12:])
        joint = [value for value in first.outputs if value in second.inputs]
        if set(second.inputs) - set(joint):
            continue
        halves = [ir.to_proto(each.model(model)) for each in (first, second)]
        whole = onnx.compose.merge_models(
            onnx.compose.add_prefix(halves[0], "1/"),
            onnx.compose.add_prefix(halves[1], "2/"),
            [(f"1/{value.name}", f"2/{value.name}") for value in joint],
        )
        found = run(whole, {f"1/{name}": array for name, array in feeds.items()})
        known = all_values(model, feeds)
        assert found
        assert all(same(array, known[name[2:]]) for name, array in found.items())


def test_a_cut_value_is_not_computed_beside_another_result():
    model = typed(ir.from_onnx_text(HEAD + SPECIAL["several results, some missing"]))
    values = {value.name: value for node in model.graph for value in node.outputs}
    fragment = Fragment.between([values["v"], values["a"]], [values["i"], values["y"]])
    known = all_values(model, {"x": np.array([3, 1, 2, 5], np.float32), "c": np.array(True)})
    check(model, fragment, known)


def test_given_inputs_are_constants():
    model = typed(random_model(3, nodes=12, control_flow=False))
    known = all_values(model, random_inputs(model, 3))
    fragment = random_fragments(model, 3)[0]
    given = {value: ir.Tensor(known[str(value.name)]) for value in fragment.inputs}
    made = ir.to_proto(fragment.model(model, given=given))
    found = run(made, {})
    assert not made.graph.input
    assert all(same(found[str(value.name)], known[str(value.name)]) for value in fragment.outputs)


def test_refuses_more_nodes_than_allowed():
    model = typed(random_model(1, nodes=20, control_flow=False))
    with pytest.raises(FragmentError, match="more than 3 nodes"):
        Fragment.back_to(lambda value: False, model.graph.outputs, most=3)


def test_refuses_values_from_outside():
    model = ir.from_onnx_text(HEAD + "g (float[2] x) => (y) { a = Abs(x) y = Neg(a) }")
    fragment = Fragment((model.graph[1],), tuple(model.graph.outputs), ())
    with pytest.raises(OutsideError, match="'a' is computed outside"):
        fragment.model(model)


def test_evaluates_in_fractions():
    model = ir.from_onnx_text(HEAD + "g (float[2] x) => (y) <float w = {0.1}> { a = Mul(x, w) y = Add(a, x) }")
    fragment = Fragment.of(model.graph)
    x = np.array([3.0, -0.7], np.float32)
    found = fragment.evaluate(ExactArithmetic(), {model.graph.inputs[0]: exactly(x)})[fragment.outputs[0]]
    from fractions import Fraction

    tenth = Fraction(float(np.float32(0.1)))
    assert list(found) == [Fraction(float(number)) * tenth + Fraction(float(number)) for number in x]


def test_fixed_values_depend_on_constants_alone():
    model = ir.from_onnx_text(
        HEAD
        + """g (float[2] x, bool c) => (y) <float[2] w = {1.0, 2.0}> { a = Abs(w) b = Neg(a) d = Add(b, x)
        e = If (c) <then_branch = t () => (u) { u = Neg(b) }, else_branch = f () => (v) { v = Abs(x) }>
        y = Add(d, e) }"""
    )
    fragment = Fragment.of(model.graph)
    assert {value.name for value in fragment.fixed} == {"a", "b"}
    assert [node.outputs[0].name for node in fragment.moving] == ["d", "e", "y"]
    assert not any(map(is_constant, fragment.inputs))


def inputs_first(nodes: Sequence[ir.Node]) -> bool:
    seen: set[ir.Value] = set()
    made = {value for node in nodes for value in node.outputs}
    for node in nodes:
        if any(value in made and value not in seen for value in node.inputs):
            return False
        seen.update(node.outputs)
    return True


@pytest.mark.parametrize("seed", range(4))
def test_nodes_come_after_what_they_read(seed: int):
    model = typed(random_model(seed, nodes=40))
    for fragment in random_fragments(model, seed, 9):
        assert inputs_first(fragment.nodes)


def test_runs_with_other_sizes_than_those_declared():
    model = typed(ir.from_onnx_text(HEAD + "g (float[4] x) => (float[4] y) { a = Abs(x) y = Neg(a) }"))
    ((found,),) = SideBySide((Fragment.of(model.graph),), model, Executor())(
        [np.array([1, -2, 3, 4, 5, 6], np.float32)]
    )
    assert list(found) == [-1, -2, -3, -4, -5, -6]


def test_statistics_that_training_updates_are_read_by_one_node_alone():
    text = """g (float[2,1,2] x) => (y, m, w, n) <float[1] s = {1.0}, float[1] z = {0.0}, float[1] k = {4.0}> {
        y, m, v = BatchNormalization<training_mode = 1>(x, s, z, k, s)
        w, n, u = BatchNormalization<training_mode = 1>(y, s, z, k, s) }"""
    model = typed(ir.from_onnx_text(HEAD.replace("20", "15") + text))
    x = np.arange(4, dtype=np.float32).reshape(2, 1, 2)
    fragment = Fragment.of(model.graph)
    made = fragment.assembled()
    held = [value for node in made.nodes for value in node.inputs[3:5]]
    assert len(set(held)) == 4
    ((y, m, _, n),) = SideBySide(
        (Fragment(fragment.nodes, tuple(model.graph.outputs), fragment.inputs),), model, Executor()
    )([x])
    # The running mean is nine tenths of what it was, and one tenth of that of the sample.
    assert m == pytest.approx(4 * 0.9 + x.mean() * 0.1)
    assert n == pytest.approx(4 * 0.9 + y.mean() * 0.1)


def test_two_calls_of_one_function_bring_it_once():
    model = typed(ir.from_onnx_text(HEAD + SPECIAL["function with an attribute"]))
    calls = [node for node in model.graph if node.domain == "local"]
    assert [function[1] for function in Fragment.of(calls).model(model).functions] == ["scaled", "twice"]
    assert [function[1] for function in Fragment.of(calls[:1]).model(model).functions] == ["scaled"]
    assert not Fragment.of([model.graph[0]]).model(model).functions


def test_names_annotations_and_what_is_said_of_the_model_stay():
    model = random_model(7, nodes=10, control_flow=False)
    model.producer_name, model.metadata_props["kept"] = "somebody", "yes"
    node = next(node for node in model.graph if node.op_type != "Constant")
    node.name, node.metadata_props["from"], node.outputs[0].metadata_props["scale"] = "first", "here", "2"
    made = Fragment.of([node]).model(model)
    assert (made.producer_name, made.metadata_props["kept"]) == ("somebody", "yes")
    assert (made.graph[0].name, made.graph[0].metadata_props["from"]) == ("first", "here")
    assert made.graph.outputs[0].metadata_props["scale"] == "2"


def test_functions_that_bodies_call_come_along():
    model = typed(
        ir.from_onnx_text(
            HEAD
            + """g (float[2] x, bool c) => (y) { a = Abs(x)
            y = If (c) <then_branch = t () => (u) { u = local.twice(a) }, else_branch = e () => (v) { v = Neg(a) }> }
            <domain: "local", opset_import: ["": 20]> twice (v) => (w) { w = Add(v, v) }"""
        )
    )
    fragment = Fragment.of([model.graph[1]])
    known = all_values(model, {"x": np.array([1, -2], np.float32), "c": np.array(True)})
    check(model, fragment, known)


def test_annotations_of_inputs_and_weights_stay():
    model = ir.from_onnx_text(HEAD + "g (float[2] x) => (y) <float w = {2.0}> { y = Mul(x, w) }")
    model.graph.inputs[0].metadata_props["scale"] = "0.5"
    model.graph.initializers["w"].metadata_props["scale"] = "0.25"
    made = Fragment.of(model.graph).model(model).graph
    assert made.inputs[0].metadata_props["scale"] == "0.5"
    assert made.initializers["w"].metadata_props["scale"] == "0.25"
    fresh = Fragment.of(model.graph).assembled()
    assert not fresh.inputs[0].metadata_props


def test_as_many_nodes_as_allowed_are_taken():
    model = ir.from_onnx_text(HEAD + "g (float[2] x) => (y) { a = Abs(x) b = Neg(a) y = Exp(b) }")
    assert len(Fragment.back_to(lambda value: False, model.graph.outputs, most=3).nodes) == 3
    with pytest.raises(FragmentError):
        Fragment.back_to(lambda value: False, model.graph.outputs, most=2)


def test_shapes_are_declared_as_asked_for():
    model = typed(ir.from_onnx_text(HEAD + "g (float[2,3] x) => (y) { y = Abs(x) }"))
    fragment = Fragment.of(model.graph)
    declared = {way: fragment.assembled(shapes=way).inputs[0].shape for way in ("declared", "ranks", "none", 4)}
    assert declared["declared"] == [2, 3]
    assert len(declared["ranks"]) == 2
    assert declared["ranks"].is_dynamic()
    assert declared["none"] is None
    assert len(declared[4]) == 4


def test_operator_sets_are_those_of_the_model():
    model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 13]> g (float[2,2] x) => (y) { y = Softmax(x) }')
    made = Fragment.of(model.graph).model(model)
    assert made.opset_imports == {"": 13}
    assert made.ir_version == 8


def test_inputs_come_in_the_order_in_which_they_are_given():
    body = "{ a = Abs(x) b = Neg(x) d = Add(a, b) y = Sub(d, z) }"
    model = ir.from_onnx_text(f"{HEAD} g (float[2] x, float[2] z) => (y) {body}")
    a, b = (model.graph[place].outputs[0] for place in (0, 1))
    for given in ([a, b], [b, a]):
        assert Fragment.between(given, model.graph.outputs).inputs == (*given, model.graph.inputs[1])


def test_what_captures_an_input_is_not_fixed():
    model = ir.from_onnx_text(
        HEAD
        + """g (float[2] x) => (y) <bool c = {1}, float w = {1.0}> {
        y = If (c) <then_branch = t () => (u) { u = Neg(x) }, else_branch = e () => (v) { v = Abs(x) }> }"""
    )
    assert not Fragment.of(model.graph).fixed


def test_a_cut_value_is_read_as_it_is_fed():
    model = typed(ir.from_onnx_text(HEAD + SPECIAL["several results, some missing"]))
    values = {value.name: value for node in model.graph for value in node.outputs}
    fragment = Fragment.between([values["v"]], [values["i"], values["a"]])
    x, fed = np.array([3, 1, 2, 5], np.float32), np.array([7, 8, 9], np.float32)
    found = run(ir.to_proto(fragment.model(model)), {"x": x, "v": fed})
    assert list(found["i"]) == [3, 0, 2]
    assert list(found["a"]) == [-7, -8, -9]
    given = fragment.assembled()
    assert len({value.name for value in (*given.inputs, *(v for node in given.nodes for v in node.outputs))}) == 5


def test_defaults_of_inputs_stay():
    model = typed(ir.from_onnx_text(HEAD + SPECIAL["default of an input"]))
    made = ir.to_proto(Fragment.of(model.graph).model(model))
    x = np.array([1, -2], np.float32)
    assert np.array_equal(run(made, {"x": x})["y"], all_values(model, {"x": x, "c": np.array(True)})["y"])
    assert not np.array_equal(run(made, {"x": x, "w": np.array(7, np.float32)})["y"], run(made, {"x": x})["y"])


def test_inputs_and_constants_that_are_returned_are_handed_through():
    model = typed(ir.from_onnx_text(HEAD + "g (float[2] x) => (y) <float[2] w = {3.0, 4.0}> { y = Mul(x, w) }"))
    x, w = model.graph.inputs[0], model.graph.initializers["w"]
    fragments = (Fragment.of(model.graph), Fragment((), (x,), (x,)), Fragment((), (w,), ()))
    found = SideBySide(fragments, model, Executor())([np.array([1, -2], np.float32)])
    assert [list(array) for (array,) in found] == [[3, -8], [1, -2], [3, 4]]


def test_arrays_are_given_for_all_inputs():
    model = typed(ir.from_onnx_text(HEAD + "g (float[2] x, float[2] z) => (y) { y = Sub(x, z) }"))
    side = SideBySide((Fragment.of(model.graph),), model, Executor())
    arrays = [np.array([5, 6], np.float32), np.array([1, 2], np.float32)]
    assert list(side(arrays)[0][0]) == [4, 4]
    for wrong in (arrays[:1], [*arrays, arrays[0]]):
        with pytest.raises(ValueError, match="zip"):
            side(wrong)


def test_values_may_be_declared_of_another_type():
    model = typed(ir.from_onnx_text(HEAD + "g (float[2] x) => (y) { a = Abs(x) y = Neg(a) }"))
    side = SideBySide((Fragment.of(model.graph),), model, Executor(), dtype_of=lambda _: ir.DataType.DOUBLE)
    found = side([np.array([1, -(2**-60)])])[0][0]
    assert found.dtype == np.float64
    assert list(found) == [-1, -(2**-60)]
