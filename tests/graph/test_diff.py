from __future__ import annotations

import difflib
import json

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.diff import ModelDiff, diff, text_diff, unified_diff
from onnx_passes.graph.equality import structurally_equal
from onnx_passes.graph.hashing.content import Contents
from tests.helpers.mutations import mutate
from tests.helpers.random_models import random_model, shuffle_names_and_order

SEEDS = st.integers(0, 2**32 - 1)


def model(body: str, *, inputs: str = "float[4] x", outputs: str = "float[4] y", opset: int = 18) -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {body}')


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.booleans())
def test_is_empty_exactly_for_equal_structures(seed: int, dead: bool):
    original = random_model(seed, dead=dead)
    assert diff(original, shuffle_names_and_order(original, seed, topological=False)).is_empty
    changed, mutation = mutate(original, seed)
    changed = shuffle_names_and_order(changed, seed)
    assert diff(original, changed).is_empty == structurally_equal(original, changed), mutation


SMALL = {
    "change_operator": ((0, 0, 1), (1, 1, 0)),
    "change_attribute": ((0, 0, 1),),
    "swap_operands": ((0, 0, 1),),
    "rewire_input": ((0, 0, 1),),
    "split_node": ((1, 0, 1),),
    "add_dead_node": ((1, 0, 0),),
    "add_dead_initializer": ((0, 0, 0),),
    "drop_output": ((0, 0, 0),),
    "swap_outputs": ((0, 0, 0),),
    "rename_input": ((0, 0, 0),),
    "change_opset": ((0, 0, 0),),
}


@pytest.mark.parametrize("mutation", SMALL)
def test_finds_the_change_although_all_names_are_different(mutation: str):
    for seed in range(4):
        original = random_model(seed, nodes=25)
        changed, _ = mutate(original, seed, mutation)
        changes = diff(original, shuffle_names_and_order(changed, seed, topological=False))
        counts = len(changes.added), len(changes.removed), len(changes.changed)
        assert counts in SMALL[mutation], changes.to_text()
        assert not changes.is_empty


