"""A campaign: many rules from many seeds, in parallel, with a journal; findings are deduplicated and stored."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.testing.fuzz.corpus import Corpus
from onnx_passes.testing.fuzz.report import Finding, FuzzReport
from onnx_passes.testing.fuzz.tasks import CampaignPlan, Found, Task, Tried, Workshop, do_task
from onnx_passes.testing.fuzz.trial import is_dead
from onnx_passes.workers.cluster import Cluster
from onnx_passes.workers.completed import Lost, completed

_AHEAD = 2
"""Number of queued tasks per worker; more would only be cancelled when the time is over."""


@dataclass(frozen=True)
class Met:
    """One way in which a rule fails, however often it was found: ``noted`` is the smallest model, ``seed`` its seed.

    ``task`` is the rule, or the family of models.
    """

    rule: str
    noted: Noted
    seed: int
    first_seed: int
    count: int = 1
    task: str = ""

    def with_(self, other: Met) -> Met:
        """Merge two findings with the same rule, kind and structure, in either order."""
        smaller = min(self, other, key=lambda met: (met.noted.size, met.seed))
        return replace(smaller, first_seed=min(self.first_seed, other.first_seed), count=self.count + other.count)


Key = tuple[str, str, str]
"""Rule, kind and structure, which identify a finding."""


class Campaign:
    """Runs rules from seeds, and merges their findings; with a corpus it continues an earlier campaign."""

    def __init__(self, plan: CampaignPlan, corpus: Path | None = None) -> None:
        self.plan = plan
        self.rules = _by_turns(plan.names)
        self.met: dict[Key, Met] = {}
        self.failures: dict[str, str] = {}
        self._done: dict[tuple[str, int], JournalEntry] = {}
        self._corpus = None if corpus is None else Corpus(corpus)
        self._journal = None if corpus is None else Journal(corpus, plan.version())
        for entry in () if self._journal is None else self._journal.entries():
            if entry.rule in self.rules:
                self._count(entry)
        self.resumed = len(self._done)

    def run(
        self, seeds: Iterable[int], *, cluster: Cluster | None = None, seconds: float | None = None
    ) -> Iterator[Finding]:
        """Run all rules from one seed, then from the next, and yield new findings.

        No task is started after ``seconds``. Workers are those of the cluster, or this process.
        """
        end = None if seconds is None else time.monotonic() + seconds
        tasks = self._tasks(seeds, end)
        if cluster is not None:
            yield from self._take(completed(cluster.workers, do_task, tasks, ahead=_AHEAD * cluster.size))
            return
        with Workshop(self.plan) as workshop:
            yield from self._take(completed(None, workshop.do, tasks))

    def _tasks(self, seeds: Iterable[int], end: float | None) -> Iterator[Task]:
        # Not a product, which would consume all seeds first: they may be infinite.
        for seed, rule in ((seed, rule) for seed in seeds for rule in self.rules):
            if end is not None and time.monotonic() > end:
                return
            if (rule, seed) not in self._done:
                yield Task(self.plan, rule, seed)

    def _take(self, results: Iterator[tuple[Task, Tried | Lost]]) -> Iterator[Finding]:
        for task, tried in results:
            if isinstance(tried, Lost) or tried.failure:
                self.failures[f"{task.rule} from seed {task.seed}"] = getattr(tried, "failure", "") or str(tried)
                continue
            entry, fresh = JournalEntry.of(tried, task.seed), list[Finding]()
            self._count(entry)
            for found in tried.found:
                met = self.met[found.finding.rule or task.rule, str(found.finding.kind), found.structure]
                if met.count == 1:
                    fresh.append(found.finding)
                if self._corpus is not None and met.seed == task.seed:
                    self._corpus.keep(found.finding, found.structure, self.plan.command(task.rule, task.seed))
            if self._journal is not None:
                self._journal.add(entry)
            yield from fresh

    def _count(self, entry: JournalEntry) -> None:
        """Add the result of a task."""
        if (entry.rule, entry.seed) in self._done:
            return
        self._done[entry.rule, entry.seed] = entry
        for noted in entry.findings:
            rule = noted.rule or entry.rule
            key, met = (rule, noted.kind, noted.structure), Met(rule, noted, entry.seed, entry.seed, task=entry.rule)
            self.met[key] = self.met[key].with_(met) if key in self.met else met

    @property
    def dead(self) -> list[str]:
        """Return the rules that matched too few models, over all seeds."""
        accused = {rule for rule, _, _ in self.met}
        totals: dict[str, FuzzReport] = {}
        for entry in self._done.values():
            counted = FuzzReport(entry.rule, entry.cases, entry.matches)
            totals.setdefault(entry.rule, FuzzReport(entry.rule)).add(counted)
        return [
            rule
            for rule, total in sorted(totals.items())
            if rule not in accused and is_dead(total.matches, total.cases)
        ]

    @property
    def ok(self) -> bool:
        """Return whether every rule matched often enough without a finding."""
        return not self.met and not self.dead and not self.failures

    def findings(self) -> Sequence[Met]:
        """Return the findings, rule by rule."""
        return [self.met[key] for key in sorted(self.met)]

    def file_of(self, met: Met) -> str:
        """Return the file of a finding, None without a corpus."""
        if self._corpus is None:
            return ""
        return str(self._corpus.file_of(met.rule, met.noted.kind, met.noted.structure))

    def summary(self) -> str:
        """Return a one-line summary."""
        entries = self._done.values()
        seeds = {entry.seed for entry in entries}
        models, seconds = sum(entry.cases for entry in entries), sum(entry.seconds for entry in entries)
        span = f"seeds {min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"seed {min(seeds, default=0)}"
        before = f", {self.resumed} of them before" if self.resumed else ""
        found = f"{len(self.met)} finding{'s' * (len(self.met) != 1)}"
        what = "families" if self.plan.models else "rules"
        rules = f"{len({entry.rule for entry in entries})} of {len(self.rules)} {what}"
        tried = f"{models} models{self._disputed()}"
        return f"{found}: {rules}, {span}, {len(entries)} trials{before}, {tried}, {seconds:.0f} s of work"

    def _disputed(self) -> str:
        """Return the number of models discarded because the two engines disagree on them."""
        disputed = sum(entry.disputed for entry in self._done.values())
        return f" ({disputed} more disputed)" if disputed else ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        entries = self._done.values()
        return {
            "ok": self.ok,
            "rules": len(self.rules),
            "seeds": sorted({entry.seed for entry in entries}),
            "trials": len(entries),
            "resumed": self.resumed,
            "cases": sum(entry.cases for entry in entries),
            "matches": sum(entry.matches for entry in entries),
            "disputed": sum(entry.disputed for entry in entries),
            "seconds": round(sum(entry.seconds for entry in entries), 3),
            "dead": self.dead,
            "failures": self.failures,
            "findings": [
                {
                    "rule": met.rule,
                    "kind": met.noted.kind,
                    "message": met.noted.message,
                    "structure": met.noted.structure,
                    "met": met.count,
                    "first_seed": met.first_seed,
                    "command": self.plan.command(met.task or met.rule, met.seed),
                    "file": self.file_of(met) or None,
                }
                for met in self.findings()
            ],
        }


def _by_turns(rules: Iterable[str]) -> list[str]:
    """Order rules round-robin over passes, since rules of one pass are similar."""
    places: Counter[str] = Counter()
    placed: list[tuple[int, str]] = []
    for rule in rules:
        family = rule.partition("/")[0]
        placed.append((places[family], rule))
        places[family] += 1
    return [rule for _, rule in sorted(placed, key=itemgetter(0))]


_NAME = "campaign.jsonl"


@dataclass(frozen=True)
class Noted:
    """Finding in the journal: its kind, structure and size of the reduced model, and the wrong rule."""

    kind: str
    structure: str
    size: int
    message: str
    rule: str = ""


@dataclass(frozen=True)
class JournalEntry:
    """Task that was done."""

    rule: str
    seed: int
    cases: int
    matches: int
    skipped: int
    seconds: float
    findings: tuple[Noted, ...] = ()
    disputed: int = 0

    @staticmethod
    def of(tried: Tried, seed: int) -> JournalEntry:
        """Return the entry for the result of a task."""
        report = tried.report
        noted = [_noted(found) for found in tried.found]
        counts = (report.cases, report.matches, report.skipped, round(report.seconds, 3))
        return JournalEntry(report.rule, seed, *counts, tuple(noted), report.disputed)


def _noted(found: Found) -> Noted:
    finding = found.finding
    return Noted(str(finding.kind), found.structure, found.size, finding.message, finding.rule)


class Journal:
    """File that grows by a line with every task; an incomplete last line is ignored."""

    def __init__(self, folder: Path, version: str) -> None:
        self._path = folder / _NAME
        self._version = version

    def entries(self) -> Iterator[JournalEntry]:
        """Read the entries of this version."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"cannot be read: {error.strerror}", where=str(self._path)) from error
        for line in lines:
            entry = self._entry(line)
            if entry is not None:
                yield entry

    def add(self, entry: JournalEntry) -> None:
        """Write a line atomically."""
        line = json.dumps({"version": self._version, **asdict(entry)}) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b", buffering=0) as file:
                end = file.tell()
                file.seek(max(0, end - 1))
                is_cut = end > 0 and file.read(1) != b"\n"
                file.write(("\n" * is_cut + line).encode())
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", where=str(self._path)) from error

    def _entry(self, line: str) -> JournalEntry | None:
        try:
            known: dict[str, Any] = json.loads(line)
            if known.pop("version") != self._version:
                return None
            findings = tuple(Noted(**noted) for noted in known.pop("findings"))
            return JournalEntry(**known, findings=findings)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
