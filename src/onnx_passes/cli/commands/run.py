"""``onnx-passes run``: apply passes to a model; also what runs when no command is named."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from onnx_passes.cli.batch import load_once, refuse_for_several, run_batch
from onnx_passes.cli.clusters import cluster_asked, cluster_options
from onnx_passes.cli.complete import models_and_passes
from onnx_passes.cli.execution import Done, execute
from onnx_passes.cli.files import require_writable, write_text
from onnx_passes.cli.interface import interface_options
from onnx_passes.cli.jobs import Job, jobs_of
from onnx_passes.cli.options import config_option, running_options
from onnx_passes.cli.processes import Answer, sharing_processors
from onnx_passes.cli.settings import settings
from onnx_passes.cli.words import Words, names_folder, require_first, sort_words
from onnx_passes.core.errors import ExitCode, UsageError

_FOLDERS = ("keep_intermediates", "dump", "repro")
"""What a run leaves beside its result, if it is asked to or fails."""


@dataclass(frozen=True)
class Choices:
    """What the command line asks for besides the passes."""

    output: str | None
    jobs: int
    scheduler: str | None
    store: str | None
    state: str | None
    record: str | None
    report: str | None
    trace: str | None
    in_place: bool
    external: bool | None
    share_data: bool
    print_changed: bool
    keep_intermediates: str | None
    time: bool
    measure: bool
    limit: int | None
    paranoid: bool
    verify: str | None
    tolerance: str | None
    seed: int
    samples: int | None
    special: bool | None
    inputs: tuple[str, ...]
    expect: tuple[str, ...]
    metrics: tuple[str, ...]
    dataset: tuple[str, ...]
    batch: int | None
    structure: tuple[str, ...]
    dump: str | None
    dump_limit: str | None
    require: str | None
    memory: str | None
    repro: str
    quiet: bool
    as_json: bool


@click.command("run", short_help="Apply passes to a model (the default).")
@click.argument("words", nargs=-1, metavar="MODEL… [PASS]…", shell_complete=models_and_passes)
@config_option
@interface_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where the model goes, or the folder for several; without it, to standard output as text.",
)
@cluster_options
@click.option("--record", metavar="FILE", help="Write the record of the run (JSON) to a file.")
@click.option("--report", metavar="FILE", help="Write a page that shows every rewrite; as .json, its data.")
@click.option("--trace", metavar="FILE", help="Write when what was done, for Perfetto or Chrome (JSON).")
@click.option("-s", "--state", metavar="FILE", help="State of version 0.4, which is not needed: never read or written.")
@click.option("--in-place", is_flag=True, help="Write the result over the input file.")
@click.option(
    "--external/--no-external", default=None, help="Keep weights in a file of their own [default: as in the input]."
)
@click.option("--share-data", is_flag=True, help="Leave weights in the data file of the input, which must stay there.")
@click.option("--print-changed", is_flag=True, help="Show the difference that every pass made.")
@click.option("--keep-intermediates", metavar="DIR", help="Save the model after every pass that changed it.")
@click.option("--time", is_flag=True, help="Show what every rule tried, applied and cost.")
@click.option("--measure", is_flag=True, help="Time the model in ONNX Runtime as it runs by default, before and after.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N rule applications.")
@click.option("--paranoid", is_flag=True, help="Check the contract of every pass, and the whole model after it.")
@click.option("--verify", type=click.Choice(["each", "final", "off"]), help="When to run and compare [default: each].")
@click.option(
    "--tolerance", metavar="ATOL[,RTOL]", help="How far results may be from the original [default: 1e-5,1e-4]."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated inputs.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many inputs to generate [default: 3 or more].",
)
@click.option(
    "--special/--no-special",
    default=None,
    help="Try NaN, infinities, the largest and smallest numbers, too [default: on small models].",
)
@click.option(
    "--inputs", multiple=True, metavar="FILE", help="Inputs to verify with (.npy, .npz, .pb); may be repeated."
)
@click.option(
    "--expect",
    multiple=True,
    metavar="FILE",
    help="Outputs expected for the inputs or, with --metric, class labels of the dataset; may be repeated.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME[=MIN,MAX]",
    help="Measure a metric (accuracy, psnr, …, or your module:function) and require a range, also as NAME>=MIN or "
    "NAME<=MAX; may be repeated.",
)
@click.option(
    "--dataset", multiple=True, metavar="FILE", help="Inputs to measure on [default: --inputs]; may be repeated."
)
@click.option(
    "--batch", type=click.IntRange(min=1), metavar="N", help="Rows of the dataset to run at a time [default: 64]."
)
@click.option(
    "--structure",
    multiple=True,
    metavar="PROPERTY",
    help="Require a property of the graph, as 'acyclic' or 'at-most(Conv, 3)'; may be repeated.",
)
@click.option(
    "--dump", metavar="DIR", help="Save all values of the first sample after every pass that changed the model."
)
@click.option("--dump-limit", metavar="SIZE", help="How much --dump may save in all [default: 1GiB].")
@click.option(
    "--require", metavar="LEVEL", help="Fail unless every step has evidence of this level: sampled, tolerance, …"
)
@click.option("--memory", metavar="SIZE", help="How much local checks may keep in memory [default: 256MiB].")
@click.option("--repro", default="onnx-passes-repro", metavar="DIR", show_default=True, help="Where a failure is kept.")
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
@running_options
def command(words: tuple[str, ...], config_file: str | None, **options: object) -> int:
    """Apply passes to MODEL, a file or '-' for standard input; or to several, files and folders of .onnx.

    PASS… is a pipeline: names of passes and groups, as words or as text such as
    'cleanup, fixpoint{max=20}(algebraic, reorder)'. Without passes the model is loaded and written again.

    Passes may also come first, and then the output last, as in 'onnx-passes simplify in.onnx out.onnx'. A word that
    names a pass is a pass; a file of that name is written as './simplify'.
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
        raise click.UsageError("--in-place goes with an input file and without --output.")
    is_folder = any(Path(model).is_dir() for model in words.models) or (output is not None and names_folder(output))
    if len(words.models) == 1 and not is_folder:
        return _run_one(words.models[0], output, words.passes, config_file, choices)
    if output is None and not choices.in_place:
        raise UsageError(
            "several models need a folder to go to",
            hint="name it with -o, or write 'onnx-passes simplify in.onnx out.onnx' for one",
        )
    refuse_for_several(record=choices.record, report=choices.report, trace=choices.trace)
    at_once = choices.jobs or os.cpu_count() or 1
    with sharing_processors(at_once):
        jobs = jobs_of(words.models, output)
        load_once(settings(config_file, words.passes, quiet=choices.quiet).plan())
        one = partial(_run_job, passes=words.passes, config_file=config_file, choices=choices)
        return run_batch(jobs, one, at_once, quiet=choices.quiet, as_json=choices.as_json)


