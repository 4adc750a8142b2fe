"""The shell: a session at the prompt of IPython or Python, or commands from a pipe."""

from __future__ import annotations

import code
import contextlib
import importlib.util
import re
import sys
from collections.abc import Generator
from typing import Any, TextIO

import click

import onnx_passes
from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.failures import failure_of
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import ExitCode, OnnxPassesError, UsageError, did_you_mean
from onnx_passes.core.walk import all_nodes
from onnx_passes.session.commands import COMMANDS, HELP, QUIT, WITH_NODES, WITH_PASSES, parse, run
from onnx_passes.session.display import text_of
from onnx_passes.session.notebooks import install
from onnx_passes.session.session import Session

NAME = "s"
_QUOTED = re.compile(r"""\.(apply|matches|preview|why_not|why|diff)\(\s*["'](?P<text>[^"']*)$""")
_DELIMITERS = " \t\n\"'(){}[],="


class Shell:
    """Session with its namespace; ``s`` is the branch that commands work on."""

    def __init__(self, session: Session) -> None:
        self.names: dict[str, Any] = {NAME: session, "onnx_passes": onnx_passes, "__name__": "__main__"}

    @property
    def session(self) -> Session:
        """Return the session that commands work on."""
        return self.names[NAME]

    def command(self, text: str) -> object:
        """Run a command."""
        line = parse(text)
        assert line is not None
        answer = run(line, self.session)
        if isinstance(answer, Session):
            self.names[NAME] = answer
        return answer

    def answer(self, text: str) -> object:
        """Run a command at a prompt that displays results itself; print plain text."""
        answer = self.command(text)
        if isinstance(answer, Displayed):
            return answer
        show(answer)
        return None

    def is_command(self, text: str) -> bool:
        """Return whether a line is a command, and not an expression with a name of the user."""
        line = parse(text)
        return line is not None and line.word not in QUIT and (bool(line.rest) or line.word not in self.names)

    def banner(self) -> str:
        """Return the greeting."""
        return f"{self.session!r}\nType 'help' for commands; '{NAME}' is the session, and any Python works."

    def completions(self, line: str, word: str) -> list[str]:
        """Complete the last word of a line: a command, a pass or a node; no completions for Python."""
        first, space, rest = line.lstrip().partition(" ")
        quoted = _QUOTED.search(line)
        if quoted is not None:
            return self._named(quoted[1].replace("_", "-"), quoted["text"], word)
        if not space:
            return [name for name in (*COMMANDS, *HELP[:1], *QUIT) if name.startswith(word)] if word else []
        return self._named(first, rest, word)

    def _named(self, command: str, text: str, word: str) -> list[str]:
        if command in WITH_PASSES:
            before = text[: len(text) - len(word)]
            ends = (item.value[len(before) :] for item in pass_names(None, None, text))  # pyright: ignore[reportArgumentType]
            return [end for end in ends if end.startswith(word)]
        if command in WITH_NODES:
            nodes = list(all_nodes(self.session.model.graph))
            known = [node.name for node in nodes] + [value.name for node in nodes for value in node.outputs]
            return sorted({name for name in known if name and name.startswith(word)})
        return (
            [name for name in self.session.branches if name.startswith(word)] if command in ("diff", "verify") else []
        )


def talk(shell: Shell, *, plain: bool = False) -> None:
    """Run the session at the prompt of IPython if it is installed, else, or if ``plain``, of Python."""
    if not plain and importlib.util.find_spec("IPython") is not None:
        _talk_in_ipython(shell)
    else:
        with _completed(shell):
            Prompt(shell).interact(banner=shell.banner(), exitmsg="")


def read(shell: Shell, lines: TextIO) -> int:
    """Run the lines of a pipe or a file, without a prompt; stop at the first error."""
    prompt = Prompt(shell, stops=True)
    for line in (*lines, "\n"):
        prompt.push(line.rstrip("\n"))
        if prompt.error is not None:
            return failure_of(prompt.error).code
        if prompt.is_left:
            break
    return ExitCode.OK


