"""Bases of passes: what authors declare, and what every pass can do alone."""

from typing import ClassVar

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.base import ALL, Analysis, AnalysisResult, Annotation, Context, Pass, PassResult, Transformation
from onnx_passes.core.compose import ComposePass
from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.options import fields_of, option
from onnx_passes.core.records import RuleRecord


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]> g (float[1] x) => (float[1] y) { y = Relu(x) }')


class Rename(Transformation):
    """Rename the graph."""

    to: str = option("renamed")

    def call(self, model):
        model.graph.name = self.to
        return PassResult(model, modified=True)


class CountNodes(Analysis):
    """Count."""

    def analyze(self, model):
        return len(model.graph)


@pytest.mark.parametrize(
    ("base", "kind", "preserves"),
    [
        (Pass, "transformation", ()),
        (Transformation, "transformation", ()),
        (Annotation, "annotation", ALL),
        (Analysis, "analysis", ALL),
    ],
)
def test_kinds_say_what_they_preserve(base, kind, preserves):
    assert (base.kind, base.preserves) == (kind, preserves)
    assert issubclass(base, ir.passes.PassBase)


@pytest.mark.parametrize(
    "name", ["Pass", "Analysis", "Annotation", "Transformation", "PassResult", "ComposePass", "option", "Size"]
)
def test_authors_import_the_bases_from_the_package(name):
    assert getattr(onnx_passes, name).__name__ == name or name == "Size"
    assert name in dir(onnx_passes)


def test_the_package_has_no_other_attributes():
    with pytest.raises(AttributeError, match="module 'onnx_passes' has no attribute 'Pas'"):
        onnx_passes.Pas  # noqa: B018


def test_a_pass_may_be_called_alone(model):
    result = Rename(to="alone")(model)
    assert result.model is model
    assert result.modified
    assert model.graph.name == "alone"


def test_a_pass_takes_the_result_of_another(model):
    result = CountNodes()(Rename()(model))
    assert (result.value, result.model.graph.name) == (1, "renamed")


def test_an_analysis_returns_the_model_untouched_and_what_it_found(model):
    result = CountNodes()(model)
    assert isinstance(result, AnalysisResult)
    assert (result.model, result.modified, result.value) == (model, False, 1)
    assert not CountNodes().changes_input
    assert Rename().changes_input
    assert Rename().in_place
    assert CountNodes().in_place


def test_an_analysis_without_analyze_says_so(model):
    class Blind(Analysis):
        """Nothing."""

    with pytest.raises(NotImplementedError, match="analysis 'blind' has no analyze method"):
        Blind()(model)


def test_a_transformation_needs_a_call_method():
    class Empty(Transformation):
        """Nothing."""

    with pytest.raises(TypeError, match="call"):
        Empty()


def test_passes_are_told_apart_by_identity_and_can_be_keys():
    first, second = Rename(), Rename()
    assert first != second
    assert len({first, second}) == 2


def test_positional_options_are_refused():
    with pytest.raises(TypeError):
        Rename("to")


@pytest.mark.parametrize("name", ["needs", "followed_by", "preserves", "passes"])
def test_a_text_where_a_tuple_is_due_is_refused(name):
    with pytest.raises(RegistrationError) as raised:
        type("Careless", (ComposePass,), {name: "cleanup"})
    assert str(raised.value) == (
        f"'{name}' of pass 'Careless' is a text, not a tuple of names; write '{name} = (\"cleanup\",)'"
    )


@pytest.mark.parametrize("name", ["kind", "needs", "followed_by", "preserves", "claims"])
def test_a_declaration_with_an_annotation_is_refused(name):
    with pytest.raises(RegistrationError, match=f"'{name}' of pass 'Careless' is a declaration, not an option"):
        type("Careless", (Transformation,), {"__annotations__": {name: tuple}, name: ()})


def test_a_declaration_may_be_annotated_as_class_variable():
    class Careful(Transformation):
        needs: ClassVar[tuple[str, ...]] = ("cleanup",)
        followed_by: "ClassVar[tuple[str, ...]]" = ("cleanup",)

        def call(self, model):
            return PassResult(model, modified=False)

    assert fields_of(Careful) == {}
    assert Careful().needs == ("cleanup",)


@pytest.mark.parametrize("name", ["name", "in_place", "changes_input", "call", "run", "text_name"])
def test_an_option_may_not_hide_what_every_pass_has(name):
    with pytest.raises(RegistrationError, match=f"option '{name}' of pass 'Careless' hides"):
        type("Careless", (Transformation,), {"__annotations__": {name: str}, name: "x"})


def test_documentation_stays_what_the_author_wrote():
    assert Rename.__doc__ == "Rename the graph."
    assert type("Bare", (Rename,), {}).__doc__ is None


def test_a_pass_outside_of_a_manager_has_a_context_of_its_own():
    context = Context()
    context.note("a remark")
    context.report_rules([RuleRecord("r", "here")])
    assert (context.record.notes, context.record.rules[0].name) == (["a remark"], "r")
    assert context.before_rewrite(None) is None
    assert Context().record is not context.record


class TestInsideOnnxIr:
    """Our passes are passes of onnx_ir."""

    def test_sequential(self, model):
        result = ir.passes.Sequential(Rename(to="one"), CountNodes())(model)
        assert result.modified
        assert result.model is model
        assert model.graph.name == "one"

    def test_pass_manager_stops_when_nothing_changes(self, model):
        calls = []

        class Once(Transformation):
            def call(self, model):
                calls.append(1)
                return PassResult(model, modified=len(calls) < 3)

        manager = ir.passes.PassManager([Once(), CountNodes()], steps=10)
        assert manager(model).modified
        assert len(calls) == 3

    def test_errors_name_the_pass_as_pipeline_text(self, model):
        class Fails(Transformation):
            level: int = option(0)

            def call(self, model):
                raise ValueError("boom")

        with pytest.raises(ir.passes.PassError, match=r"'fails\{level=2\}'.*\['rename'\]"):
            ir.passes.Sequential(Rename(), Fails(level=2))(model)

    def test_conditions_are_checked(self, model):
        class Demanding(Transformation):
            def requires(self, model):
                raise ValueError("not yet")

            def call(self, model):
                return PassResult(model, modified=False)

        with pytest.raises(ir.passes.PreconditionError, match="Demanding"):
            Demanding()(model)

    def test_functionalized(self, model):
        result = ir.passes.functionalize(Rename())(model)
        assert (model.graph.name, result.model.graph.name) == ("g", "renamed")
