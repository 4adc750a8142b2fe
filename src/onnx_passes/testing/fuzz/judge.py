"""Judge one case: run the model, apply the rule, and check everything that must not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.check.baseline import REST
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import check as verdict_on
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import BudgetError, OnnxPassesError
from onnx_passes.graph import annotations
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.text import to_text
from onnx_passes.graph.wellformed import inspect
from onnx_passes.testing.fuzz.case import Arrays, Case
from onnx_passes.testing.fuzz.difference import Conditions, difference
from onnx_passes.testing.fuzz.feeds import ORDINARY, Feed, feeds_of
from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.testing.fuzz.undefined import reads_unwritten_memory
from onnx_passes.verify.comparison.evidence import Promise
from onnx_passes.verify.local.unreached import Unreached
from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor

Outcome = Literal["skipped", "no match", "fine", "finding"]


@dataclass
class CaseVerdict:
    """Verdict on a case; ``rule`` is the wrong one, if it was searched for."""

    outcome: Outcome
    kind: str = ""
    message: str = ""
    after: str = ""
    feed: str = ""
    rule: str = ""


class Wrong(Exception):  # noqa: N818 - no error of ours: a finding about a rule or a pass
    """Wrong result of a rule or a pipeline, and the data that show it."""

    def __init__(self, kind: Kind, message: str, feed: str = "") -> None:
        super().__init__(message)
        self.kind, self.message, self.feed = kind, message, feed


class CaseJudge:
    """Judges cases for one target; ``entering`` is called before the rule runs."""

    def __init__(self, target: FuzzTarget, executor: Executor, entering: Callable[[], None]) -> None:
        self.target = target
        self.entering = entering
        self._executor = executor

    def __call__(self, case: Case, *, match_only: bool = False) -> CaseVerdict:
        """Judge a case; with ``match_only`` only check whether the rule applies to a model that runs."""
        try:
            proto = onnx.ModelProto.FromString(case.model)
            check(proto)
            before = ir.from_proto(proto)
            matched = self._match(before) if match_only else "fine"
            if matched == "no match":
                return CaseVerdict("no match")
            runs = list(islice(self.runs_of(before, case), 1 if match_only else None))
        except (ExecutionError, OnnxPassesError, onnx.checker.ValidationError, ir.serde.SerdeError) as error:
            return CaseVerdict("skipped", message=str(error))
        if not runs:
            return CaseVerdict("skipped", message="no data fit")
        if match_only:
            return CaseVerdict(matched)
        model = copy_model(before)
        self.entering()
        try:
            if not self._apply(model):
                return CaseVerdict("no match")
            self.require(before, model, runs)
        except Wrong as wrong:
            return CaseVerdict("finding", str(wrong.kind), wrong.message, printed(model), wrong.feed)
        return CaseVerdict("fine")

    def _match(self, model: ir.Model) -> Outcome:
        """Apply the rule only; if it fails, that is a finding, which is examined later."""
        self.entering()
        try:
            return "fine" if self.target.apply(copy_model(model)) else "no match"
        except Exception:  # noqa: BLE001 - whatever it is
            return "finding"

    def runs_of(self, model: ir.Model, case: Case) -> Iterator[tuple[Feed, Arrays]]:
        """Yield the data of a case that the model takes, with its results."""
        ready = self._executor.prepare(model, also=list(interior(model)), engine="onnxruntime")
        for feed in feeds_of(case):
            try:
                values = ready.run(feed.arrays)
                compare_declared(model, values, feed.name)
            except (ExecutionError, Wrong):
                # Data that do not fit the model, or a model with wrong declarations, do not concern the rule.
                continue
            yield feed, values

    def _apply(self, model: ir.Model) -> int:
        try:
            applied = self.target.apply(model)
            if applied and self.target.apply(model):
                raise Wrong(Kind.HANG, "a second run rewrites nodes that the first one left")
        except BudgetError as error:
            raise Wrong(Kind.HANG, str(error)) from error
        except OnnxPassesError as error:
            raise Wrong(Kind.CRASH, str(error)) from error
        except Wrong:
            raise
        except Exception as error:
            raise Wrong(Kind.CRASH, f"{type(error).__name__}: {error}") from error
        return applied

    def require(self, before: ir.Model, after: ir.Model, runs: list[tuple[Feed, Arrays]]) -> None:
        """Raise Wrong with the most severe violation of the claim, or of an invariant of all rules."""
        try:
            check(ir.to_proto(after))
            ready = self._executor.prepare(after, also=list(interior(after)), engine="onnxruntime")
        except (OnnxPassesError, onnx.checker.ValidationError, ir.serde.SerdeError) as error:
            raise Wrong(Kind.INVALID, sentence(error)) from error
        compare_interfaces(before, after)
        feeds = [feed for feed, _ in runs]
        found: list[Wrong] = []
        for feed, expected in runs:
            try:
                self._compare(ready, feed, expected, before, after)
            except Wrong as wrong:
                found.append(wrong)
        if not found and (inside := violation_inside(before, after, self._promise, feeds, self._executor)):
            found.append(Wrong(Kind.WRONG, inside))
        if found:
            raise min(found, key=lambda wrong: wrong.kind.severity)

    @property
    def _promise(self) -> Promise:
        limits = self.target.limits
        return Promise(Claim("equality" if limits is None else "tolerance"), limits, self.target.fast_math)

    def _compare(self, ready: Executable, feed: Feed, expected: Arrays, before: ir.Model, after: ir.Model) -> None:
        try:
            values = ready.run(feed.arrays)
        except ExecutionError as error:
            raise Wrong(Kind.INVALID, f"no longer runs: {error}", feed.name) from error
        everything = (*feed.arrays.values(), *expected.values(), *values.values())
        conditions = Conditions.of(everything, is_exact=feed.is_exact)
        names = [str(value.name) for value in before.graph.outputs]
        old, new = ({name: arrays[name] for name in names} for arrays in (expected, values))
        different = difference(old, new, self.target, conditions)
        if different is not None:
            kind, _ = different
            if kind.severity < Kind.WRONG.severity or not reads_unwritten_memory(before, feed.arrays):
                raise Wrong(*different, feed.name)
        compare_declared(after, values, feed.name)


def check(proto: onnx.ModelProto) -> None:
    """Check a model with onnx, and inspect it."""
    inspect(proto, "model")
    onnx.checker.check_model(proto)  # pyright: ignore[reportUnknownMemberType]


def interior(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the values of the main graph that hold tensors and are used."""
    for node in model.graph:
        for value in node.outputs:
            if value.name and value.uses() and not value.is_graph_output():
                yield value


