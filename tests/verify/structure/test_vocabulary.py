"""Properties find what violates them and name it; they combine, and have the same meaning as text."""

from __future__ import annotations

import time
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes import PassResult, Transformation, passes
from onnx_passes.core.errors import ModelError, RegistrationError, UsageError
from onnx_passes.core.registry import REGISTRY, Registry
from onnx_passes.graph import annotations
from onnx_passes.verify.structure import vocabulary as structure
from onnx_passes.verify.structure.vocabulary import Property, Violation, parse_property
from tests.helpers.random_models import random_model
from tests.passes.tools import model_of, value

CHAIN = "g (float[2] x) => (float[2] y) { [p] a = Relu (x) [q] b = Abs (a) [r] y = Relu (b) }"
BRANCHES = """g (bool k, float[2] x) => (float[2] y) {{
  [p] a = Abs (x)
  [i] y = If (k) <then_branch = t () => (float[2] r) {{ {then} }},
                  else_branch = e () => (float[2] s) {{ [q] s = Neg (a) }}>
}}"""
FUNCTION = """g (float[2] x) => (float[2] y) {{ [c] y = local.f (x) }}
<domain: "local", opset_import: ["" : 18, "local" : 1]> f (a) => (b) {{ {body} }}"""


def branches(then: str = "[u] t0 = Relu (a) [v] r = Neg (t0)") -> ir.Model:
    return model_of(BRANCHES.format(then=then))


def function(body: str = "[u] t0 = Relu (a) [v] b = Neg (t0)") -> ir.Model:
    return model_of(FUNCTION.format(body=body), domains='"local" : 1')


def graph(nodes: str, interface: str = "(float[2] x) => (float[2] y)") -> ir.Model:
    return model_of(f"g {interface} {{ {nodes} }}", domains='"other" : 1')


def offenders(prop: Property | str, model: ir.Model, before: ir.Model | None = None) -> list[str]:
    found = parse_property(prop).violations(model, before)
    assert parse_property(prop).holds(model, before) is (not found)
    return [name for violation in found for name in violation.offenders]


@pytest.mark.parametrize("make", [lambda: model_of(CHAIN), branches])
@pytest.mark.parametrize(
    "text",
    [
        "acyclic", "connected", "single-assignment", "no-dangling-values", "no-dead-nodes", "sorted", "no-functions",
        "only(Relu, Abs, Neg, If)", "only(ai.onnx::*)", "none-of(Add, other::*)", "at-most(Relu, 2)",
        "at-least(Abs, 1)", "isomorphic(before)",
    ],
)  # fmt: skip
def test_sound_models_violate_nothing(make, text: str):
    assert parse_property(text).violations(make(), make()) == []


@pytest.mark.parametrize("seed", range(8))
def test_random_models_are_in_order(seed: int):
    model = random_model(seed)
    onnx.checker.check_model(ir.to_proto(model))
    sound = structure.acyclic & structure.no_dangling_values & structure.sorted_nodes & structure.isomorphic("before")
    assert sound.violations(model, model.clone()) == []


def test_acyclic_names_the_cycle_in_the_order_of_the_data():
    model = graph("[n] y = Neg (b) [p] a = Relu (c) [q] b = Abs (a) [r] c = Abs (b)")
    (violation,) = structure.acyclic.violations(model)
    assert violation.message == "there is a cycle"
    names = list(violation.offenders)
    start = names.index("Relu 'p'")
    assert names[start:] + names[:start] == ["Relu 'p'", "Abs 'q'", "Abs 'r'"]


def test_acyclic_sees_a_cycle_through_a_subgraph_and_through_a_function():
    model = branches()
    inner = next(node for node in model.graph.all_nodes() if node.name == "u")
    inner.replace_input_with(0, model.graph.outputs[0])
    assert set(offenders("acyclic", model)) == {"Relu 'u'", "If 'i'"}
    assert offenders("acyclic", function("[u] b = local.f (a)")) == ["local::f 'u'"]
    assert offenders("acyclic", function()) == []


