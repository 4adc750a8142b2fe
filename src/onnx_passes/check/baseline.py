"""The baseline of a run: samples as its passes will restrict the inputs, and the original results on them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeGuard

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.core.plan import Plan
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.external import MappedTensor
from onnx_passes.graph.randomness import draws_in
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.declarations import ChangesInterface, Declared, RestrictsInputs, ShowsInside
from onnx_passes.verify.comparison.evidence import NONE, Limits, Promise, Rounding
from onnx_passes.verify.failure import VerificationError
from onnx_passes.verify.local.specials import SpecialKind, Specials
from onnx_passes.verify.local.unreached import Unreached
from onnx_passes.verify.run.execute import LARGE, Engine, ExecutionError, Executor, Key, Sample
from onnx_passes.verify.run.sessions import checksum
from onnx_passes.verify.samples.coverage import run_generated
from onnx_passes.verify.samples.generate import Draft, Sampler, Sampling, draw_special
from onnx_passes.verify.samples.reference import read_inputs
from onnx_passes.verify.ties.explain import Ties

REST = -1
"""In the place of a sample's number: what is wrong shows on no ordinary one."""
_NEAR = 0.5
"""Estimates of memory are rough: a model that may take more than this part of it might take all."""
_SMALL = 1024
"""Weights of no more bytes than this are copied by the engine in any case."""


@dataclass(frozen=True)
class ClaimViolation:
    """A violated claim: the sample, and the difference in full and in the words of users.

    ``application`` is the rewrite to blame if it is known, ``no_excuse`` the reason why the difference is not accepted,
    ``advice`` the options that would accept it.
    """

    difference: str
    what: str
    sample: int = 0
    application: int | None = None
    no_excuse: str = ""
    advice: str = ""


