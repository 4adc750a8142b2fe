"""Commands of the shell: methods of a session, written without dots, quotes and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from onnx_passes.core.errors import UsageError
from onnx_passes.session.session import Session

_LINE = re.compile(r"(?P<word>[a-z][a-z-]*)(?:\s+(?P<rest>\S.*?))?\s*", re.DOTALL)
_PYTHON = re.compile(r"[=.(\[,:]|(?:in|is|and|or|if|not)\b")
"""Text after the name of a command that shows that the line is Python."""


@dataclass(frozen=True)
class Command:
    """A command: the syntax of its arguments, and its action."""

    argument: str
    help: str
    run: Callable[[Session, str], object]


def _number(text: str) -> int:
    if text and not text.isdecimal():
        raise UsageError(f"'{text}' is no number of steps", hint="write a number, or nothing for one step")
    return int(text or 1)


def _other(text: str) -> int | str | None:
    return int(text) if text.isdecimal() else text or None


def _branch(session: Session, name: str) -> object:
    """Go to a branch, or start it here."""
    if not name:
        return "\n".join(f"{'*' if each is session else ' '} {each!r}" for each in session.branches.values())
    return session.branches.get(name) or session.branch(name)


def _why_not(session: Session, text: str) -> object:
    what, _, at = text.partition(" at ")
    return session.why_not(what.strip(), at=at.strip() or None)


def _run(session: Session, text: str) -> object:
    outputs = session.run(values=text.replace(",", " ").split())
    return "\n".join(f"{name}: {array.dtype}{list(array.shape)}\n{array}" for name, array in outputs.items())


COMMANDS = {
    "apply": Command("PASS…", "apply passes, verified", lambda s, text: s.apply(text)),
    "undo": Command("[STEPS]", "go back", lambda s, text: s.undo(_number(text))),
    "redo": Command("[STEPS]", "do again what was undone", lambda s, text: s.redo(_number(text))),
    "branch": Command("[NAME]", "go to a branch, or start it here; list them", _branch),
    "steps": Command("", "list what was done", lambda s, text: s.steps),
    "find": Command("PATTERN", "find nodes: Conv, Conv > Relu, Relu(x) + y", lambda s, text: s.find(text)),
    "matches": Command("PASS", "say where a pass would apply", lambda s, text: s.matches(text)),
    "preview": Command("PASS…", "say what passes would change", lambda s, text: s.preview(text)),
    "diff": Command(
        "[STEP|BRANCH|FILE]", "say what changed in the last step, or since", lambda s, t: s.diff(_other(t))
    ),
    "why": Command("NODE", "tell where a node came from, or went", lambda s, text: s.why(text)),
    "why-not": Command("PASS [at NODE]", "tell why a pass does not apply", _why_not),
    "run": Command("[VALUE…]", "run the model; show outputs and values inside", _run),
    "verify": Command(
        "[STEP|BRANCH|FILE]", "compare results with the original, or another", lambda s, t: s.verify(_other(t))
    ),
    "failure": Command("", "show the last step that failed", lambda s, text: s.failure or "no step failed"),
    "report": Command("FILE", "write a page that shows every rewrite", lambda s, text: f"wrote {s.report(text)}"),
    "pipeline": Command("", "print what was done as the command line takes it", lambda s, text: s.pipeline),
    "save": Command("FILE", "write the model", lambda s, text: s.save(text) and f"wrote {text}"),
}
WITH_PASSES = ("apply", "matches", "preview", "why-not")
WITH_NODES = ("why",)
HELP = ("help", "?")
QUIT = ("quit", "exit")


@dataclass(frozen=True)
class Line:
    """A line that is a command of the shell."""

    word: str
    rest: str = ""


def parse(line: str) -> Line | None:
    """Parse a command; None if the line is Python."""
    if line.strip() in HELP:
        return Line("help")
    found = _LINE.fullmatch(line.strip())
    if found is None or found["word"] not in (*COMMANDS, *HELP, *QUIT):
        return None
    rest = found["rest"] or ""
    return None if _PYTHON.match(rest) else Line(found["word"], rest)


def run(line: Line, session: Session) -> object:
    """Carry a command out; a session that comes back is the one to go on with."""
    if line.word in HELP:
        return help_text()
    command = COMMANDS[line.word]
    if not command.argument and line.rest:
        raise UsageError(f"'{line.word}' takes nothing", hint=f"write '{line.word}' alone")
    if command.argument and not command.argument.startswith("[") and not line.rest:
        raise UsageError(f"'{line.word}' needs more", hint=f"write '{line.word} {command.argument}'")
    return command.run(session, line.rest)


def help_text() -> str:
    """List the commands."""
    width = max(len(f"{name} {command.argument}") for name, command in COMMANDS.items())
    lines = [f"{f'{name} {command.argument}':{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        [*lines, f"{'quit':{width}}  leave", "", "The session is 's': s.apply(\"simplify\"); all of Python works."]
    )