class Prompt(code.InteractiveConsole):
    """Python prompt that also accepts commands."""

    def __init__(self, shell: Shell, *, stops: bool = False) -> None:
        super().__init__(shell.names)
        self.shell = shell
        self.stops = stops
        self.error: BaseException | None = None
        self.is_left = False

    def push(self, line: str, filename: str | None = None, _symbol: str = "single") -> bool:
        """Run a line as a command, unless Python waits for the rest of a statement."""
        if self.buffer or line.lstrip().startswith("#"):
            return self._python(line)
        if line.strip() in QUIT:
            self.is_left = True
            if self.stops:
                return False
            raise SystemExit
        if not self.shell.is_command(line):
            return self._python(line)
        try:
            show(self.shell.command(line))
        except Exception as error:  # noqa: BLE001 - whatever a command fails with, the prompt comes back
            self.failed(error)
        return False

    def _python(self, line: str) -> bool:
        displayed, sys.displayhook = sys.displayhook, show
        try:
            return super().push(line)
        finally:
            sys.displayhook = displayed

    def showtraceback(self) -> None:
        """Show an error; without the frames of this package if it is one of ours."""
        error = sys.exc_info()[1]
        if isinstance(error, OnnxPassesError):
            self.failed(error)
        else:
            self.error = error
            super().showtraceback()

    def showsyntaxerror(self, filename: str | None = None, **known: Any) -> None:
        """Show a syntax error, with a hint if the line looks like a misspelt command."""
        self.error = sys.exc_info()[1]
        line = self.buffer[0] if self.buffer else ""
        meant = did_you_mean(line.split(" ")[0], COMMANDS)
        if meant is not None:
            self.failed(UsageError(f"'{line}' is neither a command nor Python", hint=meant))
        else:
            super().showsyntaxerror(filename, **known)

    def failed(self, error: BaseException) -> None:
        """Print an error, and continue."""
        self.error = error
        click.echo(failure_of(error).text, err=True)


def show(value: object) -> None:
    """Print a result."""
    if value is None:
        return
    shown = isinstance(value, str) and not isinstance(value, Displayed)
    click.echo(value if shown else text_of(value) if isinstance(value, Displayed) else repr(value))


@contextlib.contextmanager
def _completed(shell: Shell) -> Generator[None]:
    """Complete with the tabulator key, if readline is available."""
    try:
        import readline
        import rlcompleter
    except ImportError:
        yield
        return
    python = rlcompleter.Completer(shell.names)

    def complete(word: str, state: int) -> str | None:
        found = shell.completions(readline.get_line_buffer()[: readline.get_endidx()], word)
        if found or not word:
            return found[state] if state < len(found) else None
        return python.complete(word, state)

    readline.set_completer(complete)
    readline.set_completer_delims(_DELIMITERS)
    readline.parse_and_bind("tab: complete")
    yield


def _talk_in_ipython(shell: Shell) -> None:
    from IPython.terminal.ipapp import TerminalIPythonApp

    app: Any = TerminalIPythonApp.instance(display_banner=False)
    app.initialize(argv=[])
    prepare_ipython(app.shell, shell)
    click.echo(shell.banner())
    app.start()


def prepare_ipython(ipython: Any, shell: Shell) -> None:
    """Add commands, and completion of passes and nodes, to IPython."""
    install()
    ipython.push({name: value for name, value in shell.names.items() if not name.startswith("__")})
    shell.names = ipython.user_ns
    ipython.user_ns["_shell"] = shell

    def commands(lines: list[str]) -> list[str]:
        text = "".join(lines).strip()
        if "\n" in text or not shell.is_command(text):
            return lines
        return [f"_shell.answer({text!r})\n"]

    def completed(word: str) -> list[str]:
        return shell.completions(ipython.Completer.text_until_cursor, word)

    ipython.input_transformers_cleanup.append(commands)
    ipython.Completer.custom_matchers.append(completed)
