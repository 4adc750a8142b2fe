from __future__ import annotations

import itertools
from pathlib import Path

import hypothesis
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.core.base import Context
from onnx_passes.graph.constants import constant
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.eliminate.scalar_laws import EliminateUnsqueezeOfScalar
from onnx_passes.passes.move.steady import elementwise
from onnx_passes.rewrite.driver import rewrite
from tests.helpers.small_models import named
from tests.passes.eliminate.tools import refusals, rewritten
from tests.passes.tools import apply, assert_equal_results, check, model_of, operators, run

PASS = EliminateUnsqueezeOfScalar()
OPSETS = [11, 13, 20]
ENDLESS = 2**63 - 1


def with_axes(operator: str, axes: str, value: str, opset: int) -> str:
    """Write a Squeeze or Unsqueeze, with axes as the opset has them; ``a`` is a constant for these."""
    return f"{operator} <axes = [{axes}]> ({value})" if opset < 13 else f"{operator} ({value}, a)"


def constants_of(model: ir.Model, op_type: str, index: int) -> list[list[int] | int]:
    nodes = [node for node in model.graph if node.op_type == op_type]
    arrays = [constant(node.inputs[index]) for node in nodes]
    return [array.tolist() for array in arrays if array is not None]


def gathered(x: str, index: str, axis: int, to: str, opset: int = 18) -> str:
    return f"""g (int64[{x}] x) => (int64[{",".join("P" * len(x.split(",")))}] y) <int64[1] a = {{{to}}}, {index}> {{
        s = Gather <axis = {axis}> (x, i) y = {with_axes("Unsqueeze", to, "s", opset)}
    }}"""


def sliced(x: str, y: str, start: int, end: int, axis: int, to: int, opset: int = 18) -> str:
    return f"""g (float[{x}] x) => (float[{y}] y)
        <int64[1] a = {{{to}}}, int64[1] b = {{{start}}}, int64[1] e = {{{end}}}, int64[1] c = {{{axis}}}> {{
        s = Slice (x, b, e, c) y = {with_axes("Squeeze", str(to), "s", opset)}
    }}"""


def computed(nodes: str, *, more: str = "", kind: str = "int64") -> str:
    """Make a graph that has vectors v and w, scalars s of v, t and u of w, and constants."""
    return f"""g (int64[1] v, int64[3] w) => ({kind}[1] y{more})
        <int64[1] a = {{0}}, int64[1] last = {{-1}}, int64 two = {{2}}, int64 i = {{-1}}, int64 j = {{1}}> {{
        s = Squeeze (v, a) t = Gather (w, i) u = Gather (w, j) {nodes}
    }}"""