@dataclass
class Baseline:
    """Samples of inputs with the first and the latest results of the model.

    ``given`` are the samples as they were before passes made ``changes`` of the interface, since step ``shown``, which
    was the last that showed values inside the model. Where ``ties`` were found,
    ``anchor`` holds the results that showed them, and ``spent`` is the part of the tolerance used up until then.
    """

    samples: list[Sample]
    original: list[Sample]
    current: list[Sample]
    engine: Engine
    feeds: frozenset[str]
    key: Key | None
    declared: Declared
    unreached: Unreached | None = None
    specials: Specials | None = None
    ties: Ties | None = None
    spent: float = 0.0
    anchor: list[Sample] | None = None
    unit: float = 0.0
    """The last place of the type that the model computes in since a pass converted it."""
    expected: list[Sample] | None = None
    """Outputs that the user expects, in the form of the interface now; no pass may put others in their place."""
    notes: list[str] = field(default_factory=list[str])
    """What is to be said of the samples."""
    shown: int = 0
    changes: list[ChangesInterface] = field(default_factory=list[ChangesInterface])
    is_large: bool = False
    """Whether memory may be short for other models of this size, though it was not for the one measured against."""

    def __post_init__(self) -> None:
        self.given = self.samples
        self._inside: list[Sample] = []

    def run(self, executor: Executor, model: ir.Model) -> list[Sample]:
        """Run a model on all samples. Raises ExecutionError."""
        ready = executor.prepare(model, engine=self.engine, feeds=self.feeds)
        results = [ready.run(sample) for sample in self.samples]
        self.key = ready.key
        if self.specials is not None:
            self.specials.run(ready)
        return results

    def look_inside(self, change: ChangesInterface, model: ir.Model, executor: Executor) -> None:
        """Run the model before a pass for values inside it that its interface will show. Raises ExecutionError."""
        self._inside = []
        if isinstance(change, ShowsInside) and (values := change.values_inside(model)):
            ready = executor.prepare(model, also=values, engine=self.engine, feeds=self.feeds)
            self._inside = [ready.run(sample) for sample in self.samples]

    def follow(self, change: ChangesInterface, model: ir.Model, step: int) -> None:
        """Go on with the interface that a pass has given the model in a step."""
        inside, self._inside = self._inside or [{}] * len(self.samples), []

        def after(results: list[Sample]) -> list[Sample]:
            return [change.outputs_after({**known, **result}) for known, result in zip(inside, results, strict=True)]

        self.changes.append(change)
        samples = zip(inside, self.samples, strict=True)
        self.samples = [change.inputs_after({**known, **sample}) for known, sample in samples]
        self.original, self.current = after(self.original), after(self.current)
        self.expected = None if self.expected is None else after(self.expected)
        self.anchor = None if self.anchor is None else after(self.anchor)
        self.feeds = frozenset(name for sample in self.samples for name in sample)
        if self.unreached is not None:
            self.unreached.follow(self.samples)
        if isinstance(change, ShowsInside):
            # The original has no outputs that stand for these.
            self.given, self.changes, self.shown = self.samples, [], step
        self.specials = None
        self.declared = replace(Declared.by(model), excused=self.declared.excused)

    def follow_outputs(self, outputs: Sample) -> Sample:
        """Convert outputs of the original model, or bounds of them, by all changes of the interface."""
        return reduce(lambda known, change: change.outputs_after(known), self.changes, outputs)

    def reference(self, promise: Promise) -> list[Sample]:
        """Return the results to compare with: the previous ones for equality, else those of the original model.

        Where ties were found, a tolerance is counted from the results that showed them: the original with other levels.
        """
        if promise.is_equality:
            return self.current
        return self.original if self.anchor is None else self.anchor

    def left(self, promise: Promise) -> Promise:
        """Return the rest of a promise: the share used up before ties were found is not given again."""
        return promise.part(self.spent) if self.spent and not promise.is_equality else promise

    def violation(
        self,
        model: ir.Model,
        results: Sequence[Sample],
        promise: Promise,
        first: int = 0,
        rounding: Mapping[int, Rounding] | None = None,
    ) -> ClaimViolation | None:
        """Return the violation in results of the samples from ``first`` on, or in declarations; None without one.

        ``rounding`` is how far rounding may move results, by the number of the sample.
        """
        for number, found in enumerate(results, first):
            known = (rounding or {}).get(number, NONE)
            wrong = self.left(promise).broken(compare(self.reference(promise)[number], found), known)
            if wrong is not None:
                return ClaimViolation(promise.describe(wrong, known), f"{wrong.name} not as expected", number)
        problem = self.declared.broken_by(model, results[0] if results else {})
        if problem:
            return ClaimViolation(problem, problem, first)
        # A single ordinary sample says nothing of the rest.
        rest = self.violation_of_rest(model, promise) if first == REST or len(results) == len(self.samples) else ""
        return ClaimViolation(rest, "the model is not as expected", REST) if rest else None

    def violation_of_rest(self, model: ir.Model, promise: Promise) -> str:
        """Return the violation in untaken branches or for special values; an empty text if there is none."""
        problem = "" if self.unreached is None else self.unreached.complaint(model, promise)
        return problem or ("" if self.specials is None else self.specials.complaint(model, promise))

    def explain(self, results: list[Sample], ties: Ties, spent: float) -> None:
        """Count a tolerance from results that differ by ties, with the share of it that is left."""
        self.anchor, self.ties, self.spent = results, ties, spent

    def accept(self, results: list[Sample], *, as_original: bool) -> None:
        """Go on from results that are as promised."""
        self.current = results
        if as_original:
            self.original, self.anchor, self.ties, self.spent = results, None, None, 0.0
        if self.unreached is not None:
            self.unreached.accept(as_original=as_original)
        if self.specials is not None:
            self.specials.accept()

    def expect(self, outputs: list[Sample], limits: Limits) -> None:
        """Compare with outputs that the user expects from now on. Raises VerificationError if the model has others."""
        if len(outputs) != len(self.samples):
            raise UsageError(
                f"{len(outputs)} samples of outputs are expected for {len(self.samples)} samples of inputs",
                hint="give as many of one as of the other",
            )
        self.original = self.expected = outputs
        hint = "check that inputs and expected outputs belong to this model"
        self.require_expected(limits, "before any pass ran", hint)

    def require_expected(self, limits: Limits, when: str, hint: str) -> None:
        """Compare the current results with the outputs that the user expects. Raises VerificationError."""
        promise = Promise(Claim("tolerance"), limits).in_type(self.unit)
        for number, (expected, found) in enumerate(zip(self.expected or (), self.current, strict=False)):
            comparison = compare(expected, {name: found[name] for name in expected if name in found})
            if (wrong := promise.broken(comparison)) is not None:
                raise VerificationError(
                    f"{wrong.name} not as expected {when}: {promise.describe(wrong)}",
                    where=f"sample {number}",
                    hint=hint,
                )

    def advice(self, results: Sequence[Sample], promise: Promise) -> str:
        """Return the options that would accept numeric results beyond a tolerance; an empty text if there are none."""
        pairs = zip(self.reference(promise), results, strict=True)
        share = max((self.left(promise).share(compare(old, new)) for old, new in pairs), default=0.0)
        if promise.limits is None or not 1 < share < math.inf:
            return ""
        types = [array.dtype for array in results[0].values() if hasattr(array, "dtype")]
        limits = Limits.widest([promise.limits.of(dtype) for dtype in types])
        atol, rtol = (_round_up(share * limit) for limit in (limits.atol, limits.rtol))
        return f"--tolerance {atol:g},{rtol:g}, or data that the model is made for, with --inputs"

    def ran(self, executor: Executor, model: ir.Model) -> bool:
        """Return whether the model is, byte by byte, the one that ran last."""
        return _is_executed(self.key, executor, model, self.feeds)


