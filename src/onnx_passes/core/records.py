"""Structured records of a run: the changes, cost and evidence of every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from onnx_passes.core.coverage import Coverage
from onnx_passes.core.display import Displayed
from onnx_passes.core.evidence import (
    UNVERIFIED,
    Evidence,
    RewriteProof,
    StepEvidence,
    findings_in,
    grouped,
    level_of,
)
from onnx_passes.core.plain import finite
from onnx_passes.core.text import shortened

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.core.base import Pass
    from onnx_passes.core.plan import Plan


_LONGEST = 80
"""Length to which the pipeline text of a run or a step is shortened."""


class Status(StrEnum):
    """Outcome of a step."""

    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass
class RuleRecord:
    """Numbers of tries, matches, refusals (by reason) and applications of a rule, and its seconds of processor time.

    ``owner`` is the pass of the rule if it is not that of the step.
    """

    name: str
    source: str
    tried: int = 0
    matched: int = 0
    applied: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter[str])
    owner: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "rule": self.name,
            **({"pass": self.owner} if self.owner else {}),
            "source": self.source,
            "tried": self.tried,
            "matched": self.matched,
            "applied": self.applied,
            "seconds": round(self.seconds, 6),
            "refused": dict(self.refused),
        }


@dataclass
class ModelSize:
    """Nodes by operator (subgraphs included), parameters and their bytes, and the opset."""

    operators: Counter[str] = field(default_factory=Counter[str])
    parameters: int = 0
    bytes: int = 0
    opset: int | None = None

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return self.operators.total()


@dataclass(repr=False)
class StepRecord(Displayed):
    """One executed or skipped step of the plan; ``stopped`` if an instrument vetoed one of its rewrites.

    ``evidence`` comes from running the model, ``proofs`` are those of its rewrites, found in ``proving`` seconds.
    """

    number: int
    name: str
    text: str
    why: str
    depth: int = 0
    status: Status = Status.RUNNING
    reason: str = ""
    modified: bool = False
    cpu: float = 0.0
    wall: float = 0.0
    nodes_before: int = 0
    nodes_after: int = 0
    applications: int = 0
    rules: list[RuleRecord] = field(default_factory=list[RuleRecord])
    notes: list[str] = field(default_factory=list[str])
    result: Any = None
    evidence: Evidence | None = None
    proofs: list[RewriteProof] = field(default_factory=list[RewriteProof])
    proving: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    has_children: bool = False
    stopped: bool = False

    def __repr__(self) -> str:
        outcome = [f"{self.status}{f' ({self.reason})' if self.reason else ''}", _change(self)]
        if self.evidence is not None:
            outcome.append(self.level)
        return f"<StepRecord {self.number} {shortened(self.text, _LONGEST)}: {', '.join(outcome)}>"

    @property
    def all_evidence(self) -> StepEvidence:
        """Return the evidence from running the step together with the proofs of its rewrites."""
        return StepEvidence(self.evidence, self.proofs, self.applications, self.modified)

    @property
    def level(self) -> str:
        """Return the semantics that the step preserves, and the kind of evidence for it, as text."""
        return level_of([self.all_evidence])

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a report; the result of an analysis is included if it is plain data."""
        data: dict[str, Any] = {
            "number": self.number,
            "pass": self.name,
            "text": self.text,
            "why": self.why,
            "depth": self.depth,
            "status": str(self.status),
            "modified": self.modified,
            "cpu_seconds": round(self.cpu, 6),
            "wall_seconds": round(self.wall, 6),
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "applications": self.applications,
            "rules": [rule.to_json() for rule in self.rules],
        }
        if self.reason:
            data["reason"] = self.reason
        if self.notes:
            data["notes"] = list(self.notes)
        if self.evidence is not None:
            data["level"] = self.level
            data["evidence"] = self.evidence.to_json()
        if self.proofs:
            data["proofs"] = grouped(self.proofs)
            data["proving_seconds"] = round(self.proving, 6)
        if self.metrics:
            data["metrics"] = finite(self.metrics)
        if self.result is not None:
            to_json = getattr(self.result, "to_json", None)
            data["result"] = to_json() if callable(to_json) else self.result
        return data


@dataclass(frozen=True)
class NodeUpdate:
    """Change of a node in place: fields of its operator, and attributes, of which None removes one."""

    fields: Mapping[str, str]
    attributes: Mapping[str, ir.Attr | None]


