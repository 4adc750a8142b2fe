"""Tests that are collected once: which functions each of them executes, and which of them notice a change."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import NoReturn

import pytest

from tests.mutants.patching import Key, Loaded, Patch, changed_lines, key_of, patch_of
from tests.mutants.running import LONGEST, arguments, name_of, silence

Verdict = str | list[str] | None
"""The test that noticed, those that have to import the module anew, or None if no test noticed."""
_PATIENCE = 6.0
_TIMES = 20.0
_BUDGET = 30.0
"""Seconds of computation after which a test does not end any more, how many times as long as it usually takes, and for
how long tests are tried on one mutant."""


def judge(
    tests: Sequence[str], changes: Sequence[tuple[Path, str]], remembered: Sequence[str], jobs: int, root: Path
) -> tuple[list[Verdict], list[str]]:
    """Return for each change of a file which test noticed it, and the tests that fail without any.

    ``remembered`` names for each change the one test to run on it; if empty, all tests are.
    """
    silence()
    loop = _Loop(changes, remembered, jobs, root)
    code = pytest.main([*arguments(), *tests], plugins=[loop])
    if loop.verdicts is None:
        raise RuntimeError(loop.error or f"pytest ended with {code!r}")
    return loop.verdicts, loop.broken


@dataclass
class _Loop:
    """Runs tests in place of the loop of pytest."""

    changes: Sequence[tuple[Path, str]]
    remembered: Sequence[str]
    jobs: int
    root: Path
    verdicts: list[Verdict] | None = None
    failed: list[str] = field(default_factory=list[str])
    error: str = ""
    broken: list[str] = field(default_factory=list[str])
    """Tests that fail without any change, or end their process: they say nothing of mutants."""
    watched: Collection[Key] = ()
    """The functions that change, of which it is known which lines each test executes."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find out what tests execute, then run those that execute what is changed."""
        if session.testsfailed:
            self.error = "tests could not be collected"
            return True
        patches = [patch_of(*change) for change in self.changes]
        self.watched = {key_of(code) for patch in patches if patch is not None for code in patch.changed}
        wanted = set(self.remembered)
        covered = self._trace([item for item in session.items if not wanted or item.nodeid in wanted])
        self.broken = [name for name, each in covered.items() if each.failed]
        covered = {name: each for name, each in covered.items() if not each.failed}
        judging = _Judging(self, session, covered, patches)
        # What the copies of this process do not collect stays shared with them.
        gc.collect()
        gc.freeze()
        self.verdicts = judging.all()
        return True

    def outcome(self, items: Sequence[pytest.Item], before: Callable[[pytest.Item], object]) -> str:
        """Run tests until one fails, and return its name."""
        for place, item in enumerate(items):
            before(item)
            following = items[place + 1] if place + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return self.failed[0]
        return ""

    def _trace(self, items: Sequence[pytest.Item]) -> dict[str, _Covered]:
        found: dict[str, _Covered] = {}

        def compute(part: int) -> Callable[[], object]:
            return lambda: self._traced(items[part :: self.jobs])

        for _, said in copies([compute(part) for part in range(self.jobs)], self.jobs, longest=3600):
            traced: dict[str, _Traced] = json.loads(said or "{}")
            for name, (seconds, failed, keys, lines) in traced.items():
                executed = frozenset((file, line) for file, line in lines)
                found[name] = _Covered(seconds, failed, frozenset((a, b, c) for a, b, c in keys), executed)
        for file in sorted({file for each in found.values() for file, _, _ in each.keys}):
            # What tests import when they run is imported once, too.
            importlib.import_module(name_of(Path(file), self.root))
        for item in items:
            found.setdefault(item.nodeid, _Covered(0.0, True, frozenset(), frozenset()))
        return found

    def _traced(self, items: Sequence[pytest.Item]) -> dict[str, _Traced]:
        found: dict[str, _Traced] = {}
        source = str(self.root)
        for item, following in zip(items, [*items[1:], None], strict=True):
            tracer = _Tracer(self.watched)
            started = time.process_time()
            sys.settrace(tracer.called)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            keys = [key_of(code) for code in tracer.codes.values() if code.co_filename.startswith(source)]
            found[item.nodeid] = time.process_time() - started, bool(self.failed), keys, list(tracer.lines)
            self.failed.clear()
        return found


_Traced = tuple[float, bool, list[Key], list[tuple[str, int]]]


class _Tracer:
    """Notes the functions that run and, of those that are watched, the lines."""

    def __init__(self, watched: Collection[Key]) -> None:
        self._watched = watched
        self.codes: dict[int, CodeType] = {}
        self._local: dict[int, Callable[..., object] | None] = {}
        self.lines: set[tuple[str, int]] = set()

    def called(self, frame: FrameType, _event: str, _given: object) -> Callable[..., object] | None:
        """Note a function that is called."""
        code = frame.f_code
        if id(code) not in self.codes:
            self.codes[id(code)] = code
            self._local[id(code)] = self._line if key_of(code) in self._watched else None
        return self._local[id(code)]

    def _line(self, frame: FrameType, _event: str, _given: object) -> Callable[..., object]:
        self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


@dataclass(frozen=True)
class _Covered:
    """What one test costs, which functions it executes, and which lines of those that are watched."""

    seconds: float
    failed: bool
    keys: frozenset[Key]
    lines: frozenset[tuple[str, int]]