class Start:
    """An original model, prepared to run; it never runs if no step changes it.

    Raises ExecutionError if it cannot be made ready.
    """

    def __init__(
        self,
        model: ir.Model,
        inputs: Sequence[Any],
        sampling: Sampling,
        executor: Executor,
        narrowing: Narrowing,
    ) -> None:
        if not inputs:
            sampling.require_known(model)
        self._narrowing, narrowed = narrowing, narrowing.model
        given = [narrowing.read(sample) for sample in read_inputs(narrowed, inputs)] if inputs else []
        self._draft = Draft(given) if inputs else _draft(narrowed, sampling, executor)
        special = _special(narrowed, sampling) if sampling.special or not inputs else []
        self._special: list[tuple[SpecialKind, Sample]] = [(kind, narrowing.drawn(sample)) for kind, sample in special]
        self._executor, self._sampling = executor, sampling
        self._feeds = frozenset(name for sample in self._draft.samples for name in narrowing.drawn(sample))
        self._ready = executor.prepare(model, feeds=self._feeds)
        self._declared = Declared.by(model)
        self._weights = [(t, checksum(t)) for v in model.graph.initializers.values() if _is_shared(t := v.const_value)]

    @property
    def may_not_fit(self) -> bool:
        """Return whether a run needs so much memory that it is tried before any pass runs."""
        return self._ready.share > _NEAR

    def is_unchanged(self, executor: Executor, model: ir.Model) -> bool:
        """Return whether a model is, byte by byte, the prepared one."""
        return _is_executed(self._ready.key, executor, model, self._feeds)

    def establish(self) -> Baseline:
        """Run the original model. Raises ExecutionError if that is impossible.

        Of generated samples, those that the model cannot take are left out, or cut where it takes none.
        """
        for tensor, before in self._weights:
            if checksum(tensor) != before:
                raise VerificationError(
                    f"the elements of weight '{tensor.name}' were changed in place",
                    hint="models share their tensors: a pass must put a new one in the place of the old",
                )
        if self._draft.sampler is None:
            samples, results = self._ready.run_each(self._draft.samples, all_must_run=True)
        else:
            self._draft = replace(self._draft, sampler=self._draft.sampler.renewed())
            samples, results = run_generated(self._ready, self._draft, self._narrowing.drawn)
        self._declared.excuse(results[0])
        engine = self._ready.engine
        baseline = Baseline(samples, results, results, engine, self._feeds, self._ready.key, self._declared)
        baseline.notes, baseline.is_large = self._notes(len(samples)), self._ready.share > LARGE
        if self._special and engine == "onnxruntime":
            specials = Specials(self._special, self._ready, self._executor, self._feeds)
            baseline.specials = specials if specials.samples else None
        return baseline

    def _notes(self, samples: int) -> list[str]:
        """Describe how samples differ from the usual ones."""
        found: list[str] = []
        if self._draft.sampler is not None and (relations := self._draft.sampler.relations):
            found.append(f"sizes of generated inputs meet {relations}")
        if (shortage := self._draft.pace.shortage) is not None:
            seconds, times = shortage
            more = math.ceil(times * self._sampling.effort)
            ran, all_of_them = "1 sample" if samples == 1 else f"{samples} samples", len(self._draft.samples)
            found.append(f"{ran} of {all_of_them}, since a run takes {seconds:.2g} s: --effort {more} for all")
        return found


