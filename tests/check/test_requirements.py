"""Structural properties that a run asks for are looked at after every pass that changed the model, or at its end."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import PassResult, Transformation, apply
from onnx_passes.check.contracts import Requirements
from onnx_passes.core.errors import ExitCode, StructureError, UsageError
from onnx_passes.graph.save import save
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.structure.vocabulary import parse_property

TWO = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y) { [p] a = Relu (x) [q] y = Neg (a) }
"""
DYNAMIC = TWO.replace("float[2] x", "float[N] x").replace("float[2] y", "float[N] y")
FUNCTION = """
<ir_version: 10, opset_import: ["": 20, "local": 1]>
g (float[2] x) => (float[2] y) { [c] y = local.f (x) }
<domain: "local", opset_import: ["": 20]> f (a) => (b) { b = Relu (a) }
"""


def two(text: str = TWO) -> ir.Model:
    return ir.from_onnx_text(text)


class Append(Transformation):
    """Put an Abs behind the output."""

    def call(self, model: ir.Model) -> PassResult:
        old = model.graph.outputs[0]
        node = ir.node("Abs", [old], name=f"abs{len(model.graph)}")
        model.graph.append(node)
        model.graph.outputs[0] = node.outputs[0]
        node.outputs[0].name, old.name = old.name, f"inner{len(model.graph)}"
        node.outputs[0].type, node.outputs[0].shape = old.type, old.shape
        return PassResult(model, modified=True)


class Rename(Transformation):
    to: str = "other"

    def call(self, model: ir.Model) -> PassResult:
        changed = model.graph.name != self.to
        model.graph.name = self.to
        return PassResult(model, changed)


def _cycle(model: ir.Model) -> None:
    relu, neg = model.graph
    relu.replace_input_with(0, neg.outputs[0])


def _island(model: ir.Model) -> None:
    model.graph.append(ir.node("Relu", [model.graph.inputs[0]], name="island"))


def _twice(model: ir.Model) -> None:
    model.graph[1].outputs[0].name = "a"


def _dangling(model: ir.Model) -> None:
    model.graph[0].replace_input_with(0, ir.Value(name="nowhere"))


def _unsorted(model: ir.Model) -> None:
    node = model.graph[0]
    model.graph.remove(node)
    model.graph.append(node)


def _abs(model: ir.Model) -> None:
    Append().call(model)


class Break(Transformation):
    """Do to a model what a test says."""

    how: str = ""

    def call(self, model: ir.Model) -> PassResult:
        globals()[f"_{self.how}"](model)
        return PassResult(model, modified=True)


@pytest.mark.parametrize(
    ("how", "prop", "offender"),
    [
        ("cycle", "acyclic", "Relu 'p'"),
        ("island", "connected", "Relu 'island'"),
        ("island", "no-dead-nodes", "Relu 'island'"),
        ("twice", "single-assignment", "'a'"),
        ("dangling", "no-dangling-values", "'nowhere'"),
        ("unsorted", "sorted", "Neg 'q' reads 'a'"),
        ("abs", "only(Relu, Neg)", "Abs 'abs2'"),
        ("abs", "allowed-operators(Relu, Neg)", "Abs 'abs2'"),
        ("abs", "none-of(Abs)", "Abs 'abs2'"),
        ("abs", "forbidden-operators(Abs)", "Abs 'abs2'"),
        ("abs", {"at-most": {"Abs": 0, "Relu": 1}}, "Abs 'abs2'"),
        ("abs", {"at-least": {"Abs": 2}}, "Abs 'abs2'"),
        ("abs", "isomorphic(before)", "not wired like the model before"),
        ("abs", {"not": "acyclic"}, "'acyclic' holds"),
    ],
)
def test_a_pass_that_breaks_a_property_fails_and_the_offender_is_named(how, prop, offender):
    with pytest.raises(PostconditionError) as caught:
        apply(two(), Break(how=how), structure=[prop], verify=False)
    lines = str(caught.value).splitlines()
    assert lines[0] == "PostconditionError: Post-condition for pass 'Break' failed"
    assert lines[1].startswith("VerificationError: ")
    assert offender in lines[1]
    assert "(step 1)" in lines[2]
    assert caught.value.exit_code is ExitCode.VERIFICATION


