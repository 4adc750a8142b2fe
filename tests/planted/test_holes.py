"""Holes that checks of this kind are known to have, each closed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import Annotation, PassResult, RewriteRulePass, Transformation, apply, load, passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.base import Pass
from onnx_passes.core.errors import ContractError
from onnx_passes.verify.failure import Failure, PostconditionError
from tests.cli.conftest import clean_registry, run  # noqa: F401
from tests.planted.faults_interface import (
    HOST,
    doubles_output,
    loses_output,
    renames_output,
    reorders_outputs,
    replace_output,
    swaps_inputs_of_sub,
)
from tests.planted.faults_wiring import Drifts, LooksTooClosely, SaysNothingOfIt
from tests.planted.planting import edit, node, text
from tests.planted.tricky_floats import CancelsNegations
from tests.planted.tricky_models import adds_dead_code, does_nothing, renames_interior_values


def failure_of(pipeline: list[type[Pass]] | type[Pass], host: str = HOST) -> Failure:
    with pytest.raises(PostconditionError) as caught:
        apply(ir.from_onnx_text(host), pipeline)
    return caught.value.failure


@edit
def makes_rows_alike(model):
    """Return one row where there were two that are equal, so that broadcasting hides the difference."""
    first = ir.node("Constant", [], {"value_ints": [0]})
    first.outputs[0].name = "first_row"
    model.graph.append(first)
    replace_output(model, 0, ir.node("Gather", [model.graph.outputs[0], first.outputs[0]]))


BROADCAST = text(
    "float[1,3] x",
    "float[] y",
    "a = Neg(x) b = Abs(a) c = Add(b, x) d = Concat<axis=0>(c, c) e = Relu(d) f = Neg(e) g = Abs(f) y = Neg(g)",
)


def test_wrong_shape_that_broadcasts_is_caught():
    assert failure_of(makes_rows_alike, BROADCAST).difference == (
        "y: shape differs, expected float32[2, 3], found float32[1, 3]"
    )


def test_wrong_type_with_equal_values_is_caught():
    assert "dtype differs, expected float32[2, 3], found float64[2, 3]" in failure_of(doubles_output).difference


def test_dropped_second_output_is_caught():
    assert failure_of(loses_output).difference == "z: missing"


def test_renamed_output_is_caught():
    assert failure_of(renames_output).difference == "z: missing"


def test_reordered_outputs_are_caught():
    assert "out of place" in failure_of(reorders_outputs).difference


EQUAL_OUTPUTS = text(
    "float[3] x",
    "float[3] y, float[3] z",
    "a = Neg(x) b = Abs(a) c = Add(b, x) d = Relu(c) e = Neg(d) f = Abs(e) y = Neg(f) z = Neg(f)",
)


@pytest.mark.parametrize("wrong", [loses_output, renames_output, reorders_outputs])
def test_interface_counts_even_if_all_outputs_are_equal(wrong):
    assert failure_of(wrong, EQUAL_OUTPUTS).difference


def test_pass_that_says_nothing_of_its_change_is_caught_and_blamed():
    assert failure_of(SaysNothingOfIt).text == "says-nothing-of-it"
    assert failure_of(LooksTooClosely).text == "looks-too-closely"


def test_pass_that_says_nothing_of_its_change_is_blamed_among_others():
    failure = failure_of([adds_dead_code, SaysNothingOfIt, renames_interior_values])
    assert (failure.step, failure.text) == (2, "says-nothing-of-it")


def test_pass_that_says_nothing_of_its_change_breaks_the_contract():
    with pytest.raises(ContractError, match="reported no change but changed the model"):
        apply(ir.from_onnx_text(HOST), SaysNothingOfIt, paranoid=True)


NANS = text(
    "float[24] x",
    "float[24] y, float[24] z",
    "a = Log(x) b = Sqrt(x) c = Add(a, b) d = Neg(c) e = Neg(d) y = Max(e, x) "
    "f = Div(x, zero) g = Sub(f, f) z = Mul(g, e)",
    initializers="float zero = {0.0}",
)


@pytest.mark.parametrize("right", [does_nothing, CancelsNegations, renames_interior_values])
def test_nan_raises_no_alarm(right):
    step = apply(ir.from_onnx_text(NANS), right).steps[0]
    assert step.modified
    assert step.evidence.level == "bits:sampled"


def test_nan_in_another_place_is_an_alarm():
    @passes.verify.tolerance(atol=1e9, rtol=1e9)
    class ComputesWithoutNan(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Sqrt(x)

        def check(self, op, x):
            return x.is_graph_input()

        def rewrite(self, op, x):
            return op.Sqrt(op.Abs(x))

    host = NANS.replace("a = Log(x)", "a = Abs(x)")
    assert "by NaN" in failure_of(ComputesWithoutNan, host).difference


def test_verification_is_on_in_python_without_a_word():
    assert failure_of(swaps_inputs_of_sub).text == "swaps-inputs-of-sub"
    with pytest.raises(PostconditionError):
        swaps_inputs_of_sub()(ir.from_onnx_text(HOST))


@pytest.mark.parametrize("config", [None, "", "passes: []\n"])
def test_verification_is_on_without_configuration(config, run, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    Path("model.onnxtxt").write_text(HOST)
    Path("wrong.py").write_text(
        "from onnx_passes import passes\nfrom tests.planted.faults_wiring import SaysNothingOfIt\n"
        "passes.register()(SaysNothingOfIt)\n"
    )
    given = []
    if config is not None:
        Path("cfg.yaml").write_text(config)
        given = ["-c", "cfg.yaml"]
    answer = run(*given, "--import", "wrong.py", "-o", "out.onnx", "model.onnxtxt", "says-nothing-of-it")
    assert answer.code == 1, answer.err
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize("times", [12, 200])
def test_drift_is_measured_against_the_original(times):
    """Each step is within the tolerance of the one before; together they are not."""
    steps = [Drifts() for _ in range(times)]
    failure = failure_of(steps)
    assert 4 <= failure.step <= 8
    assert apply(ir.from_onnx_text(HOST), steps[:3]).modified


def test_equality_is_measured_in_bits():
    @edit
    def adds_a_trifle(model):
        last = model.graph.outputs[0].producer()
        held = last.inputs[1]
        held.const_value = ir.Tensor(np.nextafter(held.const_value.numpy(), np.float32(9)), name=held.name)

    assert "ulp" in failure_of(adds_a_trifle).difference


def test_what_was_wrong_is_not_written(run, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    Path("model.onnxtxt").write_text(HOST)
    Path("wrong.py").write_text(
        "from onnx_passes import passes\nfrom tests.planted.faults_interface import swaps_inputs_of_sub\n"
        "passes.register()(swaps_inputs_of_sub)\n"
    )
    Path("out.onnx").write_bytes(b"as it was")
    assert run("--import", "wrong.py", "-o", "out.onnx", "model.onnxtxt", "swaps-inputs-of-sub").code == 1
    assert Path("out.onnx").read_bytes() == b"as it was"
    folder = next(path for path in Path().iterdir() if path.is_dir() and "repro" in path.name)
    assert node(load(folder / "before.onnx"), "Sub").inputs[1].name == "x"


def test_model_of_the_caller_stays_as_it_was():
    host = ir.from_onnx_text(HOST)
    before = ir.to_proto(host).SerializeToString()
    with pytest.raises(PostconditionError):
        apply(host, swaps_inputs_of_sub)
    assert ir.to_proto(host).SerializeToString() == before


@edit
def reorders_inputs(model):
    x, b = model.graph.inputs
    model.graph.inputs.clear()
    model.graph.inputs.extend([b, x])


@edit
def declares_a_wrong_shape_for_an_output(model):
    model.graph.outputs[0].shape = ir.Shape([3, 2])


@edit
def puts_nodes_out_of_order(model):
    nodes = list(model.graph)
    model.graph.remove(nodes)
    model.graph.extend(nodes[::-1])


class LiesAboutAShape(Annotation):
    """Declare a shape inside the model that no value there has; passes that follow would believe it."""

    def call(self, model: ir.Model) -> PassResult:
        node(model, "Mul").outputs[0].shape = ir.Shape([7, 7])
        return PassResult(model, modified=True)


@pytest.mark.parametrize("wrong", [reorders_inputs, declares_a_wrong_shape_for_an_output, puts_nodes_out_of_order])
def test_declarations_are_checked(wrong):
    failure_of(wrong)


def test_annotations_are_compared_with_what_is_computed_if_asked_for():
    with pytest.raises(PostconditionError, match="annotated with the shape"):
        apply(ir.from_onnx_text(HOST), LiesAboutAShape, verify=Verification(mode="every"))
