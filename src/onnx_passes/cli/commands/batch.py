"""``onnx-passes batch``: apply passes to a zoo of models incrementally, and compare runs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.choices import Choices, checking_options
from onnx_passes.cli.clusters import at_once, cluster_for_models, cluster_options
from onnx_passes.cli.complete import models_and_passes
from onnx_passes.cli.deciding import deciding_of
from onnx_passes.cli.interface import interface_options
from onnx_passes.cli.jobs import jobs_of
from onnx_passes.cli.options import IMPORTS, config_option, running_options
from onnx_passes.cli.settings import settings
from onnx_passes.cli.words import sort_words
from onnx_passes.cli.work import Request
from onnx_passes.cli.zoo import Zoo, run_zoo, show_comparison, show_zoo, warn_unverified
from onnx_passes.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from onnx_passes.zoo.comparison import DifferenceThresholds, ZooComparison


@click.command("batch", short_help="Apply passes to a zoo of models, and compare runs.")
@click.argument("words", nargs=-1, metavar="MODEL… [PASS]…", shell_complete=models_and_passes)
@config_option
@interface_options
@click.option("-o", "--output", metavar="DIR", help="Folder for results, manifest.sqlite and index.html.")
@cluster_options
@click.option("--retry-failed", is_flag=True, help="Run failed models again although nothing has changed.")
@click.option("--again", is_flag=True, help="Run all models again.")
@click.option("--compare", metavar="DIR", help="Folder of an earlier run: list what got worse, and exit with 1 if so.")
@click.option(
    "--slower",
    type=float,
    default=1.5,
    metavar="FACTOR",
    show_default=True,
    help="A run slower by this factor is worse …",
)
@click.option(
    "--slower-by",
    type=float,
    default=0.5,
    metavar="SECONDS",
    show_default=True,
    help="… if it is also slower by this time.",
)
@click.option(
    "--larger",
    type=float,
    default=1.01,
    metavar="FACTOR",
    show_default=True,
    help="A file larger by this factor is worse.",
)
@click.option(
    "--external/--no-external", default=None, help="Keep weights in a file of their own [default: as in the input]."
)
@checking_options
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
@running_options
def command(
    words: tuple[str, ...],
    config_file: str | None,
    retry_failed: bool,
    again: bool,
    compare: str | None,
    slower: float,
    slower_by: float,
    larger: float,
    **options: object,
) -> int:
    """Apply passes to MODEL…: files, folders and patterns such as 'zoo/**/*.onnx'; skip models that are up to date.

    A model runs if it is new, if its content, the pipeline, an option or a version has changed, if its result is gone,
    or if its process was lost; after a kill, the same command continues where it stopped. Results go to the folder of
    -o, the outcome of each model to manifest.sqlite there (SQLite), and a summary to index.html.

    'onnx-passes batch --compare old/ new/' compares two folders and runs nothing.
    """
    from onnx_passes.zoo.comparison import DifferenceThresholds
    from onnx_passes.zoo.pending import Policy

    choices = Choices(**options)  # pyright: ignore[reportArgumentType]
    thresholds = DifferenceThresholds(slower, slower_by, larger)
    if compare is not None and choices.output is None:
        return _compare(words, Path(compare), thresholds, choices)
    if not words or choices.output is None:
        raise UsageError(
            "a batch needs models, passes and a folder", hint="write 'onnx-passes batch zoo/ -o out/ simplify'"
        )
    sorted_ = sort_words(words, has_output=True)
    jobs = jobs_of(sorted_.models, choices.output)
    chosen = settings(config_file, sorted_.passes, quiet=choices.quiet)
    planned = chosen.plan()
    deciding = deciding_of(chosen, planned, choices, click.get_current_context().meta.get(IMPORTS, ()))
    zoo = run_zoo(
        Path(choices.output),
        jobs,
        Request.of_command(sorted_.passes, config_file, choices, at_once(choices.jobs)),
        deciding,
        Policy(again, retry_failed),
        cluster=partial(cluster_for_models, choices.jobs, choices.scheduler, choices.store),
        quiet=choices.quiet,
    )
    return _tell(zoo, None if compare is None else Path(compare), thresholds, choices)


def _tell(zoo: Zoo, old: Path | None, thresholds: DifferenceThresholds, choices: Choices) -> int:
    """Write the page and print the results; return 1 if a model got worse than in the old run, else 0."""
    from onnx_passes.zoo.comparison import compare_folders

    found = None if old is None else compare_folders(old, zoo.folder, thresholds)
    page = _write_page(zoo.folder, found)
    code = zoo.exit_code if found is None else ExitCode.VERIFICATION if found.worse else ExitCode.OK
    if choices.as_json:
        compared = {} if found is None else {"comparison": found.to_json()}
        told = {"exit_code": int(code), **zoo.to_json(), "page": str(page), **compared}
        click.echo(json.dumps(told, indent=2, default=str))
    if choices.quiet:
        warn_unverified(zoo)
    else:
        show_zoo(zoo, page)
        if found is not None:
            show_comparison(found)
    return code


def _compare(words: tuple[str, ...], old: Path, thresholds: DifferenceThresholds, choices: Choices) -> int:
    """Compare two folders, and write the page of the newer one."""
    from onnx_passes.zoo.comparison import compare_folders

    if len(words) != 1:
        raise UsageError(
            "--compare without -o needs two folders",
            hint="write 'onnx-passes batch --compare old/ new/', or name -o to run first",
        )
    new = Path(words[0])
    found = compare_folders(old, new, thresholds)
    page = _write_page(new, found)
    code = ExitCode.VERIFICATION if found.worse else ExitCode.OK
    if choices.as_json:
        click.echo(json.dumps({"exit_code": int(code), "page": str(page), **found.to_json()}, indent=2))
    if not choices.quiet:
        show_comparison(found)
    return code


def _write_page(folder: Path, found: ZooComparison | None) -> Path:
    """Write the page of all models in a folder, including those not in this run."""
    from onnx_passes.zoo.manifest import read
    from onnx_passes.zoo.page import write_page

    with read(folder) as manifest:
        return write_page(folder, manifest.rows(), manifest.runs(), found)