class TestGathered:
    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize(
        ("x", "axis", "to"), [("4", 0, "0"), ("4", -1, "0"), ("2,3", 1, "-1"), ("2,4,3", -2, "1"), ("N,M,2", 1, "-2")]
    )
    def test_index_becomes_a_vector(self, x, axis, to, opset):
        model = rewritten(PASS, gathered(x, "int64 i = {-2}", axis, to, opset), opset=opset)
        assert operators(model.graph) == ["Gather"]
        assert constants_of(model, "Gather", 1) == [[-2]]

    def test_type_of_the_index_stays(self):
        model = rewritten(PASS, gathered("4", "int32 i = {1}", 0, "0"))
        assert model.graph.node(0).inputs[1].dtype == ir.DataType.INT32

    def test_several_may_bring_the_axis_back(self):
        text = gathered("4,2", "int64 i = {1}, int64[1] b = {-2}", 0, "0").replace(
            "y = Unsqueeze (s, a)", "p = Unsqueeze (s, a) q = Unsqueeze (s, b) y = Add (p, q)"
        )
        assert operators(rewritten(PASS, text).graph) == ["Gather", "Gather", "Add"]

    @pytest.mark.parametrize(("axis", "to"), [(0, "0"), (1, "1"), (-1, "-1")])
    def test_rank_need_not_be_known_where_axes_are_the_same(self, axis, to):
        model = of_unknown_rank(axis, to)
        assert apply(PASS, model)
        assert operators(model.graph) == ["Gather"]

    @pytest.mark.parametrize(("axis", "to"), [(1, "-1"), (0, "1")])
    def test_refuses_other_axes_of_an_unknown_rank(self, axis, to):
        assert not apply(PASS, of_unknown_rank(axis, to))

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (gathered("2,3", "int64 i = {1}", 0, "1"), "the Unsqueeze does not just restore the gathered axis"),
            (gathered("2,3", "int64 i = {1}", 1, "0"), "the Unsqueeze does not just restore the gathered axis"),
            (
                gathered("4", "int64[1] i = {1}", 0, "0").replace("[P] y", "[P,Q] y"),
                "the index is not one constant number",
            ),
            (
                gathered("4", "int64 i = {1}", 0, "0").replace("x) =>", "x, int64 i) =>"),
                "the index is not one constant number",
            ),
            (
                gathered("4", "int64 i = {1}", 0, "0").replace("x) =>", "x, int64[1] a) =>"),
                "the Unsqueeze does not just restore the gathered axis",
            ),
            (
                gathered("4", "int64 i = {1}", 0, "0").replace("y)", "y, int64 s)"),
                "the gathered scalar has other consumers",
            ),
        ],
    )
    def test_refuses(self, text, reason):
        assert reason in refusals(PASS, text)


def of_unknown_rank(axis: int, to: str) -> ir.Model:
    model = model_of(gathered("4", "int64 i = {1}", axis, to))
    model.graph.inputs[0].shape = model.graph.outputs[0].shape = None
    return model


class TestSliced:
    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize(
        ("x", "y", "start", "end", "axis", "to", "index"),
        [
            ("4", "", 1, 2, 0, 0, 1),
            ("4", "", -2, -1, 0, -1, 2),
            ("4", "", -1, ENDLESS, -1, 0, 3),
            ("4", "", 3, 4, 0, 0, 3),
            ("4", "", -9, 1, 0, 0, 0),
            ("1", "", 0, 5, 0, 0, 0),
            ("N,3,2", "N,2", 2, 3, 1, -2, 2),
        ],
    )
    def test_one_element_is_gathered(self, x, y, start, end, axis, to, index, opset):
        model = rewritten(PASS, sliced(x, y, start, end, axis, to, opset), opset=opset)
        assert operators(model.graph) == ["Gather"]
        assert constants_of(model, "Gather", 1) == [index]

    def test_arguments_may_be_attributes(self):
        text = """g (float[4,1] x) => (float[1] y) {
            s = Slice <starts = [-1], ends = [9]> (x) y = Squeeze <axes = [0]> (s)
        }"""
        model = rewritten(PASS, text, opset=9)
        assert constants_of(model, "Gather", 1) == [3]

    def test_axes_may_be_left_out_where_only_one_is_squeezed(self):
        text = sliced("4,2", "2", 1, 2, 0, 0).replace("(s, a)", "(s)")
        assert operators(rewritten(PASS, text).graph) == ["Gather"]
        assert refusals(PASS, sliced("4,1", "", 1, 2, 0, 0).replace("(s, a)", "(s)"))

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (sliced("4", "", -1, 0, 0, 0), "the Slice does not take one element"),
            (sliced("4", "", 4, 5, 0, 0), "the Slice does not take one element"),
            (sliced("4", "", 1, 3, 0, 0), "the Slice does not take one element"),
            (sliced("N", "", 1, 2, 0, 0), "the size of the sliced axis is not known"),
            (sliced("4,1", "4", 1, 2, 0, 1), "the Squeeze does not remove the sliced axis alone"),
            (sliced("4", "", 1, 2, 0, 0).replace(" y)", " y, float[1] s)"), "the slice has other consumers"),
            (
                sliced("4", "", 1, 2, 0, 0).replace(" x)", " x, int64[1] b)"),
                "the Slice is not of one axis with constant bounds",
            ),
        ],
    )
    def test_refuses(self, text, reason):
        assert reason in refusals(PASS, text, infer=False)


