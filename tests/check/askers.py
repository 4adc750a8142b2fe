"""All who judge what becomes of a model, asked about a pair: each returns a level, or whether there is a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import onnx_ir as ir

from onnx_passes.check.verdict import check, check_with_proofs
from onnx_passes.check.verification import Verification
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.claims import Claim, ClaimKind
from onnx_passes.core.errors import OnnxPassesError, UsageError
from onnx_passes.core.evidence import FAILED, UNVERIFIED
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, Why
from onnx_passes.debug.bisect import bisect
from onnx_passes.debug.reduce.interesting import fails_by_pipeline, usable_samples
from onnx_passes.graph.copy import copy_model
from onnx_passes.proofs.model_certificate import certify
from onnx_passes.rewrite.rule import Rule
from onnx_passes.testing.fuzz.build import ModelInput
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.judge import CaseJudge, Wrong
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.testing.fuzz.whole.judging import PipelineJudge
from onnx_passes.verify.comparison.evidence import DEFAULT
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor

HOLDS = "holds"
_NO_RULE = cast(Rule, None)
"""Judges do not look at the rule itself."""
Asker = Callable[[ir.Model, ir.Model, ClaimKind], str]


def becoming(new: ir.Model, claim: ClaimKind) -> Plan:
    """Plan one pass that puts a model in the place of any other one, with a claim."""

    class Become(Transformation):
        claims = (Claim(claim),)

        def call(self, model: ir.Model) -> PassResult:
            return PassResult(copy_model(new), modified=True)

    return Plan((Step(Become(), Why("requested")),), "become")


def by_run(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    try:
        return Manager([Verification()]).run(becoming(new, claim), copy_model(old)).record.level
    except PostconditionError:
        return FAILED


def by_paranoid_run(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    try:
        return Manager([Verification(mode="every")]).run(becoming(new, claim), copy_model(old)).record.level
    except PostconditionError:
        return FAILED


def by_verify(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    return check(Claim(claim), old, new).level


def by_certify(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    """Leave out what is proved beyond samples."""
    allow = () if claim == "equality" else ("reassoc", "contract")
    verdict = check_with_proofs(Claim(claim), old, new, certify(old, new, allow=allow))
    return verdict.evidence.level


def by_bisect(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    try:
        return FAILED if bisect(old, becoming(new, claim)).found else HOLDS
    except UsageError:
        return UNVERIFIED


def by_reduce(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    seen = fails_by_pipeline(becoming(new, claim), special=True).observe(old, usable_samples(old))
    return HOLDS if seen is None else FAILED


def by_fuzzed_rule(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    """Leave out the generator: data are drawn for a model, and the result of a rule is judged."""
    limits = None if claim == "equality" else DEFAULT
    judge = CaseJudge(FuzzTarget("become", _NO_RULE, lambda _: 1, limits), Executor(), lambda: None)
    try:
        runs = list(judge.runs_of(old, _case(old)))
        judge.require(old, new, runs)
    except OnnxPassesError:
        return UNVERIFIED
    except Wrong:
        return FAILED
    return HOLDS if runs else UNVERIFIED


def by_fuzzed_pipeline(old: ir.Model, new: ir.Model, claim: ClaimKind) -> str:
    judge = PipelineJudge(Executor())
    try:
        runs = list(judge.runs_of(old, _case(old)))
    except OnnxPassesError:
        return UNVERIFIED
    outcome = judge.verdict_on(old, runs, becoming(new, claim), blame=False).outcome if runs else "skipped"
    return {"fine": HOLDS, "finding": FAILED}.get(outcome, UNVERIFIED)


def _case(model: ir.Model) -> Case:
    inputs = [
        ModelInput(
            str(value.name), value.dtype, _sizes(value, 3), None, None, str(value.name) in model.graph.initializers
        )
        for value in model.graph.inputs
    ]
    other = {str(value.name): _sizes(value, 5) for value in model.graph.inputs if _sizes(value, 3) != _sizes(value, 5)}
    return Case(ir.to_proto(model).SerializeToString(), tuple(inputs), other_shapes=other)


def _sizes(value: ir.Value, unknown: int) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else unknown for size in value.shape)


FUZZERS: dict[str, Asker] = {"fuzz": by_fuzzed_rule, "fuzz --models": by_fuzzed_pipeline}
ASKERS: dict[str, Asker] = {
    "run": by_run,
    "run, every pass": by_paranoid_run,
    "verify": by_verify,
    "certify": by_certify,
    "bisect": by_bisect,
    "reduce": by_reduce,
}
