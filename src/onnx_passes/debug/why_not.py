"""Why a rule does not apply: the longest partial match at each candidate root, and the reason why it stops."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.core.base import Context, Pass, Refused
from onnx_passes.core.compose import PassLike
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import UsageError
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, plan
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.core.registry import REGISTRY
from onnx_passes.debug.attempts import Attempt, TrialGraph, refused_attempt
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.find_node import Place, find_node
from onnx_passes.graph.load import Source, load
from onnx_passes.rewrite.match import describe_node
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule

_NAMED = 8
"""Number of passes that an error names as examples."""


@dataclass
class RuleReport:
    """Matches of one rule, and its best attempts, the longest first."""

    rule: str
    source: str
    size: int
    roots: tuple[str, ...]
    candidates: int = 0
    applies: int = 0
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    reasons: Counter[str] = field(default_factory=Counter[str])

    def __str__(self) -> str:
        if not self.size:
            title = f"{self.rule} ({self.source})"
            return "\n".join([title, *self._lines()])
        nodes = "1 node" if self.size == 1 else f"{self.size} nodes"
        title = f"{self.rule} ({self.source}), a pattern of {nodes}"
        if not self.candidates:
            return f"{title}\n  no node of the model is {' or '.join(self.roots)}, the root of the pattern"
        return "\n".join([title, *self._lines()])

    def _lines(self) -> list[str]:
        candidates = "1 candidate" if self.candidates == 1 else f"{self.candidates} candidates"
        lines = [f"  {candidates}, applies to {self.applies}"]
        for attempt in self.attempts:
            lines.extend(f"  {line}" for line in attempt.lines())
        hidden = self.candidates - len(self.attempts)
        if hidden:
            often = "; ".join(f"{count} × {reason}" for reason, count in self.reasons.most_common(3))
            lines.append(f"  and {hidden} more; of all: {often}" if often else f"  and {hidden} more")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "rule": self.rule,
            "source": self.source,
            "pattern_nodes": self.size,
            "candidates": self.candidates,
            "applies": self.applies,
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "reasons": dict(self.reasons.most_common()),
        }


@dataclass
class WhyNot(Displayed):
    """Reports of all rules of a pass; ``before`` are the passes that it needs, which ran first."""

    rules: list[RuleReport]
    before: tuple[str, ...] = ()

    @property
    def applies(self) -> bool:
        """Return whether any rule applies at any candidate."""
        return any(report.applies for report in self.rules)

    def __str__(self) -> str:
        lines = [f"after {', '.join(self.before)}"] if self.before else []
        lines += map(str, (report for report in self.rules if report.candidates))
        others = [report for report in self.rules if not report.candidates]
        if len(others) == 1:
            lines.append(str(others[0]))
        elif others:
            lines.append(f"{len(others)} more rules have no candidate: no node of the model has their root operator")
        return "\n".join(lines if self.rules else [*lines, "it considered no rewrite there"])

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "applies": self.applies,
            "before": list(self.before),
            "rules": [report.to_json() for report in self.rules],
        }


def why_not(
    model: Source,
    rule: PassLike,
    *,
    at: Place | None = None,
    top: int = 5,
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> WhyNot:
    """Explain where the rules of a pass apply and, elsewhere, how far they match and why matching stops.

    ``at`` is a node, one of its outputs, or the name of either; without it every possible root is tried, and the
    ``top`` best attempts of every rule are kept. Passes that the pass needs are run first. The model is not changed.
    """
    planned = plan(rule, defaults=options, optional=options or ())
    steps = list(_asked_for(planned.steps))
    wanted = [step for step in steps if step.pass_.announces() and step.why.reason != "needed"]
    if not wanted:
        raise _no_rules(planned.pipeline)
    needed = [step for step in steps if step.why.reason == "needed"]
    copied = Manager().run(Plan(tuple(needed), planned.pipeline), copy_model(load(model))).model
    node = None if at is None else find_node(copied, at)
    reports: list[RuleReport] = []
    for step in wanted:
        if isinstance(step.pass_, RewriteRuleSetPass):
            reports.extend(_reports(copied, step.pass_, node, top))
        else:
            reports.extend(_reports_by_hand(copied, step.pass_, at, top))
    return WhyNot(reports, tuple(dict.fromkeys(step.text for step in needed)))


def _asked_for(steps: Iterable[Step]) -> Iterator[Step]:
    """List the requested passes, with members of groups as separate passes, and the passes that they need."""
    for step in steps:
        if step.why.reason == "needed" or (step.why.reason != "follows" and not step.children):
            yield step
        elif step.why.reason != "follows":
            yield from _asked_for(step.children)


def _reports_by_hand(given: ir.Model, pass_: Pass, at: Place | None, top: int) -> Iterator[RuleReport]:
    """Run a hand-written pass on a copy, and collect its rewrites and the reasons of its refusals."""
    model = copy_model(given)
    untouched = dict(zip(model.graph.all_nodes(), given.graph.all_nodes(), strict=True))
    node = None if at is None else find_node(model, at)
    refused: list[Refused] = []
    applied: list[Application] = []
    record = StepRecord(1, pass_.name, str(pass_), "")
    names = {each: describe_node(each) for each in model.graph.all_nodes()}
    pass_.run(model, Context(record, after_rewrite=applied.append, refusals=refused))
    done = dict.fromkeys((each.rule, matched) for each in applied for matched in each.matched)
    reasons = {(each.rule, each.node): each for each in refused if (each.rule, each.node) not in done}
    for rule in {rule.name: rule for rule in record.rules}.values():
        here = [
            each for (name, where), each in reasons.items() if name == rule.name and (node is None or where is node)
        ]
        there = [each for name, each in done if name == rule.name and (node is None or each is node)]
        if here or there:
            report = RuleReport(rule.name, rule.source, 0, (), len(here) + len(there), len(there))
            report.reasons.update(each.reason for each in here)
            here.sort(key=lambda each: report.reasons[each.reason])
            shown = [
                Attempt(names.get(each) or describe_node(each), 0, (), nodes=(untouched.get(each, each),))
                for each in there
            ]
            report.attempts = [*shown, *map(refused_attempt, here)][:top]
            yield report


def _reports(model: ir.Model, pass_: RewriteRuleSetPass, node: ir.Node | None, top: int) -> Iterator[RuleReport]:
    containers = [model.graph, *(model.functions.values() if pass_.functions else ())]
    sites = [TrialGraph(model, container) for container in containers]
    for rule in pass_.rules():
        if rule.setup is not None:
            rule.setup()
        try:
            yield _report(rule, sites, node, top)
        finally:
            if rule.cleanup is not None:
                rule.cleanup()


def _report(rule: Rule, sites: Sequence[TrialGraph], node: ir.Node | None, top: int) -> RuleReport:
    roots = [root.operator for root in rule.roots]
    names = tuple(dict.fromkeys("any operator" if root is None else root[1] for root in roots))
    report = RuleReport(rule.name, rule.source, rule.size, names)

    def attempts() -> Iterator[Attempt]:
        for site in sites:
            for attempt in site.attempts(rule) if node is None else site.attempts_at(rule, node):
                report.candidates += 1
                report.applies += attempt.applies
                report.reasons.update({stop.reason for stop in attempt.stops})
                yield attempt

    report.attempts = heapq.nlargest(top, attempts(), key=lambda attempt: attempt.progress)
    return report


def _no_rules(text: str) -> UsageError:
    made_of_rules = [entry.name for entry in REGISTRY.entries() if REGISTRY.load(entry).announces()]
    more = f" and {len(made_of_rules) - _NAMED} more" if len(made_of_rules) > _NAMED else ""
    return UsageError(
        f"'{text}' is not made of rewrite rules",
        hint=f"passes that are: {', '.join(made_of_rules[:_NAMED])}{more}"
        if made_of_rules
        else "no registered pass is; import those of your own",
    )