class TestComputed:
    @pytest.mark.parametrize(
        ("nodes", "expected"),
        [
            ("z = Sub (s, t) y = Unsqueeze (z, a)", ["Gather", "Sub"]),
            ("z = Sub (two, s) y = Unsqueeze (z, a)", ["Sub"]),
            ("z = Mul (t, t) y = Unsqueeze (z, a)", ["Gather", "Mul"]),
            ("z = Neg (u) y = Unsqueeze (z, a)", ["Gather", "Neg"]),
            ("z = Clip (u, two) y = Unsqueeze (z, a)", ["Gather", "Clip"]),
            ("z = Max (s, t, two) y = Unsqueeze (z, a)", ["Gather", "Max"]),
            ("r = Add (s, t) q = Mul (r, two) z = Sub (q, r) y = Unsqueeze (z, a)", ["Gather", "Add", "Mul", "Sub"]),
        ],
    )
    def test_vectors_are_used_instead_of_scalars(self, nodes, expected):
        model = rewritten(PASS, computed(nodes))
        read = [node for node in model.graph if node.outputs[0].uses() or node.outputs[0].is_graph_output()]
        assert [node.op_type for node in read] == expected

    @pytest.mark.parametrize("opset", OPSETS)
    def test_integers_wrap_as_before(self, opset):
        text = f"""g (int64[1] v, int64[2] w) => (int64[1] y) <int64[1] a = {{0}}, int64 i = {{1}}> {{
            s = {with_axes("Squeeze", "0", "v", opset)} t = Gather (w, i) z = Mul (s, t)
            y = {with_axes("Unsqueeze", "-1" if opset < 13 else "0", "z", opset)}
        }}"""
        feeds = {"v": np.array([2**62 + 3]), "w": np.array([0, 2**62 - 7])}
        assert operators(rewritten(PASS, text, opset=opset, feeds=feeds).graph) == ["Gather", "Mul"]

    @pytest.mark.parametrize("kind", [("float", 1), ("float16", 10), ("int32", 6), ("bool", 9)])
    def test_casts_keep_their_type(self, kind):
        model = rewritten(PASS, computed(f"z = Cast <to = {kind[1]}> (s) y = Unsqueeze (z, a)", kind=kind[0]))
        assert model.graph.outputs[0].dtype == ir.DataType(kind[1])
        assert "Squeeze" not in operators(model.graph)

    def test_ranks_are_known_from_the_result_as_well(self):
        assert rewritten(PASS, computed("z = Sub (s, t) y = Unsqueeze (z, a)"), infer=False)

    def test_squeeze_that_others_read_stays(self):
        model = rewritten(PASS, computed("z = Add (s, two) y = Unsqueeze (z, a) p = Neg (s)", more=", int64 p"))
        assert sorted(operators(model.graph)) == ["Add", "Gather", "Gather", "Neg", "Squeeze"]
        add = next(node for node in model.graph if node.op_type == "Add")
        assert add.inputs[0] is model.graph.inputs[0]

    @pytest.mark.parametrize(
        ("nodes", "more", "reason"),
        [
            ("z = Add (s, two) y = Unsqueeze (z, a)", ", int64 z", "the scalar has other consumers"),
            ("z = Add (s, two) y = Unsqueeze (z, a) p = Neg (z)", ", int64 p", "the scalar has other consumers"),
            (
                "r = Add (s, two) z = Neg (r) y = Unsqueeze (z, a)",
                ", int64 r",
                "an intermediate scalar has other consumers",
            ),
            (
                "z = Neg (t) y = Unsqueeze (z, a)",
                ", int64 t",
                "the scalars have other consumers: no node would be saved",
            ),
            ("r = ReduceMax <keepdims = 0> (w) z = Neg (r) y = Unsqueeze (z, a)", "", "a scalar has no vector form"),
            ("z = Neg (two) y = Unsqueeze (z, a)", "", "all operands are constant"),
            ("z = Clip (t, s) y = Unsqueeze (z, a)", "", "a scalar is used as another argument"),
        ],
    )
    def test_refuses(self, nodes, more, reason):
        assert reason in " ".join(refusals(PASS, computed(nodes, more=more)))

    def test_refuses_a_scalar_that_a_caller_may_set(self):
        text = computed("z = Sub (s, two) y = Unsqueeze (z, a)").replace("w) =>", "w, int64 two) =>")
        assert "a scalar has no vector form" in refusals(PASS, text)

    def test_refuses_what_is_no_scalar(self):
        text = """g (int64[1] v, int64[3] w) => (int64[1,3] y) <int64[1] a = {0}> {
            s = Squeeze (v, a) z = Sub (w, s) y = Unsqueeze (z, a)
        }"""
        assert "it is not a scalar that becomes a vector of one element" in refusals(PASS, text)

    def test_refuses_unknown_ranks(self):
        model = model_of(computed("z = Sub (s, t) y = Unsqueeze (z, a)"))
        model.graph.outputs[0].shape = None
        assert not apply(PASS, model)

    def test_refuses_to_squeeze_several_axes(self):
        text = """g (int64[1,1] v) => (int64[1] y) <int64[1] a = {0}> {
            s = Squeeze (v) z = Neg (s) y = Unsqueeze (z, a)
        }"""
        assert "a scalar has no vector form" in refusals(PASS, text)

    def test_refuses_texts(self):
        text = """g (string[1] v) => (bool[1] y) <int64[1] a = {0}> {
            c = Constant <value_string = "b"> () s = Squeeze (v, a) z = Equal (s, c) y = Unsqueeze (z, a)
        }"""
        assert "a constant is not a scalar number" in refusals(PASS, text, opset=19)

    def test_refuses_very_long_chains(self):
        nodes = " ".join(f"z{k + 1} = Neg (z{k})" for k in range(20))
        text = computed(f"z0 = Neg (s) {nodes} y = Unsqueeze (z20, a)")
        assert "the chain of scalar operators is too long" in refusals(PASS, text)

    def test_values_of_outer_graphs_are_left(self):
        text = """g (bool c, int64[1] v) => (int64[1] y) <int64[1] a = {0}> {
            s = Squeeze (v, a)
            y = If (c) <then_branch = t () => (int64[1] p) { z = Neg (s) p = Unsqueeze (z, a) },
                        else_branch = e () => (int64[1] q) { q = Neg (v) }>
        }"""
        assert "a scalar has no vector form" in refusals(PASS, text)

    def test_subgraphs_are_rewritten(self):
        text = """g (bool c, int64[1] v) => (int64[1] y) <int64[1] a = {0}> {
            y = If (c) <then_branch = t () => (int64[1] p) { s = Squeeze (v, a) z = Neg (s) p = Unsqueeze (z, a) },
                        else_branch = e () => (int64[1] q) { q = Neg (v) }>
        }"""
        model = rewritten(PASS, text)
        assert [node.op_type for node in model.graph.all_nodes()].count("Neg") == 2
        assert "Squeeze" not in [node.op_type for node in model.graph.all_nodes()]