def test_connected_names_islands_and_inputs_without_effect():
    model = graph("[p] y = Relu (x) [q] a = Abs (z) [r] b = Abs (a)", "(float[2] x, float[2] z) => (float[2] y)")
    assert offenders("connected", model) == ["input 'z'", "Abs 'q'", "Abs 'r'"]
    pieces = graph("[p] y = Relu (x) [q] w = Abs (z)", "(float[2] x, float[2] z) => (float[2] y, float[2] w)")
    assert offenders("connected", pieces) == []
    assert offenders("connected", graph("[p] y = Relu (x)", "(float[2] x, float[2] z) => (float[2] y)")) == [
        "input 'z'"
    ]


@pytest.mark.parametrize("text", ["connected", "no-dead-nodes"])
def test_nodes_that_reach_no_output_are_named_in_subgraphs_and_functions_too(text: str):
    assert offenders(text, graph("[p] y = Relu (x) [q] z = Abs (x)")) == ["Abs 'q'"]
    assert offenders(text, branches("[u] r = Relu (a) [v] z = Neg (a)")) == ["Neg 'v'"]
    assert offenders(text, function("[u] b = Relu (a) [v] z = Neg (a)")) == ["Neg 'v' in function 'local::f'"]


def test_what_an_annotation_names_is_not_dead():
    model = graph("[p] y = Relu (x) [q] z = Abs (x)")
    assert not structure.no_dead_nodes.holds(model)
    annotations.set(value(model, "y"), {"SCALE_TENSOR": "z"})
    assert structure.no_dead_nodes.holds(model)
    assert not structure.connected.holds(model)


def test_single_assignment_says_what_defines_a_name_twice():
    model = model_of(CHAIN)
    value(model, "b").name = "a"
    assert offenders("single-assignment", model) == ["'a' (Relu 'p' and Abs 'q')"]
    model = branches()
    value(model, "t0").name = "x"
    assert offenders("single-assignment", model) == ["'x' (input 'x' and Relu 'u')"]
    model = function()
    next(iter(model.functions.values()))[0].outputs[0].name = "a"
    assert offenders("single-assignment", model) == ["'a' (input 'a' and Relu 'u') in function 'local::f'"]


def test_an_initializer_that_is_an_input_is_defined_once():
    model = model_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    model.graph.inputs.append(model.graph.initializers["w"])
    assert offenders("single-assignment", model) == []


def test_no_dangling_values_names_reader_and_value():
    model = model_of(CHAIN)
    model.graph[1].replace_input_with(0, ir.Value(name="nowhere"))
    assert offenders("no-dangling-values", model) == ["Abs 'q' reads 'nowhere'"]
    assert offenders("sorted", model) == []
    model = function()
    next(iter(model.functions.values()))[0].replace_input_with(0, ir.Value(name="nowhere"))
    assert offenders("no-dangling-values", model) == ["Relu 'u' reads 'nowhere' in function 'local::f'"]


def test_a_removed_node_defines_nothing():
    model = model_of(CHAIN)
    model.graph.remove(model.graph[0])
    assert offenders("no-dangling-values", model) == ["Abs 'q' reads 'a'"]


def test_an_output_that_nothing_computes_dangles():
    model = model_of(CHAIN)
    model.graph.outputs[0] = ir.Value(name="nowhere")
    assert offenders("no-dangling-values", model) == ["graph 'g' returns 'nowhere'"]


def test_a_value_of_another_branch_is_out_of_sight():
    model = branches()
    other = next(node for node in model.graph.all_nodes() if node.name == "q")
    other.replace_input_with(0, value(model, "t0"))
    assert offenders("no-dangling-values", model) == ["Neg 'q' reads 't0'"]


def test_sorted_names_nodes_that_come_too_early():
    assert offenders("sorted", graph("[q] y = Abs (a) [p] a = Relu (x)")) == ["Abs 'q' reads 'a'"]
    model = branches()
    model.graph.append(model.graph[0])
    assert offenders("sorted", model) == ["Relu 'u' reads 'a'", "Neg 'q' reads 'a'"]
    assert offenders("sorted", function("[v] b = Neg (t0) [u] t0 = Relu (a)")) == [
        "Neg 'v' reads 't0' in function 'local::f'"
    ]


def test_static_shapes_names_values_with_unknown_or_symbolic_shape():
    text = "g (float[N, 2] x) => (float[2] y) <float[2] w = {1, 2}> { [p] a = Add (x, w) [q] y = Relu (a) }"
    model = model_of(text)
    assert offenders("static-shapes", model) == ["x: float[N,2]", "a: unknown type"]
    for name in ("x", "a"):
        value(model, name).shape = ir.Shape((1, 2))
    assert offenders("static-shapes", model) == []
    assert "t0: unknown type" in offenders("static-shapes", branches())