CHANGES = {
    "attribute": (
        "{ a = Relu(x) [s] b = Softmax<axis = 0>(a) y = Abs(b) }",
        "{ p = Relu(x) [t] q = Softmax<axis = 1>(p) y = Abs(q) }",
        "+0 −0 ~1 nodes", "~ Softmax<axis=1>(p) -> q  # t: axis: 0 → 1\n",
    ),
    "operator": (
        "{ a = Relu(x) y = Abs(a) }", "{ p = Exp(x) y = Abs(p) }",
        "+0 −0 ~1 nodes", "~ Exp(x) -> p: Relu → Exp\n",
    ),
    "fusion": (
        "<float w = {2}, float v = {1}> { a = Relu(x) [m] b = Mul(a, w) [n] c = Add(b, v) y = Abs(c) }",
        "<float w = {2}, float v = {1}> { p = Relu(x) [f] q = Affine(p, w, v) y = Abs(q) }",
        "+1 −2 ~1 nodes",
        "- Mul(a, w) -> b  # m\n- Add(b, v) -> c  # n\n+ Affine(p, w, v) -> q  # f\n"
        "~ Abs(q) -> y: input 0: Add 'n' → Affine 'f'\n",
    ),
    "removal": (
        "{ a = Relu(x) [i] b = Identity(a) y = Abs(b) }", "{ p = Relu(x) y = Abs(p) }",
        "+0 −1 ~1 nodes",
        "- Identity(a) -> b  # i\n~ Abs(p) -> y: input 0: Identity 'i' → Relu -> 'p'\n",
    ),
    "common subexpression": (
        "{ [p] a = Relu(x) [q] b = Relu(x) c = Abs(b) d = Neg(b) e = Exp(a) y = Sum(c, d, e) }",
        "{ [r] b = Relu(x) c = Abs(b) d = Neg(b) e = Exp(b) y = Sum(c, d, e) }",
        "+0 −1 ~1 nodes",
        "- Relu(x) -> a  # p\n~ Exp(b) -> e: input 0: Relu 'p' → Relu 'r'\n",
    ),
    "constant": (
        "<float[3] w = {1, 2, 3}> { y = Add(x, w) }", "<float[3] v = {1, 5, 3}> { y = Add(x, v) }",
        "+0 −0 ~1 nodes, +0 −0 ~1 initializers",
        "~ Add(x, v) -> y: constant 'v' changed\n~ initializer 'v': element [1]: 2.0 → 5.0\n",
    ),
    "added constant": (
        "{ y = Add(x, x) }", "<float w = {1.5}> { y = Add(x, w) }",
        "+0 −0 ~1 nodes, +1 −0 ~0 initializers",
        "~ Add(x, w) -> y: input 1: input 'x' → initializer 'w'\n+ initializer w: float[](1.5)\n",
    ),
    "swapped constants": (
        "<float v = {1}, float w = {2}> { y = Clip(x, v, w) }", "<float v = {1}, float w = {2}> { y = Clip(x, w, v) }",
        "+0 −0 ~1 nodes",
        "~ Clip(x, w, v) -> y: input 1: initializer 'v' → initializer 'w'; "
        "input 2: initializer 'w' → initializer 'v'\n",
    ),
    "other source of an output": (
        "{ a = Relu(x) y = Abs(x) z = Neg(a) }", "{ a = Relu(x) z = Abs(x) y = Neg(a) }",
        "2 interface changes",
        "~ output 'y': Abs -> 'y' → Neg -> 'y'\n~ output 'z': Neg -> 'z' → Abs -> 'z'\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_says_what_changed(what: str):
    before, after, summary, text = CHANGES[what]
    outputs = "float[4] y, float[4] z" if "z =" in before else "float[4] y"
    changes = diff(model(before, outputs=outputs), model(after, outputs=outputs))
    assert changes.summary() == summary
    assert changes.to_text() == text
    assert json.loads(json.dumps(changes.to_json())) == changes.to_json()
    assert not changes.is_empty


def test_says_how_the_interface_changed():
    before = model("{ y = Relu(x) z = Abs(b) }", inputs="float[4] x, float[4] b", outputs="float[4] y, float[4] z")
    after = model(
        "<float[1] c = {1}> { z = Relu(x) y = Abs(b) }",
        inputs="float[N] b, double[4] x, float[1] c",
        outputs="float[4] z",
        opset=19,
    )
    changes = diff(before, after)
    assert changes.opsets == ("opset ai.onnx 18 → 19",)
    assert changes.interface == (
        "input 'x' float[4] → double[4]",
        "input 'b' float[4] → float[N]",
        "input 'c' added",
        "inputs in another order: 'b', 'x', 'c'",
        "output 'y' removed",
        "output 'z': Abs -> 'z' → Relu -> 'z'",
    )
    assert changes.summary() == "6 interface changes, 1 opset change"
    assert diff(after, model("{ z = Relu(x) }")).interface[:2] == (
        "input 'b' removed",
        "input 'x' double[4] → float[4]",
    )


def test_shapes_of_the_interface_are_shown_although_the_structure_is_the_same():
    before, after = model("{ y = Relu(x) }"), model("{ y = Relu(x) }", inputs="float[N] x")
    assert structurally_equal(before, after)
    assert diff(before, after).to_text() == "~ input 'x' float[4] → float[N]\n"


def test_says_when_an_initializer_becomes_overridable():
    before = model("<float w = {1}> { y = Add(x, w) }", inputs="float[4] x, float w")
    after = model("<float w = {2}> { y = Add(x, w) }", inputs="float[4] x, float w")
    plain = model("{ y = Add(x, w) }", inputs="float[4] x, float w")
    assert diff(before, after).interface == ("initial value of input 'w': 1.0 → 2.0",)
    assert diff(before, plain).interface == ("input 'w' has no longer an initial value",)
    assert diff(plain, before).interface == ("input 'w' now has an initial value",)


IF = "{ y = If (c) <then_branch = t () => (u) { %s }, else_branch = e () => (v) { v = Abs(x) }> }"


def test_looks_into_subgraphs():
    before = model(IF % "b = Relu(x) u = Exp(b)", inputs="float[4] x, bool c")
    after = model(IF % "b = Neg(x) u = Exp(b)", inputs="float[4] x, bool c")
    assert diff(before, after).to_text() == "~ Neg(x) -> b: Relu → Neg\n"
    moved = model("{ b = Relu(x) " + (IF % "u = Exp(b)")[1:], inputs="float[4] x, bool c")
    changes = diff(before, moved)
    assert not changes.is_empty
    assert len(changes.added) == len(changes.removed) or changes.changed
    rewired = model(IF % "u = Relu(x) b = Exp(u)", inputs="float[4] x, bool c")
    assert [change.aspect for each in diff(before, rewired).changed for change in each.changes] == ["graph"]


FUNCTION = """<ir_version: 10, opset_import: ["": 18, "f": 1]> g (float[4] x) => (float[4] y) {{ y = f.F(x) }}
<domain: "f", opset_import: ["": 18]> F (a) => (b) {{ c = {op}(a) b = Neg(c) }}
<domain: "f", opset_import: ["": 18]> {unused} (a) => (b) {{ b = Abs(a) }}"""


def test_looks_into_functions():
    before = ir.from_onnx_text(FUNCTION.format(op="Relu", unused="Old"))
    after = ir.from_onnx_text(FUNCTION.format(op="Exp", unused="New"))
    changes = diff(before, after)
    assert changes.summary() == "+1 −1 ~1 functions"
    assert changes.to_text() == (
        "- function f::Old\n+ function f::New\n~ function f::F: +0 −0 ~1 nodes\n  ~ Exp(a) -> c: Relu → Exp\n"
    )
    assert changes.to_json()["functions"]["added"] == ["f::New"]
    functions = [each.functions["f", "F", ""] for each in (before, after)]
    assert diff(*functions).summary() == "+0 −0 ~1 nodes"
    with pytest.raises(UsageError, match="function"):
        diff(functions[0], before)


def test_the_two_names_of_the_default_domain_are_the_same():
    before, after = model("{ y = Relu(x) }"), model("{ y = Relu(x) }")
    after.graph.opset_imports["ai.onnx"] = after.graph.opset_imports.pop("")
    assert diff(before, after).is_empty


def test_no_changes():
    same = model("{ y = Relu(x) }")
    changes = diff(same, same)
    assert changes.is_empty
    assert changes == ModelDiff()
    assert changes.summary() == "no changes"
    assert changes.to_text() == ""


def many_branches(count: int) -> ir.Graph:
    x = ir.val("x", ir.DataType.FLOAT, [1])
    relus = [ir.Node("", "Relu", [x]) for _ in range(count)]
    ends = [ir.Node("", "Abs", relu.outputs) for relu in relus]
    total = ir.Node("", "Sum", [end.outputs[0] for end in ends])
    total.outputs[0].name = "y"
    return ir.Graph([x], total.outputs, nodes=[*relus, *ends, total], opset_imports={"": 18})


def test_many_equal_branches_are_aligned_consistently():
    changes = diff(many_branches(400), many_branches(399))
    assert (len(changes.added), len(changes.removed)) == (0, 2)
    assert [change.text[:9] for each in changes.changed for change in each.changes] == ["input 399"]


def test_text_diff_shows_nodes_and_elides_large_constants():
    before = model(IF % "b = Relu(x) u = Exp(b)", inputs="float[4] x, bool c")
    after = model(IF % "b = Neg(x) u = Exp(b)", inputs="float[4] x, bool c")
    large = np.arange(1000, dtype=np.float32)
    for each in (before, after):
        each.graph.initializers.add(ir.Value(name="w", const_value=ir.Tensor(large.copy())))
        large[7] = -1
    after.graph[0].name = "choose"
    lines = text_diff(before, after, "one", "two").splitlines()
    digests = [line for line in lines if "constant w: float[1000] #" in line]
    assert [line[0] for line in digests] == ["-", "+"]
    assert [line for line in lines if line not in digests] == [
        "--- one",
        "+++ two",
        "@@ -1,13 +1,13 @@",
        " import ai.onnx 18",
        " input x: float[4]",
        " input c: bool[]",
        "-y = If(c)",
        "+y = If(c)  # choose",
        "   else_branch:",
        "     v = Abs(x)",
        "     output v: unknown type",
        "   then_branch:",
        "-    b = Relu(x)",
        "+    b = Neg(x)",
        "     u = Exp(b)",
        "     output u: unknown type",
        " output y: float[4]",
    ]
    assert text_diff(before, before) == ""


def test_text_of_a_node_shows_attributes_missing_inputs_and_outputs():
    before = model("{ y, m = Dropout<seed = 3>(x) }")
    after = model('<float w = {0.5}> { [n] y = Conv<strides = [1, 1], auto_pad = "VALID">(x, , w) }')
    assert [line for line in text_diff(before, after).splitlines() if line[:2] in ("-y", "+y")] == [
        "-y, m = Dropout<seed=3>(x)",
        "+y = Conv<strides=[1,1], auto_pad='VALID'>(x, , w)  # n",
    ]


def test_text_diff_reads_a_constant_only_once():
    reads = []
    tensor = ir.Tensor(np.zeros(100, np.float32))
    lazy = ir.LazyTensor(lambda: reads.append(1) or tensor, dtype=ir.DataType.FLOAT, shape=ir.Shape([100]))
    models = [model("{ y = Relu(x) }"), model("{ y = Abs(x) }"), model("{ y = Neg(x) }")]
    for each in models:
        each.graph.initializers.add(ir.Value(name="w", const_value=lazy))
    contents = Contents()
    text_diff(models[0], models[1], contents=contents)
    text_diff(models[1], models[2], contents=contents)
    assert len(reads) == 1


def apply(a: list[str], patch: str) -> list[str]:
    """Apply a unified diff, the way the patch tool does."""
    result: list[str] = []
    position = 0
    for line in patch.splitlines()[2:]:
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            first = int(start) - (length != "0")
            result += a[position:first]
            position = first
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert a[position] == line[1:]
            position += 1
            if line.startswith(" "):
                result.append(line[1:])
    return result + a[position:]


LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=30)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES)
def test_unified_diffs_turn_one_text_into_the_other(a: list[str], b: list[str]):
    patch = unified_diff(a, b, "a", "b")
    assert apply(a, patch) == b
    assert (patch == "") == (a == b)


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_unified_diffs_of_small_edits_are_those_of_difflib(seed: int):
    rng = np.random.default_rng(seed)
    before = [f"line {number}" for number in range(100)]
    after = [line for line in before if rng.random() < 0.95]
    after.insert(int(rng.integers(len(after))), "new")
    expected = list(difflib.unified_diff(before, after, "a", "b", lineterm=""))
    assert unified_diff(before, after, "a", "b").splitlines() == expected


