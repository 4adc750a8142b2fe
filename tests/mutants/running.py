"""Mutants: how they are listed, and what the tests of a package make of them."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LONGEST = 120.0
"""Seconds after which tests have noticed: they do not end any more."""
NOTHING_FAILED = 0
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
    """A change of a text that stands once in a file; ``survives`` says why tests cannot notice it, if they cannot."""

    file: str
    old: str
    new: str
    survives: str = ""

    def source(self, root: Path = SOURCE) -> str:
        """Return the changed file. Raises ValueError if the text does not stand there once."""
        text = (root / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} holds {text.count(self.old)} times, not once: {self.old}")
        return text.replace(self.old, self.new)

    @property
    def module(self) -> str:
        """Return the name of the module."""
        return self.file.removesuffix(".py").replace("/", ".")


@dataclass(frozen=True)
class Listed:
    """The mutants of a package, and the arguments of pytest that run its tests, those first that notice most."""

    package: str
    tests: tuple[str, ...]
    mutants: tuple[Mutant, ...]
    first: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """By file, arguments of pytest for the tests that are likely to notice its mutants; all others run after them."""


@dataclass
class Result:
    """What became of mutants; those ``excused`` were said to survive, and did not."""

    killed: int = 0
    seconds: float = 0.0
    survivors: list[Mutant] = field(default_factory=list[Mutant])
    excused: list[Mutant] = field(default_factory=list[Mutant])


def read(path: Path) -> Listed:
    """Read a list; texts are those of lines, without the indentation that the file has more."""
    content = tomllib.loads(path.read_text())
    mutants = tuple(
        Mutant(f"{content['package']}/{each['file']}", each["old"], each["new"], each.get("survives", ""))
        for each in content["mutant"]
    )
    first = {f"{content['package']}/{file}": given for file, given in content.get("first", {}).items()}
    return Listed(content["package"], tuple(content["tests"]), mutants, first)


def run(listed: Listed, jobs: int, root: Path = SOURCE) -> Result:
    """Run the tests on each mutant, several at once, each in a copy of this process with the changed module."""
    sources = [mutant.source(root) for mutant in listed.mutants]
    for name in _LIBRARIES:
        importlib.import_module(name)
    started, result = time.monotonic(), Result()
    waiting, running = list(zip(listed.mutants, sources, strict=True)), dict[int, tuple[Mutant, float]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant, source = waiting.pop(0)
            turns = [turn for turn in (listed.first.get(mutant.file), listed.tests) if turn]
            running[_start(mutant, source, turns, root)] = mutant, time.monotonic()
        time.sleep(0.01)
        for pid, (mutant, since) in list(running.items()):
            if time.monotonic() - since > LONGEST:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del running[pid]
            if os.waitstatus_to_exitcode(status) == NOTHING_FAILED:
                result.survivors.append(mutant)
            else:
                result.killed += 1
                result.excused += [mutant] if mutant.survives else []
    result.seconds = time.monotonic() - started
    return result


def _start(mutant: Mutant, source: str, turns: Sequence[Sequence[str]], root: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        import pytest

        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        sys.meta_path.insert(0, _Changed(mutant.module, root / mutant.file, source))
        codes = (int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])) for tests in turns)
        code = next((code for code in codes if code != NOTHING_FAILED), NOTHING_FAILED)
    finally:
        os._exit(code)


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