def test_outputs_that_are_left_out_need_no_shape():
    model = graph("[d] y = Dropout (x)")
    model.graph[0].resize_outputs(2)
    assert offenders("static-shapes", model) == []


def test_no_functions_names_them():
    assert offenders("no-functions", function()) == ["'local::f'"]


def test_only_names_nodes_of_other_operators():
    assert offenders("only(Relu)", model_of(CHAIN)) == ["Abs 'q'"]
    assert offenders("only(Abs, Neg, If)", branches()) == ["Relu 'u'"]
    custom = graph("[p] a = other.Quant (x) [q] y = Relu (a)")
    assert offenders("only(Relu)", custom) == ["other::Quant 'p'"]
    assert offenders("only(Relu, other::Quant)", custom) == []
    assert offenders("only(Relu, other::*)", custom) == []
    assert offenders("only(Relu, other::Round)", custom) == ["other::Quant 'p'"]
    assert offenders("only(other::*)", custom) == ["Relu 'q'"]


def test_only_judges_a_call_by_the_body_unless_the_call_is_allowed():
    assert offenders("only(Relu, Neg)", function()) == []
    assert offenders("only(Relu)", function()) == ["Neg 'v' in function 'local::f'"]
    assert offenders("only(local::f)", function()) == []


def test_none_of_names_the_forbidden_nodes():
    assert offenders("none-of(Abs, Neg)", model_of(CHAIN)) == ["Abs 'q'"]
    assert offenders("none-of(Neg)", branches()) == ["Neg 'v'", "Neg 'q'"]
    assert offenders("none-of(Relu)", function()) == ["Relu 'u' in function 'local::f'"]
    assert offenders("none-of(local::*)", function()) == ["local::f 'c'"]


def test_limits_count_and_name_the_nodes():
    (violation,) = structure.at_most("Relu", 1).violations(model_of(CHAIN))
    assert str(violation) == "at-most(Relu, 1): there are 2: Relu 'p', Relu 'r'"
    (violation,) = structure.at_least("Abs", 2).violations(model_of(CHAIN))
    assert str(violation) == "at-least(Abs, 2): there is 1: Abs 'q'"
    (violation,) = structure.at_least("Neg", 1).violations(model_of(CHAIN))
    assert str(violation) == "at-least(Neg, 1): there are none"
    assert structure.at_least("Neg", 2).holds(branches())
    assert offenders("at-most(Relu, 0)", function()) == ["Relu 'u' in function 'local::f'"]


def test_isomorphic_ignores_names_and_tells_the_first_difference():
    renamed = graph("[k] c = Relu (i) [l] d = Abs (c) [m] o = Relu (d)", "(float[2] i) => (float[2] o)")
    other = graph("[p] a = Relu (x) [q] b = Neg (a) [r] y = Relu (b)")
    assert structure.isomorphic("before").holds(model_of(CHAIN), renamed)
    (violation,) = structure.isomorphic("before").violations(model_of(CHAIN), other)
    assert violation.message == "not wired like the model before"
    assert "Abs" in violation.offenders[0]
    assert "Neg" in violation.offenders[0]


def test_isomorphic_can_ignore_constants_and_attributes():
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, %d}> { a = LeakyRelu <alpha = %s> (x) y = Add (a, w) }"
    model, weights, slope = model_of(text % (2, "0.1")), model_of(text % (3, "0.1")), model_of(text % (2, "0.2"))
    for before, ignored, kept in ((weights, "constants", "attributes"), (slope, "attributes", "constants")):
        assert not structure.isomorphic("before").holds(model, before)
        assert parse_property(f"isomorphic(before, {ignored})").holds(model, before)
        assert not parse_property(f"isomorphic(before, {kept})").holds(model, before)


def test_isomorphic_to_a_file(tmp_path: Path):
    path = tmp_path / "a model.onnx"
    ir.save(model_of(CHAIN), path)
    prop = structure.isomorphic(path)
    assert prop.holds(model_of(CHAIN))
    assert not prop.holds(branches())
    assert parse_property(str(prop)) == prop
    with pytest.raises(ModelError):
        structure.isomorphic(tmp_path / "absent.onnx").holds(model_of(CHAIN))


