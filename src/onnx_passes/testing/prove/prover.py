"""Prove a rule: for each model of its family, the results before and after are the same for all inputs.

Why that is enough. The engine quantifies over the *values* of inputs: it computes with terms, not with numbers, so that
each proof holds for all of them. What is left are shapes, attributes, types and constants, over which the family
ranges:

* A rule that moves data does so by index maps that are affine in the sizes of each axis, piece by piece, and decides
  by comparing sizes with 0, with 1 and with each other. So two sizes above 1, one of 1 and one of 0, in all orders,
  show every way in which it can behave: what holds for them holds for others (small scope).
* A rule that computes element by element treats all elements alike, by parametricity in the index.
* A rule that sums treats the terms of all sums alike; two and three of them tell a sum from a product, from a mean and
  from its own terms.
* Types and ranks are those of the family, and no others: a certificate names them.
* Constants are drawn from those on which rules decide (0, 1, -1, a half, limits, infinities, NaN) and from general
  ones. A rule that decides by more than such comparisons has conditions of its own, which the family passes through.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.shapes import static_shape
from onnx_passes.proofs.certified import Extent, extent_of
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.excuses import ROUNDING
from onnx_passes.proofs.proof import Assumption, Proof, Unproved
from onnx_passes.proofs.real_numbers import assumed_of_reals, same_in_fields
from onnx_passes.proofs.rule_certificate import REALS, Domain
from onnx_passes.proofs.samples import paired_inputs
from onnx_passes.proofs.under_flags import FLAGS, prove_under_flags, prove_unfolded
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.testing.prove.family import FamilyEffort, Instance, family_of
from onnx_passes.verify.run.execute import ExecutionError, Executor


@dataclass(frozen=True)
class RuleClaim:
    """Claim of a rule: same bits or same real numbers, except for differences that fast-math flags allow."""

    exact: bool
    flags: frozenset[str] = frozenset()


def engine(before: ir.Model, after: ir.Model, promise: RuleClaim) -> Proof | Unproved:
    """Prove a claim about two models; only claims of equal bits use the solver."""
    try:
        return _bits(before, after, promise.flags) if promise.exact else _reals(before, after, promise.flags)
    except Exception as error:  # noqa: BLE001 - whatever an evaluation or the solver raises, it is no proof
        return Unproved(f"evaluation fails: {type(error).__name__}: {error}")


def _bits(before: ir.Model, after: ir.Model, flags: frozenset[str]) -> Proof | Unproved:
    found = prove_equal(before, after, allow=flags)
    if isinstance(found, Proof) and found.holds == "proved-here":
        return found
    is_refuted = isinstance(found, Unproved) and found.refuted
    unfolded = None if is_refuted else prove_unfolded(before, after)
    if unfolded is not None:
        return unfolded
    excused = flags & set(FLAGS)
    if excused and not (is_refuted and not found.flags):
        under = prove_under_flags(before, after, excused)
        if isinstance(under, Proof) or not is_refuted:
            return under
    return Unproved("equal over the reals, but its pass promises bits") if isinstance(found, Proof) else found


def _reals(before: ir.Model, after: ir.Model, flags: frozenset[str]) -> Proof | Unproved:
    """Prove equality over the reals, without signed zeros; rounding errors of floats are not bounded.

    An example for which floats differ all the same must have NaN or infinities in it, and a flag that excuses them.
    """
    allowed = flags | ROUNDING | {"nsz"}
    found = prove_equal(before, after, allow=allowed, solver=False)
    if isinstance(found, Proof):
        return found
    unfolded = None if found.refuted else prove_unfolded(before, after)
    if unfolded is not None:
        return unfolded
    inputs = paired_inputs(before, after)
    for fold in (False, True):
        same, assumed = same_in_fields(before, after, inputs, fold=fold)
        if same:
            special = _specials(before, after, found.example)
            if special and not special & flags:
                return Unproved(f"equal over the reals, but needs {' or '.join(sorted(special))}; {found.reason}", True)
            return Proof("equal-in-reals", "finite fields", assumptions=assumed_of_reals(assumed))
    if found.refuted and found.flags and set(found.flags) <= allowed:
        return Unproved(f"not decided: different only where {', '.join(found.flags)} allow it")
    return found


def _specials(before: ir.Model, after: ir.Model, example: Mapping[str, np.ndarray] | None) -> set[str]:
    """Return the fast-math flags for NaN and infinities that occur in the inputs or outputs of an example."""
    if not example:
        return set()
    arrays = list(example.values())
    with contextlib.suppress(ExecutionError, OnnxPassesError):
        for model in (before, after):
            arrays += Executor().prepare(model, engine="onnxruntime").run(dict(example)).values()
    floats = [array.astype(np.float64) for array in arrays if array.dtype.kind not in "biuO"]
    found = {"nnan"} if any(np.isnan(array).any() for array in floats) else set[str]()
    return found | ({"ninf"} if any(np.isinf(array).any() for array in floats) else set[str]())


def runs(model: ir.Model) -> bool:
    """Return whether ONNX Runtime executes a model on inputs of ones."""
    feed: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        shape, dtype = static_shape(value), value.dtype
        if shape is None or dtype is None:
            return False
        text = dtype is ir.DataType.STRING
        feed[str(value.name)] = np.full(shape, "a", dtype=object) if text else np.ones(shape, dtype.numpy())
    try:
        Executor().prepare(model, engine="onnxruntime").run(feed)
    except (ExecutionError, OnnxPassesError):
        return False
    return True


LEAST_INSTANCES = 8
"""Fewer models say too little of a rule."""


def domain_of(instances: Iterable[Instance]) -> Domain:
    """Return the types, ranks, sizes, constants and operator sets of a family."""
    extents = [extent_of_instance(instance) for instance in instances]
    recipes = {answer for instance in instances for question, answer in instance.answers if _is_recipe(question)}
    return Domain(
        types=tuple(sorted({name for extent in extents for name in extent.types})),
        ranks=tuple(sorted({rank for extent in extents for rank in extent.ranks})),
        sizes=tuple(sorted({size for instance in instances for size in _sizes(instance.before)})),
        constants=tuple(sorted(recipe.strip("'") for recipe in recipes)),
        opsets=tuple(sorted({extent.opset for extent in extents})),
    )


def why_thin(instances: list[Instance], domain: Domain) -> str:
    """Return the reason why a family covers too little; empty if it covers enough."""
    if not instances:
        return "no model was found that it rewrites"
    if len(instances) < LEAST_INSTANCES:
        return f"only {len(instances)} models were found that it rewrites, fewer than {LEAST_INSTANCES}"
    if domain.ranks and max(domain.ranks) > 0 and len(set(domain.sizes) - {0}) < 2:
        return "all models that were found have the same sizes"
    return ""


def extent_of_instance(instance: Instance) -> Extent:
    """Return types and ranks of all tensors of a model."""
    return extent_of(_values(instance.before), instance.before.graph.opset_imports.get("", 0))


def _values(model: ir.Model) -> list[ir.Value]:
    graph = model.graph
    computed = [value for node in graph for value in node.outputs]
    return [*graph.inputs, *graph.initializers.values(), *computed]


def _sizes(model: ir.Model) -> set[int]:
    shapes = [value.shape for value in _values(model) if value.shape is not None]
    return {size for shape in shapes for size in shape if isinstance(size, int)}


def _is_recipe(question: str) -> bool:
    return question.startswith("recipe:")


Engine = Callable[[ir.Model, ir.Model, RuleClaim], Proof | Unproved]
"""Proves that two models compute what is promised."""

_RELAXED = ROUNDING | {"nsz"}
"""What a tolerance allows without a flag."""
_TIMES = re.compile(r" after [\d.]+ s")
"""How long the solver took is no part of what is known."""
_MOST_FAILURES = 3
"""After so many models that were not proved no further ones are tried."""
_ESSENTIAL = frozenset({"float", "int64", "int32", "bool"})
"""A rule that takes one of these is not proved without it."""


@dataclass(frozen=True)
class UnprovedModel:
    """A model that was not proved, and why."""

    instance: Instance
    why: Unproved


@dataclass
class RuleVerdict:
    """Result of proving a rule; ``missing`` is empty if the rule is proved."""

    target: FuzzTarget
    proved: list[Instance] = field(default_factory=list[Instance])
    methods: Counter[str] = field(default_factory=Counter[str])
    flags: set[str] = field(default_factory=set[str])
    assumed: set[Assumption] = field(default_factory=set[Assumption])
    failures: list[UnprovedModel] = field(default_factory=list[UnprovedModel])
    domain: Domain = field(default_factory=Domain)
    missing: str = ""
    seconds: float = 0.0

    @property
    def is_proved(self) -> bool:
        """Return whether the rule is proved."""
        return not self.missing

    @property
    def method(self) -> str:
        """Name the methods, the most frequent one first."""
        names = [name for name, _ in sorted(self.methods.items(), key=lambda each: (-each[1], each[0]))]
        return ", ".join([REALS, *names] if self.over_reals else names)

    @property
    def over_reals(self) -> bool:
        """Return whether the rule claims equal real numbers because its pass claims a tolerance."""
        return self.target.limits is not None


def prove(
    target: FuzzTarget, engine: Engine, *, effort: FamilyEffort | None = None, budget: float = 30.0
) -> RuleVerdict:
    """Return the verdict on a rule: its proofs, or the reason why it is unproved; ``budget`` is in CPU seconds."""
    started = time.process_time()
    verdict = RuleVerdict(target)
    promise = RuleClaim(not verdict.over_reals, target.fast_math)
    for instance in family_of(target, effort):
        answer = engine(instance.before, instance.after, promise)
        if isinstance(answer, Proof):
            verdict.proved.append(instance)
            verdict.methods[answer.method] += 1
            verdict.flags |= set(answer.flags)
            verdict.assumed |= set(answer.assumptions)
        elif runs(instance.before):
            verdict.failures.append(UnprovedModel(instance, answer))
        if len(verdict.failures) >= _MOST_FAILURES and not _restricted(verdict):
            break
        if time.process_time() - started > budget:
            verdict.missing = f"time: more than {budget:g} s"
            break
    _conclude(verdict)
    verdict.seconds = time.process_time() - started
    return verdict


def _conclude(verdict: RuleVerdict) -> None:
    verdict.domain = domain_of(verdict.proved)
    undeclared = verdict.flags - verdict.target.fast_math - (_RELAXED if verdict.over_reals else frozenset())
    if undeclared:
        verdict.missing = f"needs {', '.join(sorted(undeclared))}, which its pass does not declare"
        return
    if verdict.failures:
        left = _restricted(verdict)
        if not left:
            verdict.missing = _reason(verdict)
            return
        verdict.proved = left
        verdict.domain = domain_of(left)
    verdict.missing = verdict.missing or why_thin(verdict.proved, verdict.domain)


def _restricted(verdict: RuleVerdict) -> list[Instance]:
    """Return the proved models if each failure has an unproved type; the domain then lacks these types."""
    if any(failure.why.refuted for failure in verdict.failures):
        return []
    good = {name for instance in verdict.proved for name in extent_of_instance(instance).types}
    out: set[str] = set()
    for failure in verdict.failures:
        bad = extent_of_instance(failure.instance).types - good
        if not bad or bad & _ESSENTIAL:
            return []
        out |= bad
    return verdict.proved


def _reason(verdict: RuleVerdict) -> str:
    refuted = next((failure for failure in verdict.failures if failure.why.refuted), None)
    if refuted is not None:
        return f"refuted: {refuted.why.reason}"
    reasons = Counter(_TIMES.sub("", failure.why.reason) for failure in verdict.failures)
    return reasons.most_common(1)[0][0]