@pytest.mark.parametrize(
    ("text", "prop", "offender"),
    [(DYNAMIC, "static-shapes", r"x: float\[N\]"), (FUNCTION, "no-functions", "local::f")],
)
def test_the_end_is_looked_at_where_no_pass_changed_anything(text, prop, offender):
    with pytest.raises(StructureError, match=offender) as caught:
        apply(two(text), "checker", structure=[prop], verify=False)
    assert caught.value.exit_code is ExitCode.VERIFICATION


def test_isomorphic_to_a_file(tmp_path):
    save(two(), tmp_path / "like.onnx")
    same = {"isomorphic": str(tmp_path / "like.onnx")}
    apply(two(), Rename(), structure=[same])
    with pytest.raises(PostconditionError, match="not wired like"):
        apply(two(), Append(), structure=[same], verify=False)


def test_before_is_the_model_that_the_pass_was_given_or_at_the_end_the_run():
    class Reset(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            return PassResult(two(), modified=True)

    def check(mode):
        requirements = Requirements(["isomorphic(before)"], mode=mode)
        return apply(two(), [Append(), Reset()], instruments=[requirements], verify=False)

    check("final")
    with pytest.raises(PostconditionError, match="'Append' failed"):
        check("each")


def test_at_the_end_only_the_result_counts():
    class Shrink(Transformation):
        def call(self, model: ir.Model) -> PassResult:
            return PassResult(two(), modified=True)

    limit = ["at-most(Abs, 0)"]
    apply(two(), [Append(), Shrink()], instruments=[Requirements(limit, mode="final")], verify=False)
    with pytest.raises(PostconditionError, match="'Append' failed"):
        apply(two(), [Append(), Append()], instruments=[Requirements(limit)], verify=False)
    with pytest.raises(PostconditionError, match=r"at-most\(Abs, 0\): there are 2"):
        apply(two(), [Append(), Append()], instruments=[Requirements(limit, mode="final")], verify=False)


def test_sound_models_pass():
    everything = [
        "acyclic", "connected", "single-assignment", "no-dangling-values", "sorted", "no-functions",
        {"only": ["Relu", "Neg"]}, {"at-most": {"Relu": 1, "Neg": 1}, "at-least": {"Neg": 1}},
    ]  # fmt: skip
    assert apply(two(), [Rename(to="a"), Rename(to="b")], structure=everything).modified
    assert apply(two(), ["shape-inference", Rename(to="a")], structure=["static-shapes"]).modified


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"at-most": {"Conv": 3}}, "at-most(Conv, 3)"),
        ({"at-most": {"Conv": 3, "Relu": 1}}, "all-of(at-most(Conv, 3), at-most(Relu, 1))"),
        ({"at_most": ["Conv", 3]}, "at-most(Conv, 3)"),
        ({"only": ["Add", "other::*"]}, "only(Add, other::*)"),
        ({"allowed-operators": "Add"}, "only(Add)"),
        ({"any-of": ["acyclic", {"not": {"none-of": ["Add"]}}]}, "any-of(acyclic, not(none-of(Add)))"),
        ({"isomorphic": "a file.onnx"}, 'isomorphic("a file.onnx")'),
        ({"acyclic": None, "sorted": None}, "all-of(acyclic, sorted)"),
    ],
)
def test_data_of_a_configuration_mean_what_text_means(data, text):
    assert str(parse_property(data)) == text
    assert parse_property(text) == parse_property(data)


def _recursive() -> list[object]:
    data: dict[str, object] = {}
    data["not"] = data
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("acyclick", "did you mean 'acyclic'"),
        ({"at-mots": {"Conv": 3}}, "did you mean 'at-most'"),
        ("allowed-operator(Add)", "did you mean 'allowed-operators'"),
        ({"at-most": {"Conv": "many"}}, "does not fit"),
        ({"at-most": {"Conf": 1}}, "no operator 'Conf'"),
        ({"acyclic": 3}, "takes no arguments"),
        ({"only": None}, "does not fit"),
        ({"not": ["acyclic", "sorted"]}, "does not fit"),
        (3, "3 is no property"),
        ({}, "is no property"),
        (_recursive(), "levels of nesting"),
    ],
)
def test_mistakes_say_what_is_meant(data, message):
    with pytest.raises(UsageError, match=message):
        Requirements([data])


def test_the_pass_takes_the_same_words():
    apply(two(), 'check-structure{properties=["allowed-operators(Relu, Neg)", connected]}')
    with pytest.raises(StructureError, match="Neg 'q'"):
        apply(two(), 'check-structure{properties=["forbidden-operators(Neg)"]}')
    with pytest.raises(UsageError, match="did you mean"):
        apply(two(), "check-structure{properties=[conected]}")