def test_isomorphic_to_nothing_is_an_error():
    with pytest.raises(UsageError, match="there is no model before"):
        structure.isomorphic("before").violations(model_of(CHAIN))


def test_all_of_keeps_the_violations_of_each():
    prop = structure.at_most("Relu", 1) & structure.acyclic & structure.none_of("Abs")
    assert [v.property for v in prop.violations(model_of(CHAIN))] == ["at-most(Relu, 1)", "none-of(Abs)"]
    assert prop.holds(branches()) is False
    assert (structure.at_most("Relu", 1) & structure.acyclic).holds(branches())


def test_any_of_says_why_none_holds():
    prop = structure.none_of("Abs") | structure.at_least("Relu", 3)
    (violation,) = prop.violations(model_of(CHAIN))
    assert violation.property == "any-of(none-of(Abs), at-least(Relu, 3))"
    assert ["Abs 'q'" in violation.offenders[0], "there are 2" in violation.offenders[1]] == [True, True]
    assert (prop | structure.acyclic).holds(model_of(CHAIN))


def test_not_says_that_the_property_holds():
    (violation,) = (~structure.acyclic).violations(model_of(CHAIN))
    assert str(violation) == "not(acyclic): 'acyclic' holds and should not"
    assert structure.not_("none-of(Abs)").holds(model_of(CHAIN))


def test_needing_the_model_before_is_seen_through_combinators():
    before = structure.isomorphic("before")
    for prop in (before, before & structure.acyclic, structure.acyclic | before, ~before):
        assert prop.needs_before
    assert not (structure.isomorphic("file.onnx") & ~structure.acyclic).needs_before


def test_only_the_first_offenders_are_shown():
    violation = Violation("p", "wrong", tuple("abcdefg"))
    assert str(violation) == "p: wrong: a, b, c, d, e and 2 more"


OPERATORS = st.sampled_from(["Relu", "Conv", "ai.onnx::*", "other::*", "qonnx.custom_op.general::Quant"])
LEAVES = st.one_of(
    st.sampled_from(["acyclic", "connected", "sorted", "static-shapes"]).map(parse_property),
    st.lists(OPERATORS, min_size=1, max_size=3).map(lambda names: structure.only(*names)),
    st.lists(OPERATORS, min_size=1, max_size=3).map(lambda names: structure.none_of(*names)),
    st.builds(structure.at_most, OPERATORS, st.integers(0, 99)),
    st.builds(structure.at_least, OPERATORS, st.integers(0, 99)),
    st.builds(structure.isomorphic, st.text(), st.sampled_from([(), ("constants",), ("constants", "attributes")])),
)
PROPERTIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda some: structure.all_of(*some)),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: structure.any_of(*some)),
        inner.map(structure.not_),
    ),
    max_leaves=6,
)


@given(PROPERTIES)
def test_the_text_of_a_property_is_read_back_as_the_same(prop: Property):
    assert parse_property(str(prop)) == prop