class _Judging:
    """Runs tests on changes; tests that noticed others near by come first, then those that take least."""

    def __init__(
        self, loop: _Loop, session: pytest.Session, covered: dict[str, _Covered], patches: Sequence[Patch | None]
    ) -> None:
        self._loop, self._covered = loop, covered
        self._items = {item.nodeid: item for item in session.items}
        self._loaded = Loaded(loop.root)
        self._patches = patches
        self._lines = [changed_lines(*change) for change in loop.changes]
        self._noticed: dict[str, dict[str, int]] = {}
        self._folder = tempfile.TemporaryDirectory()
        self._begun = Path(self._folder.name, "none")

    def all(self) -> list[Verdict]:
        """Return the verdicts of all changes."""
        verdicts: list[Verdict] = [None] * len(self._patches)
        again: list[int] = []

        def compute(place: int) -> Callable[[], object]:
            # Tests are chosen when the process begins, by what was noticed until then.
            return lambda: self._run(place)

        for place, said in copies([compute(place) for place in range(len(verdicts))], self._loop.jobs, LONGEST):
            name = json.loads(said) if said else self._last_begun(place)
            if name == _IMPORT:
                again.append(place)
                continue
            verdicts[place] = name or None
            for key in self._keys(place) if name else ():
                noticed = self._noticed.setdefault(key, {})
                noticed[name] = noticed.get(name, 0) + 1
            patch = self._patches[place]
            if not name and patch is not None and patch.constant is not None:
                again.append(place)
        for place in again:
            verdicts[place] = [self._argument(self._items[each]) for each in self._tests(place, imported=True)]
        return verdicts

    def _last_begun(self, place: int) -> str:
        """Return the test that a copy of this process did not end."""
        path = Path(self._folder.name, str(place))
        return path.read_text() if path.exists() else ENDLESS

    def _run(self, place: int) -> str:
        self._begun = Path(self._folder.name, str(place))
        patch, (path, _) = self._patches[place], self._loop.changes[place]
        module = sys.modules.get(name_of(path, self._loop.root))
        if patch is None or module is None or not self._loaded.apply(patch, module):
            return _IMPORT
        return self._loop.outcome([self._items[each] for each in self._tests(place)], self._limit)

    def _argument(self, item: pytest.Item) -> str:
        return f"{item.path}::{item.nodeid.partition('::')[2]}"

    def _limit(self, item: pytest.Item) -> None:
        self._begun.write_text(item.nodeid)
        usual = self._covered[item.nodeid].seconds
        signal.setitimer(signal.ITIMER_PROF, _PATIENCE + _TIMES * usual)

    def _tests(self, place: int, *, imported: bool = False) -> list[str]:
        """Return the tests that execute lines that change; all of them if these are executed by the import."""
        if self._loop.remembered:
            name = self._loop.remembered[place]
            return [name] if name in self._covered else []
        patch, file = self._patches[place], str(self._loop.changes[place][0])
        wanted = None if imported or _is_wide(patch) else {key_of(code) for code in patch.changed} if patch else None
        lines = frozenset((file, line) for line in self._lines[place])
        found = [
            name
            for name, each in self._covered.items()
            if wanted is None or (not wanted.isdisjoint(each.keys) and not (lines and lines.isdisjoint(each.lines)))
        ]
        noticed = [self._noticed.get(key, {}) for key in self._keys(place)]

        stem = Path(file).stem

        def order(name: str) -> tuple[float, ...]:
            counts = [-each.get(name, 0) for each in noticed]
            apart = not any(key[0] == file for key in self._covered[name].keys)
            return (apart, *counts, stem not in name, self._covered[name].seconds)

        chosen, seconds = list[str](), 0.0
        for name in sorted(found, key=order):
            seconds += self._covered[name].seconds
            if chosen and seconds > _BUDGET:
                break
            chosen.append(name)
        return chosen

    def _keys(self, place: int) -> tuple[str, str]:
        patch, file = self._patches[place], str(self._loop.changes[place][0])
        changed = patch.changed[0].co_qualname if patch is not None and patch.changed else ""
        return f"{file}:{changed}", file


_IMPORT = "import"
ENDLESS = "a test that does not end"


def _is_wide(patch: Patch | None) -> bool:
    return patch is None or patch.constant is not None


def copies(computations: Sequence[Callable[[], object]], jobs: int, longest: float) -> Iterator[tuple[int, str]]:
    """Compute in copies of this process, several at once; yields what each wrote as JSON, nothing if it was ended."""
    waiting, running = list(enumerate(computations)), dict[int, tuple[int, Path, float]]()
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                place, compute = waiting.pop(0)
                path = Path(folder, str(place))
                pid = os.fork()
                if not pid:
                    _compute(compute, path)
                running[pid] = place, path, time.monotonic()
            time.sleep(0.005)
            for pid, (place, path, since) in list(running.items()):
                if time.monotonic() - since > longest:
                    os.kill(pid, signal.SIGKILL)
                ended, _ = os.waitpid(pid, os.WNOHANG)
                if not ended:
                    continue
                del running[pid]
                with contextlib.suppress(ProcessLookupError):
                    # Processes that tests began, and did not end.
                    os.killpg(pid, signal.SIGKILL)
                yield place, path.read_text() if path.exists() else ""


def _compute(compute: Callable[[], object], path: Path) -> NoReturn:
    try:
        os.setpgid(0, 0)
        said = json.dumps(compute())
        path.with_suffix(".part").write_text(said)
        path.with_suffix(".part").rename(path)
    finally:
        os._exit(0)
