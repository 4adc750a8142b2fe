"""Verification of models that do not fit in memory: every rewrite where it stands, on values that were drawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.core.evidence import Evidence, Finding
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.fragment.fragment import Fragment, operands
from onnx_passes.graph.hashing.fingerprint import Fingerprinter
from onnx_passes.verify.comparison.evidence import Promise
from onnx_passes.verify.failure import Failure, failed_step
from onnx_passes.verify.local.windows import LocalChecks, evidence_of_checks
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.coverage import run_generated
from onnx_passes.verify.samples.generate import Sampler, Sampling

BIG = 4 * 2**20
"""Nodes that read a weight of more bytes than this are not run."""


def weight_bytes(model: ir.Model) -> int:
    """Return how many bytes the weights of a model take, each counted once."""
    tensors = [value.const_value for graph in model.graphs() for value in graph.initializers.values()]
    return sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in tensors}.values() if tensor is not None)


def fill_drawn(known: Activations, model: ir.Model, seed: int) -> None:
    """Fill in values of a model with what it computes where the results of nodes with big weights are drawn.

    Raises ExecutionError if that is impossible.
    """
    light = without_big_weights(model)
    try:
        draft = Sampler(light, Sampling(seed)).draft(thorough=False)
    except UsageError as error:
        raise ExecutionError(f"no values can be drawn: {error}") from error
    ready = known.executor.prepare(light, engine="onnxruntime")
    taken, _ = run_generated(ready, draft, searches=False)
    values = {str(value.name): value for node in model.graph for value in node.outputs if value.name}
    known.fill(light, taken, kept_for=values)
    for name in known.samples[0].keys() & values.keys():
        known.put(values[name], tuple(sample[name] for sample in known.samples))


def without_big_weights(model: ir.Model) -> ir.Model:
    """Cut out of a model what reads no big weights; what the other nodes compute are inputs.

    What is computed from big weights alone is left out with them. Raises ExecutionError where no shape is known.
    """
    graph = model.graph
    constant = {value for value in graph.initializers.values() if not value.is_graph_input()}
    big = {value for value in constant if value.const_value is not None and value.const_value.nbytes > BIG}
    light: list[ir.Node] = []
    drawn: list[ir.Value] = []
    for node in graph:
        given = [value for value in node.inputs if value is not None]
        if constant.issuperset(given):
            constant.update(node.outputs)
        if big.isdisjoint(given):
            light.append(node)
        elif constant.issuperset(given):
            big.update(node.outputs)
        else:
            drawn += [value for value in node.outputs if value.uses() or value.is_graph_output()]
    for value in drawn:
        if value.dtype is None or value.shape is None:
            raise ExecutionError(
                f"the shape of '{value.name}' is not known", hint="run shape-inference before the other passes"
            )
    read = {value for node in light for value in operands(node)}
    # ONNX Runtime wants some outputs, and none that is an input.
    ends = [v for node in light for v in node.outputs if v.name and v.type is not None and v not in read]
    if not ends:
        raise ExecutionError("nothing is left to run without the nodes that read big weights")
    return Fragment(tuple(light), tuple(ends), (*graph.inputs, *drawn)).model(model)


BY_FRAGMENTS = "rewrites run one by one on values that are drawn, not the model"
LEVEL = str(Finding("bits", "tested"))


def beyond_memory(model: ir.Model, executor: Executor) -> str:
    """Return a message if the weights of a model exceed the memory limit, else an empty text."""
    size, limit = weight_bytes(model), executor.resources.memory
    if size <= limit:
        return ""
    return (
        f"the weights take {size / 2**30:.3g} GiB, more than the {limit / 2**30:.3g} GiB of --memory-limit:"
        f" {BY_FRAGMENTS}"
    )


class Piecewise:
    """Checks what each pass rewrites by itself; the model never runs.

    A pass that changes nothing of what the outputs are computed by needs no check. One of whose rewrites some cannot
    run by themselves is not verified. The first that changes the model says the ``reason`` why it is not run.
    """

    def __init__(
        self,
        model: ir.Model,
        executor: Executor,
        memory: int,
        seed: int,
        promise_of: Callable[[Pass], Promise],
        reason: str = "",
    ) -> None:
        self._executor, self._memory, self._seed, self._promise_of = executor, memory, seed, promise_of
        self._reason = reason
        self._identity = Fingerprinter.within_run()
        self._state = self._digest(model)
        self._obstacle = ""
        self._checks = LocalChecks(self._draw)

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Prepare for the rewrites of a pass."""
        self._checks.begin(model)

    def before_rewrite(self, application: Application, *, keeps_bits: bool) -> None:
        """Add a rewrite; one that is proved is added, too, since no run of the model will show it again."""
        self._checks.add(application)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Give evidence to a step. Raises PostconditionError if a rewrite is not as promised."""
        if record.has_children:
            return
        record.evidence = self._evidence(record, step, model)
        if record.modified and self._reason:
            record.notes.append(self._reason)
            self._reason = ""

    def after_pipeline(self, model: ir.Model) -> None:
        """Leave it at that: every pass was checked by itself."""

    def _evidence(self, record: StepRecord, step: Step, model: ir.Model) -> Evidence:
        if not record.modified:
            return Evidence("unchanged")
        before, self._state = self._state, self._digest(model)
        if before == self._state:
            return Evidence("unchanged", reason="the outputs are computed by the same")
        found = self._check(record, step)
        if found.level == "unverified":
            # Values may have changed since they were drawn or computed.
            self._checks.known = None
        return found

    def _check(self, record: StepRecord, step: Step) -> Evidence:
        checks, started = self._checks, time.perf_counter()
        missed = checks.missed(record.applications)
        if not checks.windows:
            if record.all_evidence.is_proved:
                # Constants that were stored are computed again and compared, without the model.
                return Evidence(LEVEL, reason="each rewrite is proved")
            return self._unchecked(missed)
        try:
            found = checks.run()
        except (ExecutionError, ModelError) as error:
            return Evidence("unverified", reason=f"rewrites do not run by themselves: {error}")
        wrong = checks.first_wrong(found, lambda owner: self._promise_of(owner or step.pass_))
        if wrong is not None:
            number, promise, difference = wrong
            failure = Failure(
                record.number, step.text, str(promise.claim), difference, application=f"number {number}", number=number
            )
            failed = failed_step(record, step, failure, f"{difference.split(':')[0].split('[')[0]} not as expected")
            raise failed from failed.__cause__
        if missed:
            return self._unchecked(missed)
        made = evidence_of_checks(found, self._promise_of(step.pass_), started)
        return replace(made, level=str(Finding(made.finding.preserved, "tested")) if made.finding else made.level)

    def _unchecked(self, missed: int) -> Evidence:
        rewrites = {0: "what it changed", 1: "1 rewrite"}.get(missed, f"{missed} rewrites")
        why = f" ({self._obstacle})" if self._obstacle else ""
        return Evidence("unverified", reason=f"{rewrites} cannot run without the model{why}")

    def _draw(self, model: ir.Model) -> Activations | None:
        drawn, self._obstacle = Activations(self._executor, self._memory), ""
        try:
            fill_drawn(drawn, model, self._seed)
        except (ExecutionError, ModelError) as error:
            self._obstacle = str(error)
            return None
        return drawn

    def _digest(self, model: ir.Model) -> bytes:
        try:
            return self._identity.live(model)
        except ModelError:
            return b""
