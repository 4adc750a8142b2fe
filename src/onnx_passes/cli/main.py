"""Entry point of ``onnx-passes``: commands, exit codes, and error messages."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence

import click
from click.shell_completion import CompletionItem

import onnx_passes
from onnx_passes.cli.complete import models_and_passes
from onnx_passes.cli.failures import ErrorReport, failure_of
from onnx_passes.cli.signals import Terminated, cleaning_up
from onnx_passes.core.collector import patient_collector
from onnx_passes.core.errors import ExitCode, RegistrationError
from onnx_passes.core.imports import postponed
from onnx_passes.core.registry import REGISTRY

COMMANDS = (
    *("run", "batch", "watch", "list", "explain", "plan", "inspect", "draw", "view", "export-layers", "run-model"),
    *("verify", "certify", "diff", "report", "bisect", "reduce", "repro", "why", "why-not"),
    *("shell", "fuzz", "prove", "new", "demo", "completion"),
)
DEFAULT = "run"
_SELDOM_NEEDED = ("sympy", "onnx_ir._symbolic_shapes")
"""Modules that onnx_ir imports for arithmetic on dimensions, which most commands never do, and which cost half of its
import."""
VARIABLE = "_ONNX_PASSES_COMPLETE"
"""Environment variable by which a shell asks for completions."""

_EPILOG = """\b
Exit codes: 0 ok, 1 verification failed, 2 usage or bad input, 3 a pass failed, 4 internal error,
5 --require is given, but the model could not be run.
'run' is the default command, with passes after the model or before it:
  onnx-passes -o out.onnx model.onnx cleanup      onnx-passes simplify in.onnx out.onnx
  onnx-passes -o out/ -j 4 models/ simplify       a whole folder; docs/how-to/everyday.md has more"""


class LazyGroup(click.Group):
    """Group that imports a command on first use; arguments without a command are those of ``run``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the file of a command."""
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(f"onnx_passes.cli.commands.{cmd_name.replace('-', '_')}").command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the first word: a command, a model, a pass, or an option of ``run``."""
        found, plain = super().shell_complete(ctx, incomplete), self.get_command(ctx, DEFAULT)
        assert plain is not None
        if incomplete.startswith("-"):
            return [*found, *plain.shell_complete(ctx, incomplete)]
        return [*found, *models_and_passes(ctx, plain.params[0], incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, which is ``run`` if the first word that is not an option is not a command."""
        plain = self.get_command(ctx, DEFAULT)
        assert plain is not None
        first = _options_at_the_front(plain, args)
        if first < len(args) and args[first] in COMMANDS:
            return super().resolve_command(ctx, [args[first], *args[:first], *args[first + 1 :]])
        return DEFAULT, plain, args


def _options_at_the_front(command: click.Command, args: Sequence[str]) -> int:
    """Count the leading arguments that are options of a command or their values."""
    takes_value = {
        name: not (option.is_flag or option.count)
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }
    at = 0
    while at < len(args) and (name := args[at].partition("=")[0]) in takes_value:
        at += 2 if takes_value[name] and "=" not in args[at] else 1
    return at


@click.group(
    cls=LazyGroup,
    name="onnx-passes",
    epilog=_EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "max_content_width": 110,
    },
    invoke_without_command=False,
)
@click.version_option(onnx_passes.__version__, prog_name="onnx-passes")
def cli() -> None:
    """ONNX graph passes you can trust: transform, analyse and verify ONNX models."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the console script exits with it."""
    if arguments is not None:
        return run_command_line(list(arguments))
    with patient_collector(), postponed(*_SELDOM_NEEDED):
        sys.exit(run_command_line(sys.argv[1:]))


def run_command_line(arguments: list[str], *, failed: Callable[[ErrorReport], None] | None = None) -> int:
    """Run a command; print an error as one message, in text or JSON, and return the exit code."""
    stdout = sys.stdout
    if VARIABLE in os.environ:
        from onnx_passes.cli.shells import register

        register()
    REGISTRY.broken_plugin = _note
    as_json, debug = "--json" in arguments, "--debug" in arguments or bool(os.environ.get("ONNX_PASSES_DEBUG"))
    try:
        with cleaning_up():
            result = cli.main(arguments, prog_name="onnx-passes", standalone_mode=False)
    except SystemExit:
        # Click wraps standard output and exits if its reader is gone, which is not an error of the run.
        if sys.stdout is stdout:
            raise
        return ExitCode.OK
    except (Exception, KeyboardInterrupt, Terminated) as error:
        failure = failure_of(error)
        if failed is not None:
            failed(failure)
        code = failure.show(as_json=as_json)
        if debug and not isinstance(error, click.ClickException | click.Abort | KeyboardInterrupt | Terminated):
            raise
        return code
    return result if isinstance(result, int) else ExitCode.OK


def _note(error: RegistrationError) -> None:
    """Note that a plug-in cannot be used."""
    click.echo(f"note: {error}", err=True)