class TestForks:
    def test_several_vectors_of_one_scalar_become_one(self):
        nodes = "z = Sub (s, t) p = Unsqueeze (z, a) q = Unsqueeze (z, last) y = Add (p, q)"
        model = rewritten(PASS, computed(nodes))
        assert [op for op in operators(model.graph) if "queeze" in op] == []
        assert operators(model.graph).count("Sub") == 1

    def test_vector_that_is_made_anyway_is_used(self):
        nodes = "p = Unsqueeze (t, a) z = Sub (t, two) q = Unsqueeze (z, a) y = Add (p, q)"
        model = rewritten(PASS, computed(nodes))
        assert [op for op in operators(model.graph) if op != "Squeeze"] == ["Gather", "Gather", "Sub", "Add"]

    def test_vector_of_any_other_scalar_is_used(self):
        text = """g (int64 x) => (int64[1] y, int64[1] p) <int64[1] a = {0}> {
            z = Neg (x) y = Unsqueeze (z, a) p = Unsqueeze (x, a)
        }"""
        model = rewritten(PASS, text)
        assert operators(model.graph) == ["Unsqueeze", "Neg"]

    @pytest.mark.parametrize("other", ["two", "u"])
    def test_scalar_that_several_results_are_computed_from_stays(self, other: str):
        nodes = f"z = Sub (t, {other}) p = Unsqueeze (z, a) r = Mul (t, {other}) q = Unsqueeze (r, a) y = Add (p, q)"
        reasons = refusals(PASS, computed(nodes))
        assert "the scalars have other consumers: no node would be saved" in reasons

    def test_nothing_is_gathered_twice_for_two_operands(self):
        nodes = "z = Sub (t, u) y = Unsqueeze (z, a)"
        reasons = refusals(PASS, computed(nodes, more=", int64 t, int64 u"))
        assert "the scalars have other consumers: no node would be saved" in reasons

    def test_one_squeeze_less_makes_up_for_a_second_gather(self):
        model = rewritten(PASS, computed("z = Sub (s, t) y = Unsqueeze (z, a)", more=", int64 t"))
        assert sorted(op for op in operators(model.graph) if op != "Squeeze") == ["Gather", "Gather", "Gather", "Sub"]


