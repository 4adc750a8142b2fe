"""``onnx-passes run``: apply passes to a model; the default if no command is named."""

from __future__ import annotations

import json
from pathlib import Path

import click

from onnx_passes.cli.choices import Choices, checking_options
from onnx_passes.cli.clusters import at_once, cluster_asked, cluster_for_models, cluster_options
from onnx_passes.cli.complete import models_and_passes
from onnx_passes.cli.execution import Done, execute
from onnx_passes.cli.files import require_writable, write_text
from onnx_passes.cli.interface import interface_options
from onnx_passes.cli.options import config_option, running_options
from onnx_passes.cli.settings import settings
from onnx_passes.cli.words import Words, names_folder, require_first, sort_words
from onnx_passes.core.errors import ExitCode, UsageError


@click.command("run", short_help="Apply passes to a model (the default).")
@click.argument("words", nargs=-1, metavar="MODEL… [PASS]…", shell_complete=models_and_passes)
@config_option
@interface_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File for the result, or folder for several [default: standard output, as text].",
)
@cluster_options
@click.option("--record", metavar="FILE", help="Write the record of the run (JSON) to a file.")
@click.option("--report", metavar="FILE", help="Write a page that shows every rewrite; a .json file has its data.")
@click.option("--trace", metavar="FILE", help="Write a timeline for Perfetto or Chrome (JSON).")
@click.option("-s", "--state", metavar="FILE", help="State file of version 0.4: ignored.")
@click.option("--in-place", is_flag=True, help="Write the result over the input file.")
@click.option(
    "--external/--no-external", default=None, help="Keep weights in a file of their own [default: as in the input]."
)
@click.option("--share-data", is_flag=True, help="Leave weights in the data file of the input, which must stay there.")
@click.option("--print-changed", is_flag=True, help="Show the difference that every pass made.")
@click.option("--keep-intermediates", metavar="DIR", help="Save the model after every pass that changed it.")
@click.option("--time", is_flag=True, help="Show how often every rule was tried and applied, and its cost.")
@click.option("--evidence", is_flag=True, help="Show the evidence of every rewrite, and the facts that it uses.")
@click.option(
    "--measure", is_flag=True, help="Time the model in ONNX Runtime with its default options, before and after."
)
@checking_options
@click.option(
    "--dump", metavar="DIR", help="Save all values of the first sample after every pass that changed the model."
)
@click.option("--dump-limit", metavar="SIZE", help="Total size of --dump [default: 1GiB].")
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
@running_options
def command(words: tuple[str, ...], config_file: str | None, **options: object) -> int:
    """Apply passes to MODEL, a file or '-' for standard input, or to several files and folders of .onnx.

    PASS… is a pipeline: names of passes and groups, as words or as text such as
    'cleanup, fixpoint{max=20}(algebraic, reorder)'. Without passes the model is loaded and written again.

    Passes may also come first, and then the output last, as in 'onnx-passes simplify in.onnx out.onnx'. Names of passes
    take precedence over files: write './simplify' for a file of that name.
    """
    if not words:
        raise click.UsageError("Missing argument 'MODEL'.", click.get_current_context())
    choices = Choices(**options)  # pyright: ignore[reportArgumentType]
    sorted_ = sort_words(words, has_output=choices.output is not None or choices.in_place)
    return _run(sorted_, config_file, choices)


def _run(words: Words, config_file: str | None, choices: Choices) -> int:
    from onnx_passes.cli.main import COMMANDS

    require_first(words.models[0], COMMANDS)
    output = choices.output or words.output
    if choices.in_place and (output is not None or "-" in words.models):
        raise click.UsageError("--in-place needs an input file, and excludes --output.")
    is_folder = any(Path(model).is_dir() for model in words.models) or (output is not None and names_folder(output))
    if len(words.models) == 1 and not is_folder:
        return _run_one(words.models[0], output, words.passes, config_file, choices)
    if output is None and not choices.in_place:
        raise UsageError(
            "several models need a folder for their results",
            hint="name it with -o, or write 'onnx-passes simplify in.onnx out.onnx' for one",
        )
    from onnx_passes.cli.batch import refuse_for_several, run_batch
    from onnx_passes.cli.jobs import jobs_of
    from onnx_passes.cli.work import Request

    refuse_for_several(record=choices.record, report=choices.report, trace=choices.trace)
    jobs = jobs_of(words.models, output)
    settings(config_file, words.passes, quiet=choices.quiet).plan()
    request = Request.of_command(words.passes, config_file, choices, at_once(choices.jobs))
    with cluster_for_models(choices.jobs, choices.scheduler, choices.store) as cluster:
        return run_batch(cluster, jobs, request, quiet=choices.quiet, as_json=choices.as_json)


def _run_one(
    source: str, output: str | None, passes: tuple[str, ...], config_file: str | None, choices: Choices
) -> int:
    target = source if choices.in_place else output or "-"
    if choices.share_data and (target == "-" or choices.external is not None):
        raise click.UsageError("--share-data needs --output or --in-place, and excludes --external.")
    if not choices.in_place and "-" not in (target, source) and _is_same_file(Path(target), Path(source)):
        raise UsageError("the output is the input file", where=target, hint="use --in-place to overwrite it")
    for beside in (choices.record, choices.report, choices.trace):
        _refuse_same_as_model(beside, (source, target))
    _ignore_state(choices)
    for path in (output, choices.record, choices.report, choices.trace):
        require_writable(path)
    with cluster_asked(choices.jobs, choices.scheduler, choices.store) as cluster:
        done = execute(source, target, passes, config_file, choices, cluster)
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    _report(done, source, choices)
    return ExitCode.OK


def _ignore_state(choices: Choices) -> None:
    """Note that a state is ignored; version 0.4 stored it as a pickle, which could run any code."""
    if choices.state is None:
        return
    if not Path(choices.state).exists():
        raise UsageError(
            "the state file does not exist", where=choices.state, hint="the record of a run is written by --record FILE"
        )
    if not choices.quiet:
        click.echo(
            f"legacy: {choices.state} is not read: runs need no state; --record FILE writes the record of one", err=True
        )


def _refuse_same_as_model(file: str | None, models: tuple[str, ...]) -> None:
    if file is not None and any(Path(file).resolve() == Path(model).resolve() for model in models):
        raise UsageError(
            "this file would overwrite the model", where=file, hint="give the record or report a file of its own"
        )


def _is_same_file(a: Path, b: Path) -> bool:
    return a.is_file() and b.is_file() and a.samefile(b)


def _report(done: Done, source: str, choices: Choices) -> None:
    record = done.result.record
    name = "standard input" if source == "-" else Path(source).name
    if warning := done.summary.warning(name):
        # Also with --quiet: an unverified result must not look like a verified one.
        click.echo(warning, err=True)
    if choices.record is not None:
        write_text(choices.record, json.dumps(record.to_json(), indent=2, default=str) + "\n")
    if choices.as_json:
        click.echo(json.dumps(record.to_json(), indent=2, default=str))
    if not choices.quiet:
        from onnx_passes.report.proofs import show_proofs
        from onnx_passes.report.tables import show_run

        show_run(record, rules=choices.time)
        show_proofs(record, table=choices.evidence)
        click.echo(done.summary.line(name), err=True)