def test_unified_diff_of_long_texts_without_common_lines_is_fast():
    before, after = ["x"] * 20_000, ["y"] * 20_000
    assert len(unified_diff(before, after, "a", "b").splitlines()) == 40_003


def test_what_is_left_of_a_chain_is_aligned_where_nodes_were_taken_out_all_along():
    before = model("{a = Relu(x) b = Identity(a) c = Neg(b) d = Identity(c) e = Exp(d) f = Identity(e) y = Abs(f)}")
    after = model("{p = Relu(x) q = Neg(p) r = Exp(q) y = Abs(r)}")
    changes = diff(before, after)
    assert [node.op_type for node in changes.removed] == ["Identity"] * 3
    assert not changes.added
    assert [(c.before.op_type, c.after.op_type) for c in changes.changed] == [("Neg",) * 2, ("Exp",) * 2, ("Abs",) * 2]


def test_layers_are_told_apart_by_their_weights_where_nodes_were_taken_out():
    weights = "<" + ", ".join(f"float[4] w{i} = {{{i}.0, 1.0, 2.0, 3.0}}" for i in range(4)) + ">"
    chain = "".join(f"m{i} = Mul({f'i{i - 1}' if i else 'x'}, w{i}) i{i} = Identity(m{i}) " for i in range(4))
    before = model(f"{weights} {{{chain} y = Abs(i3)}}")
    after = model(f"{weights} {{a = Mul(x, w0) b = Mul(a, w2) c = Mul(b, w3) y = Abs(c)}}")
    changes = diff(before, after)
    assert [node.outputs[0].name for node in changes.removed if node.op_type == "Mul"] == ["m1"]
    assert not changes.added