@dataclass(slots=True, eq=False, repr=False)
class Application:
    """One application of a rewrite rule, numbered over the whole run.

    ``matched`` are the nodes that the pattern bound, ``added`` those that the rewrite built, ``replaced`` the pairs of
    old and new values, ``owner`` the pass of the rule if it is not that of the step. ``many`` marks one of many
    applications that change most of the model, for which cached values are of no use. ``settled`` means that old and
    new values are known to be equal: they share their bits, or ONNX Runtime computed them. ``update`` is the change of
    ``root`` in place, ``versions`` means that operators are read in another opset. In ``before_rewrite`` the graph is
    the old one, in ``after_rewrite`` the new one.
    """

    number: int
    step: StepRecord
    rule: str
    source: str
    graph: ir.Graph | ir.Function
    root: ir.Node | None
    matched: tuple[ir.Node, ...]
    added: tuple[ir.Node, ...]
    replaced: tuple[tuple[ir.Value, ir.Value], ...]
    initializers: tuple[ir.Value, ...]
    owner: Pass | None = None
    many: bool = False
    settled: bool = False
    update: NodeUpdate | None = None
    versions: bool = False

    def __repr__(self) -> str:
        return f"<Application {self.number} of {self.rule}: {len(self.matched)} → {len(self.added)} nodes>"


@dataclass(frozen=True)
class InferenceTime:
    """Seconds of an inference in ONNX Runtime with default options, before and after a run; or the reason for none."""

    before: float | None = None
    after: float | None = None
    runs: int = 0
    sample: str = ""
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Return the time of an inference after the run divided by the time before."""
        return self.after / self.before if self.after is not None and self.before else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without unknown fields."""
        data = {
            "before_seconds": self.before,
            "after_seconds": self.after,
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "runs": self.runs,
            "sample": self.sample,
            "why": self.why,
        }
        return {key: value for key, value in data.items() if value not in (None, "", 0)}


@dataclass(repr=False)
class RunRecord(Displayed):
    """The whole run: sizes before and after, every step in order, and the ``coverage`` of its samples."""

    pipeline: str
    before: ModelSize
    after: ModelSize = field(default_factory=ModelSize)
    steps: list[StepRecord] = field(default_factory=list[StepRecord])
    applications: int = 0
    cpu: float = 0.0
    wall: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    metrics_note: str = ""
    inference: InferenceTime | None = None
    coverage: Coverage | None = None
    level: str = ""
    plan: Plan | None = None

    def __repr__(self) -> str:
        text = f"<RunRecord {shortened(self.pipeline, _LONGEST)}: {self.before.nodes} → {self.after.nodes} nodes, "
        numbers = [_count(len(self.steps), "step"), _count(self.applications, "rewrite")]
        parts = [*numbers, self.level, f"{self.cpu:.1f} s CPU"]
        return f"{text}{', '.join(filter(None, parts))}>"

    @property
    def modified(self) -> bool:
        """Return whether any step changed the model."""
        return any(step.modified for step in self.steps)

    @property
    def obstacle(self) -> str:
        """Return why the run could not be verified; empty if it was, or if verification is off."""
        if self.level != UNVERIFIED:
            return ""
        steps = [step for step in self.leaves() if step.all_evidence.status == UNVERIFIED]
        reasons = [step.evidence.reason for step in steps if step.evidence is not None and step.evidence.reason]
        return next(iter(reasons), "unknown reason")

    def leaves(self) -> Iterator[StepRecord]:
        """Iterate over the steps that are not sequences of other steps."""
        return (step for step in self.steps if not step.has_children)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a report."""
        measured = {
            "level": self.level,
            "findings": [vars(finding) for finding in findings_in(self.level)],
            "obstacle": self.obstacle,
            "metrics": finite(self.metrics),
            "metrics_note": self.metrics_note,
            "inference": None if self.inference is None else self.inference.to_json(),
            "coverage": None if self.coverage is None else self.coverage.to_json(),
        }
        return {
            "pipeline": self.pipeline,
            "modified": self.modified,
            "nodes": [self.before.nodes, self.after.nodes],
            "operators": [dict(self.before.operators), dict(self.after.operators)],
            "parameters": [self.before.parameters, self.after.parameters],
            "bytes": [self.before.bytes, self.after.bytes],
            "opset": [self.before.opset, self.after.opset],
            "cpu_seconds": round(self.cpu, 6),
            "wall_seconds": round(self.wall, 6),
            "applications": self.applications,
            "steps": [step.to_json() for step in self.steps],
            **{key: value for key, value in measured.items() if value},
        }


def _change(step: StepRecord) -> str:
    """Describe the changes of a step."""
    if not step.modified:
        return "no change"
    rewrites = f", {_count(step.applications, 'rewrite')}" if step.applications else ""
    return f"{step.nodes_before} → {step.nodes_after} nodes{rewrites}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
