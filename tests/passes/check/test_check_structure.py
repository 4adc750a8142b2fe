"""The pass holds a model to properties, given as options."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.build import collect
from onnx_passes.core.errors import ExitCode, OptionError, PassFailedError, StructureError
from onnx_passes.core.pipeline import PipelineSyntaxError
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.check.check_structure import CheckStructure
from onnx_passes.verify.structure import vocabulary as structure
from tests.passes.tools import apply, model_of

CHAIN = "g (float[2] x) => (float[2] y) { [p] a = Relu (x) [q] b = Abs (a) [r] y = Relu (b) }"


def test_says_what_holds():
    pipeline = 'check-structure{properties=[acyclic, "at-most(Relu, 3)"]}'
    result = onnx_passes.apply(model_of(CHAIN), pipeline, paranoid=True)
    assert result["check-structure"] == {"holds": ["acyclic", "at-most(Relu, 3)"]}
    assert not result.modified


def test_names_every_violated_property_and_the_nodes():
    model = model_of(CHAIN)
    before = full_hash(model)
    with pytest.raises(StructureError) as caught:
        onnx_passes.apply(model, 'check-structure{properties=["none-of(Abs)", acyclic, "at-most(Relu, 1)"]}')
    assert str(caught.value) == (
        "pass 'check-structure': the model violates required properties: none-of(Abs): forbidden operators are "
        "used: Abs 'q'; at-most(Relu, 1): there are 2: Relu 'p', Relu 'r'"
    )
    assert full_hash(model) == before


def test_a_violation_is_a_failed_verification():
    with pytest.raises(PassFailedError) as caught:
        CheckStructure(properties=("only(Relu)",))(model_of(CHAIN))
    assert caught.value.exit_code == ExitCode.VERIFICATION


def test_a_single_property_needs_no_list():
    assert onnx_passes.apply(model_of(CHAIN), "check-structure{properties=sorted}")["check-structure"] == {
        "holds": ["sorted"]
    }


def test_without_properties_the_order_of_the_graph_is_checked():
    assert not apply(CheckStructure(), model_of(CHAIN))
    with pytest.raises(StructureError, match=r"sorted: used before it is computed: Abs 'q' reads 'a'"):
        CheckStructure().analyze(model_of("g (float[2] x) => (float[2] y) { [q] y = Abs (a) [p] a = Relu (x) }"))


def test_a_file_to_be_like(tmp_path: Path):
    path = tmp_path / "like.onnx"
    ir.save(model_of(CHAIN), path)
    check = CheckStructure(properties=(f'isomorphic("{path.as_posix()}")',))
    assert not apply(check, model_of(CHAIN))
    with pytest.raises(StructureError, match="not wired like"):
        check(model_of("g (float[2] x) => (float[2] y) { y = Abs (x) }"))


def test_its_text_is_read_back():
    check = CheckStructure(properties=("acyclic", "only(Relu, other::*)"))
    assert str(check) == 'check-structure{properties=[acyclic, "only(Relu, other::*)"]}'
    (again,) = collect([str(check)])
    assert again.properties == check.properties


def test_properties_may_be_given_as_objects():
    with pytest.raises(StructureError, match=r"none-of\(Abs\)"):
        CheckStructure(properties=(structure.acyclic & structure.none_of("Abs"),))(model_of(CHAIN))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("[acyclyc]", "did you mean 'acyclic'"),
        ('["at-most(Relu)"]', r"write at-most\(OPERATOR, NUMBER\)"),
        ('["at-most(Relu"]', r"expected ',' or '\)', found the end"),
        ("[]", "is given no property"),
        ('["not(isomorphic(before))"]', "a check has none"),
    ],
)
def test_mistakes_are_found_before_anything_runs_and_shown_in_the_pipeline(properties: str, message: str):
    with pytest.raises(PipelineSyntaxError, match=message) as caught:
        collect([f"check-structure{{properties={properties}}}"])
    assert f"check-structure{{properties={properties}}}" in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_mistake_in_python_is_an_option_error():
    with pytest.raises(OptionError, match="did you mean 'acyclic'"):
        CheckStructure(properties=("acyclyc",))
