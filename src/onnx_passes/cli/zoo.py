"""Incremental runs of a pipeline on a zoo; every result is added to the manifest at once."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.cli.batch import line_of, stop_if_interrupted
from onnx_passes.cli.jobs import Job
from onnx_passes.cli.settings import settings
from onnx_passes.cli.work import Answer, Request, Task, answers, do
from onnx_passes.core.errors import ExitCode

if TYPE_CHECKING:
    from onnx_passes.workers.cluster import Cluster
    from onnx_passes.zoo.comparison import ZooComparison
    from onnx_passes.zoo.manifest import Deciding, Manifest, ModelRow
    from onnx_passes.zoo.pending import Policy

_MOST = 40
"""Number of models in the table on the terminal; the page has all."""


@dataclass(frozen=True)
class Zoo:
    """Folder of results after a run: the rows of the requested models, and the models that ran."""

    folder: Path
    rows: Mapping[str, ModelRow]
    ran: frozenset[str]
    reasons: Mapping[str, int]
    gone: Sequence[str]

    @property
    def unverified(self) -> list[ModelRow]:
        """List the models that could not be verified."""
        return [row for row in self.rows.values() if row.status == "unverified"]

    @property
    def exit_code(self) -> int:
        """Return the worst exit code of all models."""
        return max((row.exit_code for row in self.rows.values()), default=ExitCode.OK)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        models = [{**row.to_json(), "ran": name in self.ran} for name, row in self.rows.items()]
        return {
            "folder": str(self.folder),
            "ran": len(self.ran),
            "up_to_date": len(self.rows) - len(self.ran),
            "statuses": dict(Counter(row.status for row in self.rows.values())),
            "reasons": dict(self.reasons),
            "gone": list(self.gone),
            "models": models,
        }


def run_zoo(
    folder: Path,
    jobs: Sequence[Job],
    request: Request,
    deciding: Deciding,
    policy: Policy,
    *,
    cluster: Callable[[], AbstractContextManager[Cluster]],
    quiet: bool,
) -> Zoo:
    """Run the models that are not up to date; workers are started only if needed."""
    from onnx_passes.graph.atomic import remove_leftovers
    from onnx_passes.zoo.manifest import opened
    from onnx_passes.zoo.pending import drop_gone, pending

    jobs = [replace(job, source=job.source.absolute(), target=job.target.absolute()) for job in jobs]
    with opened(folder) as manifest:
        remove_leftovers(folder)
        gone = drop_gone(manifest, jobs)
        waiting, reasons = pending(manifest, jobs, deciding, policy)
        run = manifest.begin(deciding, len(jobs), len(jobs) - len(waiting))
        if waiting:
            _remove_abandoned(waiting)
            # The largest first, so that no process is idle at the end.
            waiting.sort(key=_size, reverse=True)
            with cluster() as workers:
                _work(manifest, run, workers, waiting, request, quiet=quiet)
        rows, names = manifest.rows(), {job.name for job in jobs}
        asked = {name: row for name, row in rows.items() if name in names}
        zoo = Zoo(folder, asked, frozenset(job.name for job in waiting), reasons, gone)
        manifest.finish(run, zoo.exit_code)
    return zoo


def do_and_look(task: Task) -> Answer:
    """Run one model in a worker, and return the state of its files before, and of the results."""
    from onnx_passes.workers.origin import own_origin
    from onnx_passes.zoo.contents import contents_of

    job, request = task
    with contextlib.suppress(Exception), request.holding():
        # An error here occurs again in the run, which reports it.
        _load_once(request.passes, request.config_file)
    cpu, wall = _cpu(), time.monotonic()
    source = contents_of(job.source)
    answer = do(task)
    if "record" in answer:
        answer["record"].pop("steps", None)
        answer["output"] = contents_of(job.target)
    return {**answer, "source": source, "cpu": _cpu() - cpu, "wall": time.monotonic() - wall, "origin": own_origin()}


@cache
def _load_once(passes: tuple[str, ...], config_file: str | None) -> None:
    """Import and compile the passes, so that this time is not counted for the first model."""
    from onnx_passes.rewrite.together import Together

    for _, step in settings(config_file, passes, quiet=True).plan().walk():
        if isinstance(step.pass_, Together):
            step.pass_.compile()


def show_zoo(zoo: Zoo, page: Path) -> None:
    """Print a table of the models that ran, and all failures, also earlier ones."""
    from onnx_passes.graph.wording import count
    from onnx_passes.report.summary import models_table
    from onnx_passes.report.tables import standard_error

    ran = [row for name, row in zoo.rows.items() if name in zoo.ran]
    failed = [row for row in zoo.rows.values() if not row.is_written]
    shown = [row for row in ran if row.is_written or len(ran) <= _MOST][:_MOST]
    if shown:
        console = standard_error()
        console.print(models_table([_table_row(row) for row in shown], console.width))
    if len(ran) > len(shown):
        click.echo(f"… and {len(ran) - len(shown)} more: {page}", err=True)
    for row in failed[:_MOST]:
        before = "" if row.model in zoo.ran else " (in an earlier run, nothing has changed)"
        click.echo(f"{row.source}: {row.status}{before}: {row.message}", err=True)
    if len(failed) > _MOST:
        click.echo(f"… and {len(failed) - _MOST} more that failed: {page}", err=True)
    warn_unverified(zoo)
    why = ", ".join(f"{number} {reason}" for reason, number in zoo.reasons.items())
    told = [
        f"{len(zoo.ran)} ran{f' ({why})' if why else ''}",
        f"{len(zoo.rows) - len(zoo.ran)} up to date",
        *([f"{len(zoo.unverified)} unverified"] if zoo.unverified else []),
        *([f"{len(failed)} failed"] if failed else []),
        *([f"{len(zoo.gone)} gone"] if zoo.gone else []),
    ]
    click.echo(f"{count(zoo.rows, 'model')}: {', '.join(told)}; {page}", err=True)


def warn_unverified(zoo: Zoo) -> None:
    """Print the models that could not be verified, with the reason, also with --quiet."""
    for row in zoo.unverified[:_MOST]:
        click.echo(f"warning: {row.source} could not be verified: {row.message.splitlines()[0]}", err=True)
    if len(zoo.unverified) > _MOST:
        click.echo(f"warning: {len(zoo.unverified) - _MOST} more could not be verified", err=True)


def show_comparison(found: ZooComparison) -> None:
    """Print the models that got worse or better."""
    from onnx_passes.graph.wording import count
    from onnx_passes.report.columns import Column
    from onnx_passes.report.tables import Row, fitted_table, standard_error

    rows: list[Row] = [
        (["worse" if one.is_worse else "better", one.model, one.what, one.old, one.new], "red" if one.is_worse else "")
        for one in (*found.worse, *found.better)
    ]
    if rows:
        columns = [
            Column(""),
            Column("model", shorten="front", least=16),
            Column("what"),
            Column("before", shorten="end", least=12),
            Column("after", shorten="end", least=16),
        ]
        console = standard_error()
        console.print(fitted_table(columns, rows, console.width))
    totals = {name: tuple(f"{number:,.6g}" for number in pair) for name, pair in found.totals.items()}
    told = ", ".join(f"{name.replace('_', ' ')} {old} → {new}" for name, (old, new) in totals.items() if old != new)
    click.echo(f"{count(range(found.both), 'model')} in both: {told or 'no difference in total'}", err=True)
    for what, names in (("only in the old", found.only_old), ("only in the new", found.only_new)):
        if names:
            click.echo(f"{len(names)} {what}: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}", err=True)
    if found.changed:
        click.echo(f"{len(found.changed)} changed: of these only failures are compared", err=True)
    click.echo(f"{len(found.worse)} worse, {len(found.better)} better", err=True)


def _work(
    manifest: Manifest, run: int, cluster: Cluster, jobs: Sequence[Job], request: Request, *, quiet: bool
) -> None:
    for number, (job, answer) in enumerate(answers(cluster, jobs, request, do_and_look), 1):
        stop_if_interrupted(answer)
        manifest.record(_row_of(job, answer, run))
        if not quiet and sys.stderr.isatty():
            click.echo(f"[{number}/{len(jobs)}] {line_of(job, answer)}", err=True)


def _row_of(job: Job, answer: Answer, run: int) -> ModelRow:
    from onnx_passes.zoo.contents import contents_of, digest_of
    from onnx_passes.zoo.manifest import ModelRow, now

    source = answer.get("source") or contents_of(job.source)
    row = ModelRow(
        job.name,
        run,
        str(job.source),
        digest_of(source),
        source,
        "ok",
        cpu_seconds=round(answer.get("cpu", 0.0), 4),
        wall_seconds=round(answer.get("wall", 0.0), 4),
        finished=now(),
    )
    if "origin" in answer:
        row = replace(row, host=answer["origin"].host, computed_with=dict(answer["origin"].versions))
    if "error" in answer:
        error = answer["error"]
        status = "lost" if error["kind"] == "lost" else "failed"
        return replace(row, status=status, kind=error["kind"], exit_code=error["exit_code"], message=error["message"])
    record, size, output = answer["record"], answer["summary"]["bytes"], answer["output"]
    pairs = {
        f"{what}_{when}": value
        for what, pair in {**{key: record[key] for key in ("nodes", "operators", "parameters")}, "bytes": size}.items()
        for when, value in zip(("before", "after"), pair, strict=True)
    }
    return replace(
        row,
        **pairs,
        status="unverified" if answer["summary"]["obstacle"] else "ok",
        message=answer["summary"]["obstacle"],
        evidence=record.get("level", ""),
        output=str(job.target),
        output_digest=digest_of(output),
        output_files=output,
    )


def _size(job: Job) -> int:
    try:
        return job.source.stat().st_size
    except OSError:
        return 0


def _remove_abandoned(jobs: Sequence[Job]) -> None:
    """Remove the weights of models that were killed while they were saved."""
    from onnx_passes.graph.data_files import remove_unnamed
    from onnx_passes.graph.origin import FORMATS

    beside = [job.target.with_name(f"{job.target.name}.data") for job in jobs if not job.target.exists()]
    remove_unnamed([path for path in beside if path.is_file()], FORMATS)


def _table_row(row: ModelRow) -> tuple[str, Any, str]:
    from onnx_passes.report.summary import RunSummary

    if not row.is_written:
        return row.model, None, f"{row.status}: {row.message}"
    nodes = row.nodes_before or 0, row.nodes_after or 0
    size = row.bytes_before or 0, row.bytes_after or 0
    return row.model, RunSummary(nodes, size, (None, None), row.cpu_seconds, row.evidence), row.status


def _cpu() -> float:
    """Return the processor seconds of this process and of its finished children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
