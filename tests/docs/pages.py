"""Pages of the documentation, and how their blocks are executed.

All pages are treated alike, in a folder that ``onnx-passes demo --files`` fills, block by block from top to bottom:

- ``sh``: every line is run; commands of ours in this process, with ``>`` and ``<`` as in a shell.
- ``python``: executed; all blocks of a page share their names.
- A block whose first line is a comment with the name of a file (``# my_passes.py``) is written to that file instead.
- ``yaml``, ``toml``, ``onnx``: such a file (ONNX text without that line, as ``text``), or a configuration that is read.
- ``text output``: what the block before it printed. ``…`` stands for anything, decimal fractions are not compared.
- ``text``: neither.

Words behind the language change that: ``exit=1`` is the exit code of the last command; ``not-run=REASON`` is not
executed at all, with one of a few reasons; ``needs=EXTRA,…`` lets a block import what these extras bring, which fails
otherwise as it does after a plain ``pip install``. ``python -m tests.docs.pages PAGE…`` writes the outputs into pages
anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx_passes.cli.main import run_command_line
from onnx_passes.core.config import load_config
from tests.docs.installation import installed
from tests.helpers.registry import forgetting

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
GENERATED = DOCS / "reference" / "generated"
PAGES = sorted([*(page for page in DOCS.rglob("*.md") if GENERATED not in page.parents), ROOT / "README.md"])
LANGUAGES = {"sh", "python", "yaml", "toml", "onnx", "json", "text"}
REASONS = {
    "install": "brings software onto the machine",
    "other-program": "belongs to a program that the tests do not have",
    "other-machine": "needs a cluster, a store or a large file",
    "endless": "waits for people or for changes",
    "excerpt": "names what only your model has",
}
ANYTHING = "…"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<info>.*)$")
_FILE = re.compile(r"^(?:#|//) ([\w./-]+\.(?:py|yaml|yml|toml|onnxtxt|txt))$")
_FRACTION = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?(?!\d*\s?%)|\d+e[-+]\d+")


@dataclass
class Block:
    """A fenced block: where it is, what it says, and how it is to be treated."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str
    indent: str = ""

    def word(self, name: str) -> str | None:
        """Answer the value of ``name=value`` behind the language."""
        return next((word.partition("=")[2] for word in self.words if word.partition("=")[0] == name), None)

    @property
    def needs(self) -> list[str]:
        """List the extras that the block needs."""
        return (self.word("needs") or "").split(",") if self.word("needs") is not None else []

    @property
    def file(self) -> str | None:
        """Name the file that the block is, if it is one."""
        found = _FILE.match(self.text.split("\n", 1)[0])
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page that are not directives."""
    opened: tuple[int, str, str, str] | None = None
    content: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if opened is None:
            if found:
                opened, content = (number, found["indent"], found["fence"], found["info"].strip()), []
        elif found and found["fence"].startswith(opened[2]) and not found["info"].strip():
            language, *words = opened[3].split() or [""]
            if not language.startswith("{"):
                yield Block(page, opened[0], language, tuple(words), "\n".join(content), opened[1])
            opened = None
        else:
            content.append(line.removeprefix(opened[1]))
    assert opened is None, f"{page}:{opened and opened[0]}: a block that is not closed"


def commands(text: str) -> Iterator[list[str]]:
    """Yield the commands of a block as words, joined where a line goes on; patterns become files as in a shell."""
    for line in text.replace("\\\n", " ").splitlines():
        found = shlex.split(line, comments=True)
        words = [
            name for word in found for name in (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]
        ]
        if words:
            yield words


@dataclass
class Runner:
    """Executes the blocks of one page in the current folder."""

    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""

    def run(self, block: Block) -> None:
        """Do what a block says, with what is installed for it."""
        if block.word("not-run") is None:
            with installed(*block.needs):
                self._run(block)

    def _run(self, block: Block) -> None:
        if block.file is not None:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            text = block.text.partition("\n")[2] if block.language in ("onnx", "text") else block.text
            Path(block.file).write_text(text + "\n", encoding="utf-8")
        elif block.language == "yaml":
            Path("page.yaml").write_text(block.text, encoding="utf-8")
            load_config(Path("page.yaml"))
        elif block.language == "sh":
            self._capture(lambda: self._commands(block))
        elif block.language == "python":
            code = compile("\n" * block.line + block.text, str(block.page), "exec")
            self._capture(lambda: exec(code, self.names))

    def _capture(self, work: Any) -> None:
        into = io.StringIO()
        try:
            with contextlib.redirect_stdout(into), contextlib.redirect_stderr(into):
                work()
        finally:
            self.printed = into.getvalue().replace(f"{Path.cwd()}/", "").replace(f"{ROOT}/", "")

    def _commands(self, block: Block) -> None:
        expected = int(block.word("exit") or 0)
        for words in (all_words := list(commands(block.text))):
            code = execute(words)
            wanted = expected if words is all_words[-1] else 0
            assert code == wanted, f"{block}: exit code {code} of {shlex.join(words)}\n{sys.stderr.getvalue()}"  # type: ignore[attr-defined]


def execute(words: list[str]) -> int:
    """Execute one command: ours in this process, tests in one of their own."""
    words, streams = _redirections(words)
    with contextlib.ExitStack() as stack:
        if ">" in streams:
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(Path(streams[">"]).open("w"))))
        if "<" in streams:
            before, sys.stdin = sys.stdin, stack.enter_context(Path(streams["<"]).open())
            stack.callback(setattr, sys, "stdin", before)
        match words:
            case ["onnx-passes", *arguments]:
                stack.enter_context(forgetting())  # as the end of a process does
                return int(run_command_line(arguments))
            case ["python", script, *arguments]:
                before, sys.argv = sys.argv, [script, *arguments]
                stack.callback(setattr, sys, "argv", before)
                runpy.run_path(script, run_name="__main__")
                return 0
            case ["cat", name]:
                sys.stdout.write(Path(name).read_text(encoding="utf-8"))
                return 0
            case ["mkdir", name]:
                Path(name).mkdir()
                return 0
            case ["cd", name]:
                os.chdir(name)
                return 0
            case ["pytest", *arguments]:
                # Plug-ins of pytest that are not installed for the block have entry points nevertheless.
                environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
                    check=False, capture_output=True, text=True, env=environment,
                )  # fmt: skip
                sys.stdout.write(done.stdout)
                return done.returncode
    raise AssertionError(f"{shlex.join(words)}: mark the block not-run=…, or teach execute about it")


def _redirections(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Take ``> file`` and ``< file`` from the words of a command."""
    left, streams = [], {}
    rest = iter(words)
    for word in rest:
        if word in (">", "<"):
            streams[word] = next(rest)
        else:
            left.append(word)
    return left, streams