GPT2 = """g (float[N,2,S,T] x) => (int64[1] y, int64[1] ends{more}) <int64[1] b = {{-2}}, int64[1] e = {{-1}},
    int64[1] last = {{9223372036854775807}}, int64[1] a = {{0}}> {{
    shape = Shape (x)
    p = Slice (shape, b, e, a) s = Squeeze <axes = [0]> (p)
    q = Slice (shape, e, last, a) t = Squeeze <axes = [0]> (q)
    d = Sub (t, s) y = Unsqueeze <axes = [0]> (d)
    {nodes}
}}"""


class TestTogether:
    @pytest.mark.parametrize(
        ("nodes", "more", "expected"),
        [
            ("ends = Neg (q)", "", ["Gather", "Neg", "Shape", "Slice", "Sub"]),
            ("ends = Neg (a)", "", ["Gather", "Gather", "Neg", "Shape", "Sub"]),
            (
                "ends = Neg (a) m = Neg (s)",
                ", int64 m",
                ["Gather", "Gather", "Neg", "Neg", "Shape", "Sub", "Unsqueeze"],
            ),
            (
                "r = Mul (t, s) ends = Unsqueeze <axes = [0]> (r)",
                "",
                ["Gather", "Gather", "Mul", "Shape", "Sub", "Unsqueeze", "Unsqueeze"],
            ),
        ],
    )
    def test_all_orders_of_the_rules_end_alike(self, nodes, more, expected):
        feeds = {"x": np.zeros((1, 2, 3, 5), np.float32)}
        for rules in itertools.permutations(PASS.rules()):
            model = model_of(GPT2.format(nodes=nodes, more=more), opset=11)
            ShapeInference().run(model, Context())
            before = run(model, feeds)
            for some in (*([rule] for rule in rules), rules):
                rewrite(model, some)
            check(model)
            assert_equal_results(model, before, feeds)
            assert sorted(operators(model.graph)) == expected

    def test_start_of_a_window_is_computed_with_vectors(self):
        model = model_of(GPT2.format(nodes="ends = Identity (q)", more=""), opset=11)
        result = onnx_passes.apply(model, "simplify").model
        assert operators(result.graph) == ["Shape", "Slice", "Gather", "Sub"]
        assert not onnx_passes.apply(result, "simplify").modified

    @hypothesis.settings(max_examples=25, deadline=None, database=None, derandomize=True)
    @hypothesis.given(st.data())
    def test_any_arithmetic_of_sizes_ends_and_never_grows(self, data):
        model = model_of(arithmetic(data))
        ShapeInference().run(model, Context())
        feeds = {"v": np.array([2**62 + 1]), "w": np.array([2**62, 2**63 - 1, -7])}
        before, size = run(model, feeds), len(operators(model.graph))
        group = onnx_passes.apply(model, "fixpoint(eliminate)", verify=False).model
        assert len(operators(group.graph)) <= size
        assert_equal_results(group, before, feeds)
        if apply(PASS, model):
            assert len(operators(model.graph)) <= size
            check(model)
            assert_equal_results(model, before, feeds)


