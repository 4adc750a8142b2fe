"""Proving a rule: all models of its family, or what stands in the way."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import Rule
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.testing.fuzz.targets import FuzzTarget, targets_of
from onnx_passes.testing.prove.family import FamilyEffort
from onnx_passes.testing.prove.prover import RuleClaim, prove
from tests.testing.prove.labels import labelled

FEW = FamilyEffort(models=60, most_models=200, most_instances=20)


def test_movement_is_proved_by_labels() -> None:
    [target] = targets_of("eliminate-transpose/TransposeOfTranspose")
    verdict = prove(target, labelled, effort=FEW)
    assert verdict.is_proved, verdict.missing
    assert verdict.method == "labelled run"
    assert len(verdict.proved) >= 16


def test_wrong_rule_is_refuted() -> None:
    rule = Rule(lambda op, x: op.Transpose(x), lambda op, x: op.Identity(x), name="forgets")
    verdict = prove(targets_of(rule)[0], labelled, effort=FEW)
    assert verdict.missing == "refuted: labels differ"
    assert verdict.failures


def target(pattern: object) -> FuzzTarget:
    rule = Rule(pattern, lambda op, x: op.Neg(op.Neg(x)), name="rule")  # pyright: ignore[reportArgumentType]
    return targets_of(rule)[0]


@pytest.mark.parametrize(("refused", "is_proved"), [("INT8", True), ("FLOAT", False)])
def test_types_without_proof_are_left_out_unless_they_are_essential(refused: str, is_proved: bool) -> None:
    def engine(before: ir.Model, after: ir.Model, promise: RuleClaim) -> Proof | Unproved:
        [x] = before.graph.inputs
        return Unproved("too hard") if x.dtype is ir.DataType[refused] else Proof("proved", "by hand")

    verdict = prove(target(lambda op, x: op.Abs(x)), engine, effort=FamilyEffort(models=100))
    assert verdict.is_proved is is_proved
    if is_proved:
        assert "int8" not in verdict.domain.types
        assert "int16" in verdict.domain.types
    else:
        assert verdict.missing == "too hard"


def test_flags_must_be_declared() -> None:
    def engine(before: ir.Model, after: ir.Model, promise: RuleClaim) -> Proof | Unproved:
        return Proof("proved", "by hand", flags=("nnan",))

    verdict = prove(target(lambda op, x: op.Abs(x)), engine, effort=FEW)
    assert verdict.missing == "needs nnan, which its pass does not declare"
