"""Proofs of rewrites are kept with their steps, and decide what is known of a run."""

import io
from collections.abc import Callable, Collection
from dataclasses import dataclass

import onnx
import onnx_ir as ir
import pytest
from rich.console import Console

from onnx_passes import PassResult, Transformation, apply, examples
from onnx_passes.check.proof_search import Method
from onnx_passes.check.verification import Verification
from onnx_passes.core.base import Pass
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.records import Application
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.report.proofs import show_proofs
from onnx_passes.verify.failure import VerificationError

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
agraph (float[3] x) => (float[3] y) {
    a = Neg(x)
    b = Neg(a)
    c = Relu(b)
    y = Relu(c)
}"""


def _model() -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(MODEL))


@dataclass
class By:
    """A method that is a function."""

    function: Callable[[Application, Pass], Proof | Unproved]

    def begin(self, model: ir.Model) -> None:
        pass

    def prove(self, application: Application, owner: Pass, wanted: Collection[str]) -> Proof | Unproved:
        return self.function(application, owner)

    def follow(self, application: Application, owner: Pass) -> None:
        pass


class Proved(Verification):
    """Verification with methods of proof that a test chose."""

    def __init__(self, *functions: Callable[[Application, Pass], Proof | Unproved], **options: object) -> None:
        super().__init__(**options)  # pyright: ignore[reportArgumentType]
        self.chosen = functions

    def _methods(self, model) -> list[Method]:
        return [By(function) for function in self.chosen]


def _knows_neg(application: Application, owner: Pass) -> Proof | Unproved:
    if "Neg" in application.rule or (application.root is not None and application.root.op_type == "Neg"):
        return Proof("proved", "certificate", ("for all floats",), is_of_rule=True)
    return Unproved("nothing is known of it")


def _knows_all(application: Application, owner: Pass) -> Proof:
    return Proof("proved-here", "finite domain", (f"owner {owner.name}",))


def test_a_step_is_known_by_its_weakest_rewrite() -> None:
    result = apply(_model(), "eliminate", verify=Proved(_knows_neg, _knows_all))
    steps = [step for step in result.record.leaves() if step.applications]
    assert sum(step.applications for step in steps) == sum(len(step.proofs) for step in steps) == 2
    assert {proof.level for step in steps for proof in step.proofs} == {"bits:proved", "bits:proved-here"}
    assert result.record.level == "bits:proved-here"
    assert result.record.to_json()["level"] == "bits:proved-here"


def test_what_is_not_proved_is_as_well_known_as_runs_show() -> None:
    result = apply(_model(), "eliminate", verify=Proved(_knows_neg))
    assert result.record.level == "bits:sampled"
    missing = [proof for step in result.steps for proof in step.proofs if not proof.level]
    assert [proof.reason for proof in missing] == ["nothing is known of it"]


def test_a_level_that_is_required_names_what_stands_in_the_way() -> None:
    apply(_model(), "eliminate", verify=Proved(_knows_neg, _knows_all, require="proved-here"))
    with pytest.raises(VerificationError, match=r"first 1, .ReluTwice.: not proved: nothing is known of it"):
        apply(_model(), "eliminate", verify=Proved(_knows_neg, require="proved-here"))


def test_a_method_that_fails_is_a_reason_and_no_more() -> None:
    def fails(application: Application, owner: Pass) -> Proof:
        raise IndexError("beyond")

    result = apply(_model(), "eliminate", verify=Proved(fails, _knows_neg))
    missing = {proof.reason for step in result.steps for proof in step.proofs if not proof.level}
    assert missing == {"the search for a proof failed: IndexError: beyond; nothing is known of it"}


def test_proofs_can_be_switched_off() -> None:
    result = apply(_model(), "eliminate", verify=Proved(_knows_all, prove=False))
    assert result.record.level == "bits:sampled"
    assert not any(step.proofs for step in result.steps)


def test_a_rewrite_that_was_vetoed_is_not_counted() -> None:
    class Veto(Instrument):
        def before_rewrite(self, application: Application) -> str | None:
            return "enough" if application.number > 1 else None

    result = apply(_model(), "eliminate", verify=Proved(_knows_all), instruments=[Veto()])
    assert sum(len(step.proofs) for step in result.steps if step.applications) == 1


def test_a_pass_that_announces_nothing_is_known_by_runs_alone() -> None:
    class DropFirst(Transformation):
        """Change the model without an editor."""

        def call(self, model: ir.Model) -> PassResult:
            model.graph[-1].replace_input_with(0, model.graph[1].outputs[0])
            model.graph.remove(model.graph[2])
            return PassResult(model, modified=True)

    result = apply(_model(), DropFirst(), verify=Proved(_knows_all))
    assert not any(step.proofs for step in result.steps if step.name == "drop-first")
    assert result.record.level == "bits:sampled"


def test_an_annotation_that_leaves_nodes_as_they_are_is_proved() -> None:
    result = apply(_model(), "shape-inference", verify=Proved())
    assert [step.level for step in result.record.leaves() if step.modified] == ["unchanged"]
    result = apply(_model(), "eliminate, shape-inference, unique-names", verify=Proved(_knows_all))
    inference = next(step for step in result.record.leaves() if step.name == "shape-inference" and step.modified)
    assert inference.level == "bits:proved-here"


def test_table_shows_the_least_known_first() -> None:
    result = apply(_model(), "eliminate", verify=Proved(_knows_neg))
    shown = io.StringIO()
    show_proofs(result.record, table=True, console=Console(file=shown, width=120))
    lines = shown.getvalue().splitlines()
    assert "not proved" in lines[1]
    assert "nothing is known of it" in lines[1]
    assert "certificate; for all floats" in lines[2]
    assert lines[-1] == "rewrites: 1 bits:proved, 1 not proved"


def test_a_check_between_steps_is_no_step_that_weakens_a_run() -> None:
    result = apply(_model(), "eliminate, verify", verify=Proved(_knows_all))
    assert result.steps[-1].evidence is not None
    assert result.steps[-1].evidence.level == "bits:sampled"
    assert result.record.level == "bits:proved-here"
    assert apply(_model(), "verify").record.level == "bits:sampled"


def test_a_proof_in_the_semantics_of_the_run_is_looked_for() -> None:
    def floats(application: Application, owner: Pass) -> Proof:
        return Proof("proved-here", "floats", semantics=("bits",))

    def exact(application: Application, owner: Pass) -> Proof:
        return Proof("proved-here", "exact", semantics=("levels", "reals"))

    def first_exact(application: Application, owner: Pass) -> Proof | Unproved:
        return exact(application, owner) if application.number == 1 else Unproved("only the first")

    assert apply(_model(), "eliminate", verify=Proved(first_exact, floats, exact)).record.level == (
        "bits:sampled, levels:proved-here"
    )
    # Floats that are kept after exact arithmetic prove nothing together.
    assert apply(_model(), "eliminate", verify=Proved(first_exact, floats)).record.level == "bits:sampled"
    assert apply(_model(), "eliminate", verify=Proved(floats, exact)).record.level == "bits:proved-here"


@pytest.mark.parametrize("name", ["digits-mlp", "digits-cnn"])
def test_float_semantics_after_exact_arithmetic_is_not_proved(name: str) -> None:
    exact = apply(examples.path(name), "streamline").record
    assert exact.level == "levels:proved-here"
    floats = apply(examples.path(name), "streamline{semantics=float}").record
    assert all(step.all_evidence.is_proved for step in exact.leaves() if step.modified and step.applications)
    assert floats.level == "tolerance:sampled"