def arithmetic(data: st.DataObject) -> str:
    """Compute with scalars that are selected from vectors, and make vectors of some and scalars of these."""
    scalars = ["s", "t", "u", "two"]
    lines = ["sl = Slice (w, b, e, a)", "q = Squeeze (sl, a)"]
    results = ["v"]
    for k in range(data.draw(st.integers(1, 8))):
        chosen = st.sampled_from([*scalars, "q"])
        kind = data.draw(st.sampled_from(["Add", "Sub", "Mul", "Unsqueeze", "Unsqueeze", "Squeeze"]))
        if kind == "Unsqueeze":
            lines.append(f"v{k} = Unsqueeze ({data.draw(chosen)}, a)")
            results.append(f"v{k}")
        else:
            first = (
                f"Neg ({results[-1]})" if kind == "Squeeze" else f"{kind} ({data.draw(chosen)}, {data.draw(chosen)})"
            )
            lines.append(f"n{k} = {first} s{k} = Squeeze (n{k}, a)" if kind == "Squeeze" else f"s{k} = {first}")
            scalars.append(f"s{k}")
    lines += [f"last{k} = Unsqueeze ({name}, a)" for k, name in enumerate(scalars[4:])]
    results += [f"last{k}" for k in range(len(scalars[4:]))]
    text = computed(f"{' '.join(lines)} y = Concat <axis = 0> ({', '.join(results)})")
    return text.replace("int64[1] y", f"int64[{len(results)}] y").replace(
        "int64 two", "int64[1] b = {1}, int64[1] e = {2}, int64 two"
    )


@pytest.mark.parametrize("operator", sorted(set(elementwise(arity=2)) - {"BitShift", "PRelu", "Mod"}))
def test_one_element_is_computed_like_a_scalar(operator):
    kind = {"And": "bool", "Or": "bool", "Xor": "bool"}.get(operator, "int64" if "Bitwise" in operator else "float")
    compares = operator in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    text = f"""g ({kind}[1] v, {kind}[12] w) => ({"bool" if compares else kind}[1] y)
        <int64[1] a = {{0}}, int64 i = {{INDEX}}> {{
        s = Squeeze (v, a) t = Gather (w, i) z = {operator} (s, t) y = Unsqueeze (z, a)
    }}"""
    for index in range(0, 12, 3):
        assert operators(rewritten(PASS, text.replace("INDEX", str(index))).graph) == ["Gather", operator]


# Range takes both ends of the small one's window as scalars, and Slice as vectors.
VECTORS_OF_SCALARS = {"float/small_decoder_with_past": 2, "float/ort_gpt2_past": 1}


@pytest.mark.parametrize(("path", "most"), named(VECTORS_OF_SCALARS), indirect=["path"])
def test_language_model_computes_its_windows_with_vectors(path: Path, most: int):
    result = onnx_passes.apply(path, "simplify", verify=False).model
    # What Range takes is a scalar; all windows are computed with vectors.
    assert operators(result.graph).count("Squeeze") <= operators(result.graph).count("Range") == 1
    assert sum(node.op_type == "Unsqueeze" and node.outputs[0].shape == (1,) for node in result.graph) <= most
