"""Mutants: how they are listed, and what the tests of a package make of them."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LONGEST = 300.0
"""Seconds after which tests have noticed: they do not end any more."""
NOTHING_FAILED, NOT_RUN = 0, 4
_LIBRARIES = (
    "ml_dtypes",
    "numpy",
    "onnx.reference",
    "onnx_ir",
    "onnxruntime",
    "onnxscript.rewriter",
    "pytest",
    "sympy",
)


@dataclass(frozen=True)
class Mutant:
    """A change of a text that stands once in a file; ``survives`` says why tests cannot notice it, if they cannot.

    A text that moved is followed to the one file of the package in which it now stands once.
    """

    file: str
    old: str
    new: str
    survives: str = ""

    def path(self, root: Path = SOURCE) -> Path:
        """Return the file that holds the text. Raises ValueError unless it stands once in one file."""
        expected = root / self.file
        if expected.exists() and _text(expected).count(self.old) == 1:
            return expected
        found = [path for path in _files(root / Path(self.file).parts[0]) if self.old in _text(path)]
        if len(found) != 1 or _text(found[0]).count(self.old) != 1:
            held = _text(expected).count(self.old) if expected.exists() else 0
            raise ValueError(f"{self.file} holds {held} times, not once, and no other file alone holds: {self.old}")
        return found[0]

    @property
    def digest(self) -> str:
        """Return what names the change, wherever its text is."""
        return hashlib.sha256(f"{self.old}→{self.new}".encode()).hexdigest()[:16]

    def source(self, root: Path = SOURCE) -> str:
        """Return the changed file."""
        return _text(self.path(root)).replace(self.old, self.new)


@functools.cache
def _text(path: Path) -> str:
    return path.read_text()


@functools.cache
def _files(folder: Path) -> Sequence[Path]:
    return sorted(folder.rglob("*.py"))


@dataclass(frozen=True)
class Listed:
    """The mutants of a package, and the arguments of pytest that run its tests."""

    package: str
    tests: tuple[str, ...]
    mutants: tuple[Mutant, ...]


@dataclass
class Result:
    """What became of mutants; those ``excused`` were said to survive, and did not.

    Tests that are ``broken`` fail without any change.
    """

    killed: int = 0
    seconds: float = 0.0
    survivors: list[Mutant] = field(default_factory=list[Mutant])
    excused: list[Mutant] = field(default_factory=list[Mutant])
    killers: dict[Mutant, str] = field(default_factory=dict[Mutant, str])
    broken: list[str] = field(default_factory=list[str])


def read(path: Path) -> Listed:
    """Read a list of mutants."""
    content = tomllib.loads(path.read_text())
    mutants = tuple(
        Mutant(
            os.path.normpath(f"{content['package']}/{each['file']}"),
            each["old"],
            each["new"],
            each.get("survives", ""),
        )
        for each in content["mutant"]
    )
    return Listed(content["package"], tuple(content["tests"]), mutants)


def run(
    listed: Listed,
    jobs: int,
    root: Path = SOURCE,
    killers: Mapping[str, str] | None = None,
    *,
    anew: bool = False,
) -> Result:
    """Run the tests on each mutant: those that execute what it changes, until one fails; ``killers`` did so before.

    A remembered killer runs alone, and what it kills needs nothing else. Only for the others all tests are traced.
    Expected survivors are tried if there are others, or if all is to be tried ``anew``.
    """
    for name in _LIBRARIES:
        importlib.import_module(name)
    started, result = time.monotonic(), Result()
    verdicts = _remembered(listed, killers or {}, jobs, root)
    missed = [mutant for mutant in listed.mutants if mutant not in verdicts]
    if anew or not all(mutant.survives for mutant in missed):
        found, result.broken = _judged(listed.tests, missed, (), jobs, root)
        verdicts |= found
    for mutant in listed.mutants:
        if mutant not in verdicts:
            result.survivors.append(mutant)
            continue
        result.killed += 1
        result.killers[mutant] = verdicts[mutant]
        result.excused += [mutant] if mutant.survives else []
    result.seconds = time.monotonic() - started
    return result


def _remembered(listed: Listed, killers: Mapping[str, str], jobs: int, root: Path) -> dict[Mutant, str]:
    """Run on each mutant the test that killed it before, if that is still there."""
    files = [str(path) for each in listed.tests for path in _test_files(ROOT / each.partition("::")[0])]
    hinted = [
        (mutant, killer, file)
        for mutant in listed.mutants
        if (killer := killers.get(mutant.digest, ""))
        and (file := next((each for each in files if each.endswith(killer.partition("::")[0])), ""))
    ]
    if not hinted:
        return {}
    mutants, tests, held = zip(*hinted, strict=True)
    return _judged(sorted(set(held)), mutants, tests, jobs, root)[0]


def _test_files(path: Path) -> Sequence[Path]:
    return [path] if path.is_file() else _files(path)


def _judged(
    tests: Sequence[str], mutants: Sequence[Mutant], remembered: Sequence[str], jobs: int, root: Path
) -> tuple[dict[Mutant, str], list[str]]:
    """Return the tests that killed mutants, and those that fail without any.

    All tests are collected once; a mutant is a copy of that process in which functions are replaced. What is computed
    while modules are imported is changed in a process of its own that imports them again.
    """
    from tests.mutants.covering import judge

    changes = [(mutant.path(root), mutant.source(root)) for mutant in mutants]
    found = _in_a_copy(lambda: judge(tests, changes, remembered, jobs, root))
    if not isinstance(found, list):
        raise RuntimeError(f"{' '.join(tests)} could not be run: {found}")
    verdicts, broken = found
    waiting = [place for place, verdict in enumerate(verdicts) if isinstance(verdict, list) and verdict]
    for place, killer in _afresh([(*changes[place], verdicts[place]) for place in waiting], jobs, root):
        verdicts[waiting[place]] = killer
    return {mutant: verdict for mutant, verdict in zip(mutants, verdicts, strict=True) if verdict}, broken


def _in_a_copy(compute: Callable[[], object]) -> object:
    """Return what a copy of this process computes, which leaves nothing behind in this one."""
    with tempfile.NamedTemporaryFile("r") as file:
        pid = os.fork()
        if not pid:
            try:
                Path(file.name).write_text(json.dumps(compute()))
            except BaseException as error:  # noqa: BLE001, the process ends here in any case
                Path(file.name).write_text(json.dumps(f"{type(error).__name__}: {error}"))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return json.load(file)


def _afresh(changes: Sequence[tuple[Path, str, Sequence[str]]], jobs: int, root: Path) -> Iterator[tuple[int, str]]:
    """Run the tests of each change in a copy of this process that imports the changed module; yield what failed."""
    from tests.mutants.covering import ENDLESS, copies

    def compute(path: Path, source: str, tests: Sequence[str]) -> Callable[[], object]:
        return lambda: _imported_anew(path, source, tests, root)

    for place, said in copies([compute(*change) for change in changes], jobs, LONGEST):
        code, killer = json.loads(said) if said else (1, ENDLESS)
        if code == NOT_RUN:
            raise RuntimeError(f"pytest does not understand {' '.join(changes[place][2])}")
        yield place, killer if code != NOTHING_FAILED else ""


def _imported_anew(path: Path, source: str, tests: Sequence[str], root: Path) -> tuple[int, str]:
    """Return how pytest ended on the changed module, and the test that failed first."""
    import pytest

    silence()
    sys.meta_path.insert(0, _Changed(name_of(path, root), path, source))
    failures = _Failures()
    code = int(pytest.main(["-x", *arguments(), *tests], plugins=[failures]))
    return code, next(iter(failures.names), "tests of another import")


class _Failures:
    """Collects the names of the tests that fail."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the name of a test that failed."""
        if report.failed:
            self.names.append(report.nodeid)


def arguments() -> list[str]:
    """Return how pytest runs: whoever fails need not look for the simplest example."""
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    settings.register_profile("mutants", deadline=None, phases=phases, database=None)
    return ["-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutants"]


def name_of(path: Path, root: Path) -> str:
    """Return the name of the module in a file."""
    return str(path.relative_to(root)).removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def silence() -> None:
    """Write standard output and errors of this process nowhere."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed source."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path, self._source = name, path, source

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Find that module, and no other."""
        if fullname != self._name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(self._path))

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        module.__file__ = str(self._path)
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)