def _round_up(number: float) -> float:
    """Return the next number of one digit."""
    if number == 0:
        return 0.0
    digit = 10.0 ** math.floor(math.log10(number))
    return math.ceil(number / digit) * digit


def _is_executed(key: Key | None, executor: Executor, model: ir.Model, feeds: frozenset[str]) -> bool:
    try:
        return key is not None and executor.key(model, feeds) == key
    except (ExecutionError, ModelError):
        return False


def _is_shared(tensor: ir.TensorProtocol | None) -> TypeGuard[ir.TensorProtocol]:
    """Return whether the engine may read a weight in place, without a copy."""
    if tensor is None or isinstance(tensor, MappedTensor):
        # Nobody can write to what is mapped here, and who writes to the file is noticed.
        return False
    # What is read-only, as most is while passes run, refuses to be written to.
    return tensor.dtype is not ir.DataType.STRING and tensor.nbytes > _SMALL and tensor.numpy().flags.writeable


def _special(model: ir.Model, sampling: Sampling) -> list[tuple[SpecialKind, Sample]]:
    """Generate special samples; not where a model returns something else each time, as its runs are not in step."""
    if draws_in(model):
        return []
    try:
        return draw_special(model, sampling)
    except UsageError:
        return []


def _draft(model: ir.Model, sampling: Sampling, executor: Executor) -> Draft:
    """Generate inputs; where nobody can, that is an obstacle and no error."""
    try:
        sampler = Sampler(model, sampling, executor)
        return replace(sampler.draft(thorough=True), pace=sampler.pace)
    except UsageError as error:
        raise ExecutionError(str(error)) from error


class Narrowing:
    """Inputs of a model as restricted by all passes of a plan.

    Data are read and drawn for ``model``, which has the restricted interface, and given to the model as it came in its
    own form. What cannot be applied to the model as it came is left to the pass itself.
    """

    def __init__(self, model: ir.Model, plan: Plan | None = None) -> None:
        self.model = model
        self._restrictions: list[RestrictsInputs] = []
        found = [] if plan is None else [step.pass_ for _, step in plan.walk()]
        wanted = [copy.copy(one) for one in found if isinstance(one, RestrictsInputs)]
        if wanted:
            self.model = copy_model(model)
            for restriction in wanted:
                self._apply(restriction)

    def _apply(self, restriction: RestrictsInputs) -> None:
        try:
            restriction.run(self.model, Context())
        except OnnxPassesError:
            return
        self._restrictions.append(restriction)

    def drawn(self, sample: Mapping[str, np.ndarray]) -> Sample:
        """Return data drawn for the restricted model in the form that the original model accepts."""
        return reduce(lambda data, one: one.inputs_before(data), reversed(self._restrictions), dict(sample))

    def read(self, sample: Mapping[str, np.ndarray]) -> Sample:
        """Return given data, converted to the restricted model and back. Raises UsageError if they do not fit."""
        return self.drawn(reduce(lambda data, one: one.inputs_after(data), self._restrictions, dict(sample)))
