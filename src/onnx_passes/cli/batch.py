"""One pipeline on several models: workers run them, one table shows the results, the exit code is the worst one."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.cli.failures import INTERRUPTED, TERMINATED
from onnx_passes.cli.work import Answer, Request, answers, exit_code
from onnx_passes.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from onnx_passes.cli.jobs import Job
    from onnx_passes.workers.cluster import Cluster

Done = tuple["Job", Answer]


def run_batch(cluster: Cluster, jobs: Sequence[Job], request: Request, *, quiet: bool, as_json: bool) -> ExitCode | int:
    """Run all models, show the results, and return the worst exit code; a failure does not stop the others."""
    done: list[Done] = []
    for job, answer in answers(cluster, jobs, request):
        done.append((job, answer))
        stop_if_interrupted(answer)
        if not quiet and sys.stderr.isatty():
            click.echo(f"[{len(done)}/{len(jobs)}] {line_of(job, answer)}", err=True)
    order = {job: number for number, job in enumerate(jobs)}
    done.sort(key=lambda pair: order[pair[0]])
    worst = max((exit_code(answer) for _, answer in done), default=ExitCode.OK)
    if as_json:
        models = [_document(job, answer) for job, answer in done]
        click.echo(json.dumps({"exit_code": int(worst), "models": models}, indent=2, default=str))
    _show(done, quiet=quiet)
    return worst


def stop_if_interrupted(answer: Answer) -> None:
    """Raise KeyboardInterrupt if a worker was interrupted."""
    if exit_code(answer) in (INTERRUPTED, TERMINATED):
        raise KeyboardInterrupt


def refuse_for_several(**files: str | None) -> None:
    """Refuse options that name an output file for a single model."""
    for option, file in files.items():
        if file is not None:
            raise UsageError(f"--{option} takes one model, but several are given", hint="--json has all of them")


def _document(job: Job, answer: Answer) -> dict[str, Any]:
    head = {"model": str(job.source), "output": None if "error" in answer else str(job.target)}
    if "error" in answer:
        return {**head, "status": "failed", "error": answer["error"]}
    status = "unverified" if answer["summary"]["obstacle"] else "ok"
    return {**head, "status": status, "file_bytes": answer["summary"]["bytes"], "record": answer["record"]}


def line_of(job: Job, answer: Answer) -> str:
    """Return one line with the result of a model."""
    from onnx_passes.report.summary import RunSummary

    if "error" in answer:
        return f"{job.name}: failed: {answer['error']['message']}"
    return RunSummary.from_json(answer["summary"]).line(job.name)


def _show(done: Sequence[Done], *, quiet: bool) -> None:
    """Print the table unless --quiet is given, then all failures."""
    from onnx_passes.graph.wording import count
    from onnx_passes.report.summary import RunSummary, models_table
    from onnx_passes.report.tables import standard_error

    failed = [(job, answer) for job, answer in done if "error" in answer]
    if not quiet:
        rows = [
            (job.name, None, f"failed: {answer['error']['message']}")
            if "error" in answer
            else (
                job.name,
                summary := RunSummary.from_json(answer["summary"]),
                "unverified" if summary.obstacle else "ok",
            )
            for job, answer in done
        ]
        console = standard_error()
        console.print(models_table(rows, console.width))
        for job, answer in done:
            for note in answer.get("notes", ()):
                click.echo(f"{job.name}: note: {note}", err=True)
    made = [(job, RunSummary.from_json(answer["summary"])) for job, answer in done if "error" not in answer]
    warnings = [warning for job, summary in made if (warning := summary.warning(job.name))]
    for warning in warnings:
        click.echo(warning, err=True)
    for job, answer in failed:
        text = str(answer["text"]).removeprefix("onnx-passes: ")
        click.echo(text if text.startswith(str(job.source)) else f"{job.source}: {text}", err=True)
    if not quiet:
        unverified = f", {len(warnings)} not verified" if warnings else ""
        click.echo(f"{count(done, 'model')}, {len(made)} written{unverified}, {len(failed)} failed", err=True)
