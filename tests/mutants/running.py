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
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

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


def run(listed: Listed, jobs: int, root: Path = SOURCE, killers: Mapping[str, str] | None = None) -> Result:
    """Run the tests on each mutant: those that execute what it changes, until one fails; ``killers`` did so before.

    All tests are collected once; a mutant is a copy of that process in which functions are replaced. What is computed
    while modules are imported is changed in a process of its own that imports them again.
    """
    from tests.mutants.covering import judge

    for name in _LIBRARIES:
        importlib.import_module(name)
    started, result = time.monotonic(), Result()
    changes = [(mutant.path(root), mutant.source(root)) for mutant in listed.mutants]
    hints = [killers.get(mutant.digest, "") for mutant in listed.mutants] if killers else [""] * len(changes)
    found = _in_a_copy(lambda: judge(listed.tests, changes, hints, jobs, root))
    if not isinstance(found, list):
        raise RuntimeError(f"{' '.join(listed.tests)} could not be run: {found}")
    verdicts, result.broken = found
    waiting = [place for place, verdict in enumerate(verdicts) if isinstance(verdict, list) and verdict]
    for place, failed in _afresh([(*changes[place], verdicts[place]) for place in waiting], jobs, root):
        verdicts[waiting[place]] = "tests of another import" if failed else None
    for mutant, verdict in zip(listed.mutants, verdicts, strict=True):
        if not verdict:
            result.survivors.append(mutant)
            continue
        result.killed += 1
        result.killers[mutant] = verdict
        result.excused += [mutant] if mutant.survives else []
    result.seconds = time.monotonic() - started
    return result


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


def _afresh(changes: Sequence[tuple[Path, str, Sequence[str]]], jobs: int, root: Path) -> list[tuple[int, bool]]:
    """Run the tests of each change in a copy of this process that imports the changed module; say which failed."""
    waiting, running, found = list(enumerate(changes)), dict[int, tuple[int, float]](), list[tuple[int, bool]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            place, change = waiting.pop(0)
            running[_start(*change, root)] = place, time.monotonic()
        time.sleep(0.01)
        for pid, (place, since) in list(running.items()):
            if time.monotonic() - since > LONGEST:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                code = os.waitstatus_to_exitcode(status)
                if code == NOT_RUN:
                    raise RuntimeError(f"pytest does not understand {' '.join(changes[place][2])}")
                found.append((place, code != NOTHING_FAILED))
    return found


def _start(path: Path, source: str, tests: Sequence[str], root: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        import pytest

        silence()
        sys.meta_path.insert(0, _Changed(name_of(path, root), path, source))
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        os._exit(code)


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
