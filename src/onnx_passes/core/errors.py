"""Errors for users: a message, the place, a hint for the next step, and an exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

from onnx_passes.core.display import Displayed

_PACKAGE = str(Path(__file__).parent.parent)


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    VERIFICATION = 1
    USAGE = 2
    PASS = 3
    INTERNAL = 4
    UNVERIFIED = 5


class OnnxPassesError(Exception, Displayed):
    """Base of all errors raised on purpose.

    ``what`` is one sentence, ``where`` names the file, node or key, ``hint`` is what to do next. In notebooks it is
    shown without the frames of this package; if the user's code raised, with the lines of that code.
    """

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython prints instead of a traceback."""
        import traceback

        lines = str(self).split("\n")
        if not lines[0].startswith(type(self).__name__):
            lines[0] = f"{type(self).__name__}: {lines[0]}"
        cause = self.__cause__
        if cause is None or isinstance(cause, OnnxPassesError):
            return lines
        frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if _PACKAGE not in frame.filename]
        return [*lines, *(line.rstrip("\n") for line in traceback.format_list(frames))]


class UsageError(OnnxPassesError):
    """Request of the user that cannot be carried out."""

    exit_code = ExitCode.USAGE


class ModelError(UsageError):
    """A model cannot be read, represented or written."""


class ConfigError(UsageError):
    """The configuration has an unknown key or a value of the wrong type."""


class RegistrationError(UsageError):
    """A pass cannot be registered under the given names."""


class UnknownPassError(UsageError):
    """A name is neither a pass nor a group."""


class OptionError(UsageError):
    """A pass has no such option, or the value does not fit its type."""


class PlanError(UsageError):
    """Declared dependencies contradict each other."""


class PassFailedError(OnnxPassesError):
    """A pass raised an exception, or broke its contract."""

    exit_code = ExitCode.PASS


class ContractError(PassFailedError):
    """A pass made a change that its kind forbids, or misreported whether it changed the model."""


class RewriteError(PassFailedError):
    """The check or the rewrite of a rule raised, or built something invalid."""


class BudgetError(PassFailedError):
    """A rule set exceeded its number of applications."""


class StructureError(PassFailedError):
    """The model does not have a required structure."""

    exit_code = ExitCode.VERIFICATION


def did_you_mean(word: str, known: Iterable[str], *, at_most: int = 3) -> str | None:
    """Name the nearest known words, as a hint for an error."""
    folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), folded, n=at_most, cutoff=0.6)
    if not near:
        return None
    names = [f"'{folded[name]}'" for name in near]
    return "did you mean " + (" or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]) + "?"