def plain(text: str) -> list[str]:
    """Reduce printed text to what is compared: lines without trailing space, fractions and the width of columns."""
    lines = [re.sub(r"[ ─━]{2,}", "  ", _FRACTION.sub("0.0", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def shows(expected: str, printed: str) -> bool:
    """Say whether a page shows what was printed, where ``…`` stands for anything."""
    pieces = []
    for line in plain(expected):
        pieces.append(r"(?:.*\n)*?" if line == ANYTHING else ".*".join(map(re.escape, line.split(ANYTHING))) + r"\n")
    return re.fullmatch("".join(pieces), "".join(f"{line}\n" for line in plain(printed))) is not None


def prepare(folder: Path) -> None:
    """Put into a folder what the pages speak of."""
    with contextlib.redirect_stderr(io.StringIO()):
        assert run_command_line(["demo", "--files", str(folder)]) == 0


def _write(page: Path) -> None:
    """Write what blocks print now into the outputs that a page shows in full."""
    runner, lines, shift = Runner(), page.read_text(encoding="utf-8").splitlines(), 0
    for block in blocks(page):
        if block.language == "text" and "output" in block.words:
            if ANYTHING in block.text and shows(block.text, runner.printed):
                continue
            if ANYTHING in block.text:
                sys.stderr.write(f"{block}: the page shows\n{block.text}\nand this was printed:\n{runner.printed}\n")
                continue
            new = [(block.indent + line).rstrip() for line in runner.printed.strip("\n").splitlines()]
            old = len(block.text.splitlines())
            start = block.line + shift
            lines[start : start + old] = new
            shift += len(new) - old
            continue
        try:
            runner.run(block)
        except Exception as error:  # noqa: BLE001 # the other blocks are still wanted
            sys.stderr.write(f"{block}: {type(error).__name__}: {error}\n")
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Write the outputs of pages anew."""
    import tempfile

    os.environ["COLUMNS"] = WIDTH
    for page in [Path(name).resolve() for name in names] or PAGES:
        with tempfile.TemporaryDirectory(prefix="pytest-") as folder, contextlib.chdir(folder), forgetting():
            prepare(Path(folder))
            _write(page)


WIDTH = "96"
"""Columns of the terminal that outputs are made for."""

if __name__ == "__main__":
    main(sys.argv[1:])