def _run_job(job: Job, *, passes: tuple[str, ...], config_file: str | None, choices: Choices) -> Answer:
    """Run one model of several: files that a run leaves beside its result get a folder for each."""
    own = {key: str(Path(folder) / job.name) for key in _FOLDERS if (folder := getattr(choices, key))}
    job.target.parent.mkdir(parents=True, exist_ok=True)
    require_writable(str(job.target))
    done = execute(str(job.source), str(job.target), passes, config_file, replace(choices, quiet=True, **own))
    return {"summary": vars(done.summary), "notes": done.notes, "record": done.result.record.to_json()}


def _run_one(
    source: str, output: str | None, passes: tuple[str, ...], config_file: str | None, choices: Choices
) -> int:
    target = source if choices.in_place else output or "-"
    if choices.share_data and (target == "-" or choices.external is not None):
        raise click.UsageError("--share-data goes with --output or --in-place and without --external.")
    if not choices.in_place and "-" not in (target, source) and _is_same_file(Path(target), Path(source)):
        raise UsageError("this is the input file", where=target, hint="use --in-place to overwrite it")
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
    """Say that a state is of no use here; version 0.4 kept it as a pickle, which could run anything."""
    if choices.state is None:
        return
    if not Path(choices.state).exists():
        raise UsageError(
            "there is no such state", where=choices.state, hint="the record of a run is written by --record FILE"
        )
    if not choices.quiet:
        click.echo(
            f"legacy: {choices.state} is not read: runs need no state; --record FILE writes the record of one", err=True
        )


def _refuse_same_as_model(file: str | None, models: tuple[str, ...]) -> None:
    if file is not None and any(Path(file).resolve() == Path(model).resolve() for model in models):
        raise UsageError("this is the model", where=file, hint="give the record or report a file of its own")


def _is_same_file(a: Path, b: Path) -> bool:
    return a.is_file() and b.is_file() and a.samefile(b)


def _report(done: Done, source: str, choices: Choices) -> None:
    record = done.result.record
    if choices.record is not None:
        write_text(choices.record, json.dumps(record.to_json(), indent=2, default=str) + "\n")
    if choices.as_json:
        click.echo(json.dumps(record.to_json(), indent=2, default=str))
    if not choices.quiet:
        from onnx_passes.report.tables import show_run

        show_run(record, rules=choices.time)
        click.echo(done.summary.line("standard input" if source == "-" else Path(source).name), err=True)