def compare_interfaces(before: ir.Model, after: ir.Model, *, may_annotate: bool = False) -> None:
    """Compare inputs and outputs, and their annotations, with those before; passes may add annotations."""
    for role in ("inputs", "outputs"):
        old: list[ir.Value] = list(getattr(before.graph, role))
        new: list[ir.Value] = list(getattr(after.graph, role))
        names = [[value.name for value in values] for values in (old, new)]
        if names[0] != names[1]:
            raise Wrong(Kind.INTERFACE, f"the {role} were {names[0]} and are {names[1]}")
        for a, b in zip(old, new, strict=True):
            if a.dtype != b.dtype:
                raise Wrong(Kind.DTYPE, f"'{a.name}' was declared as {a.dtype} and now as {b.dtype}")
            if not _compatible(a.shape, b.shape):
                raise Wrong(Kind.SHAPE, f"'{a.name}' was declared with shape {a.shape} and now with {b.shape}")
            about = [(v.doc_string, dict(v.metadata_props), annotations.get(v)) for v in (a, b)]
            if about[0] != about[1] and not may_annotate:
                raise Wrong(Kind.INTERFACE, f"annotations of '{a.name}' are lost: {about[0]} became {about[1]}")
    defaults = [{n for n in m.graph.initializers if m.graph.initializers[n].is_graph_input()} for m in (before, after)]
    if defaults[0] != defaults[1]:
        raise Wrong(Kind.INTERFACE, f"inputs with defaults were {defaults[0]} and are {defaults[1]}")


def _compatible(old: ir.Shape | None, new: ir.Shape | None) -> bool:
    if old is None or new is None:
        return True
    pairs = zip(old, new, strict=False)
    return len(old) == len(new) and all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def compare_declared(model: ir.Model, values: Arrays, feed: str) -> None:
    """Compare the declared types and shapes of a model with those of its computed values."""
    for value in (*model.graph.outputs, *interior(model)):
        array = values.get(str(value.name))
        if not isinstance(array, np.ndarray):
            continue
        shape = value.shape
        if value.dtype is not None and value.dtype is not ir.DataType.STRING and value.dtype.numpy() != array.dtype:
            raise Wrong(Kind.DTYPE, f"'{value.name}' is declared as {value.dtype} and holds {array.dtype}", feed)
        if shape is not None and not _compatible(shape, ir.Shape([int(size) for size in array.shape])):
            raise Wrong(Kind.SHAPE, f"'{value.name}' is declared with shape {shape} and has {list(array.shape)}", feed)


def violation_inside(
    before: ir.Model, after: ir.Model, promise: Promise, feeds: Iterable[Feed], executor: Executor
) -> str:
    """Return the violation of a claim in subgraphs that no sample reaches, as text; empty if there is none."""
    if not (Unreached.concerns(before) or Unreached.concerns(after)):
        return ""
    samples = [feed.arrays for feed in feeds if feed.name in ORDINARY]
    if not samples:
        return ""
    try:
        verdict = verdict_on(promise, before, after, Settings(inputs=samples, executor=executor))
    except OnnxPassesError:
        return ""
    violation = verdict.violation
    return violation.difference if violation is not None and violation.sample == REST else ""


def sentence(error: Exception) -> str:
    """Return the message of an error on one line."""
    return " ".join(str(error).split())[:400]


def printed(model: ir.Model) -> str:
    """Print a model as ONNX text, or the reason why that is impossible."""
    try:
        return text_of(ir.to_proto(model))
    except (ir.serde.SerdeError, OnnxPassesError, ValueError, TypeError) as error:
        return f"cannot be written: {sentence(error)}"


def text_of(model: onnx.ModelProto) -> str:
    """Print a model as ONNX text."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    constants = {tensor.name for tensor in copied.graph.initializer}
    infos = [info for info in copied.graph.value_info if info.name not in constants]
    del copied.graph.value_info[:]
    copied.graph.value_info.extend(infos)
    return to_text(copied)[0]


def feed_named(case: Case, name: str) -> Arrays:
    """Return the data of a feed."""
    return {key: array for feed in feeds_of(case) if feed.name == name for key, array in feed.arrays.items()}