def test_other_spellings_are_understood():
    assert parse_property(" at_most( Relu ,3 ) ") == structure.at_most("Relu", 3)
    assert str(parse_property("only(ai.onnx::Relu)")) == "only(Relu)"
    assert parse_property(structure.acyclic) is structure.acyclic


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acyclyc", "there is no property 'acyclyc'; did you mean 'acyclic'?"),
        ("qqq", "there is no property 'qqq'; the properties are acyclic, connected, "),
        ("any-of(acyclic, conected)", "there is no property 'conected'; did you mean 'connected'?"),
        ("acyclic(Relu)", "property 'acyclic' takes no arguments; write 'acyclic' instead of 'acyclic(Relu)'"),
        ("at-most", "property 'at-most' does not fit 'at-most'; write at-most(OPERATOR, NUMBER)"),
        ("at-most(Relu)", "property 'at-most' does not fit 'at-most(Relu)'; write at-most(OPERATOR, NUMBER)"),
        ("at-most(Relu, many)", "property 'at-most' does not fit 'at-most(Relu, many)'; write"),
        ("at-least(Relu, -1)", "property 'at-least' does not fit 'at-least(Relu, -1)'; write"),
        ("only", "property 'only' does not fit 'only'; write only(OPERATOR, …)"),
        ("only(not(acyclic))", "property 'only' does not fit 'only(not(acyclic))'; write"),
        (
            "none-of(Rellu)",
            "ONNX has no operator 'Rellu'; write domain::Rellu if it is of another domain, or did you mean 'Relu'",
        ),
        (
            "none-of(MultiThreshold)",
            "ONNX has no operator 'MultiThreshold'; write domain::MultiThreshold if it is of another domain",
        ),
        ("only(*)", "'*' is no operator; write Relu, domain::Op or domain::*"),
        ("not(acyclic, sorted)", "property 'not' does not fit 'not(acyclic, sorted)'; write not(PROPERTY)"),
        ("isomorphic(before, constant)", "'isomorphic' cannot ignore 'constant'; did you mean 'constants'?"),
        ("isomorphic(before, zzz)", "'isomorphic' cannot ignore 'zzz'; ignore constants or attributes"),
        ("isomorphic", "property 'isomorphic' does not fit 'isomorphic'; write isomorphic(FILE or before"),
        ("", "property '': expected the name of a property, found the end"),
        ("at-most(Relu, 3", "property 'at-most(Relu, 3': expected ',' or ')', found the end"),
        ("at-most(Relu 3)", "property 'at-most(Relu 3)': expected ',' or ')', found '3'"),
        ("at-most(Relu,)", "property 'at-most(Relu,)': expected an argument, found ')'"),
        ("acyclic)", "property 'acyclic)': expected the end, found ')'"),
        ("isomorphic('a)", "property 'isomorphic('a)': a quote is not closed"),
        ("not(" * 60 + "acyclic" + ")" * 60, "property: more than 50 levels of nesting"),
    ],
)
def test_a_mistake_in_the_text_is_an_error_that_says_what_to_write(text: str, message: str):
    with pytest.raises(UsageError) as caught:
        parse_property(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "make",
    [structure.only, structure.none_of, structure.all_of, structure.any_of, lambda: structure.at_most("Relu", -1)],
)
def test_a_mistake_in_python_is_an_error_too(make):
    with pytest.raises(UsageError):
        make()


class Nop(Transformation):
    def call(self, model):
        return PassResult(model, modified=False)


def test_a_pass_promises_properties_as_objects_and_as_text(monkeypatch):
    for name, kept in vars(Registry()).items():
        monkeypatch.setattr(REGISTRY, name, kept)

    @passes.verify.structure(structure.acyclic, "at-most( Relu, 3 )")
    @passes.register()
    class Tidy(Nop):
        """Promises."""

    (claim,) = Tidy.claims
    assert claim.kind == "structure"
    assert claim.properties == (structure.acyclic, structure.at_most("Relu", 3))
    assert list(claim.parameters) == ["acyclic", "at-most(Relu, 3)"]
    assert REGISTRY.find("tidy").entries[0].claims == ("structure(acyclic, at-most(Relu, 3))",)


def test_a_promise_that_makes_no_sense_is_an_error():
    with pytest.raises(UsageError, match="did you mean 'acyclic'"):
        passes.verify.structure("acyclc")
    with pytest.raises(RegistrationError, match="names no property"):
        passes.verify.structure()


def chain(length: int) -> ir.Model:
    first = last = ir.Value(name="x", shape=ir.Shape((2,)), type=ir.TensorType(ir.DataType.FLOAT))
    nodes: list[ir.Node] = []
    for number in range(length):
        nodes.append(ir.Node("", "Relu", [last], name=f"n{number}"))
        last = nodes[-1].outputs[0]
        last.name, last.shape = f"v{number}", ir.Shape((2,))
    return ir.Model(ir.Graph([first], [last], nodes=nodes, opset_imports={"": 18}), ir_version=9)


def test_the_cost_grows_with_the_model_and_not_faster():
    def seconds(prop: Property, model: ir.Model) -> float:
        begin = time.process_time()
        assert prop.holds(model)
        return time.process_time() - begin

    short, long = chain(500), chain(10_000)
    for text in ("acyclic", "connected", "single-assignment", "no-dangling-values", "no-dead-nodes", "sorted",
                 "static-shapes", "only(Relu)", "at-least(Relu, 3)"):  # fmt: skip
        prop = parse_property(text)
        few, many = (min(seconds(prop, model) for _ in range(3)) for model in (short, long))
        assert many < 100 * few + 0.05, text
