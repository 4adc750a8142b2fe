"""One pipeline on several models: each in a process of its own, one table at the end, and the worst exit code."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.cli.failures import INTERRUPTED, TERMINATED, failure_of
from onnx_passes.cli.processes import Answer, Died, map_jobs, memory_share
from onnx_passes.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from onnx_passes.cli.jobs import Job
    from onnx_passes.core.plan import Plan

Done = tuple["Job", Answer]
_SHARED = ("onnxruntime", "onnx_passes.api", "onnx_passes.report.summary")
"""What every run imports."""


def run_batch(
    jobs: Sequence[Job], one: Callable[[Job], Answer], at_once: int, *, quiet: bool, as_json: bool
) -> ExitCode | int:
    """Run all jobs, show what came of them, and return the worst exit code; a failure does not stop the rest."""

    def work(job: Job) -> Answer:
        from onnx_passes.verify.run.resources import current_resources, limited

        try:
            with limited(memory_limit=memory_share(at_once, current_resources().memory)):
                return one(job)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the others go on
            failure = failure_of(error)
            return {**failure.to_json(), "text": failure.text}

    done: list[Done] = []
    for job, answer in map_jobs(work, jobs, at_once):
        told = _of_dead(answer) if isinstance(answer, Died) else answer
        done.append((job, told))
        if _code(told) in (INTERRUPTED, TERMINATED):
            raise KeyboardInterrupt
        if not quiet and sys.stderr.isatty():
            click.echo(f"[{len(done)}/{len(jobs)}] {_line(job, told)}", err=True)
    order = {job: number for number, job in enumerate(jobs)}
    done.sort(key=lambda pair: order[pair[0]])
    worst = max((_code(answer) for _, answer in done), default=ExitCode.OK)
    if as_json:
        models = [_document(job, answer) for job, answer in done]
        click.echo(json.dumps({"exit_code": int(worst), "models": models}, indent=2, default=str))
    _show(done, quiet=quiet)
    return worst


def load_once(planned: Plan) -> None:
    """Import what all runs need, and compile the rules, before processes are copied; no model runs here."""
    for name in _SHARED:
        importlib.import_module(name)
    from onnx_passes.rewrite.together import Together

    for _, step in planned.walk():
        if isinstance(step.pass_, Together):
            step.pass_.compile()


def refuse_for_several(**files: str | None) -> None:
    """Refuse options that name a file for what is told of one model."""
    for option, file in files.items():
        if file is not None:
            raise UsageError(f"--{option} is for one model, and several are given", hint="--json has all of them")


def _of_dead(died: Died) -> Answer:
    error = {"kind": "internal", "exit_code": int(ExitCode.INTERNAL), "type": "Died", "message": str(died)}
    return {"error": error, "text": f"onnx-passes: {died}"}


def _code(answer: Answer) -> int:
    return int(answer["error"]["exit_code"]) if "error" in answer else ExitCode.OK


def _document(job: Job, answer: Answer) -> dict[str, Any]:
    head = {"model": str(job.source), "output": None if "error" in answer else str(job.target)}
    if "error" in answer:
        return {**head, "status": "failed", "error": answer["error"]}
    return {**head, "status": "ok", "file_bytes": answer["summary"]["bytes"], "record": answer["record"]}


def _line(job: Job, answer: Answer) -> str:
    from onnx_passes.report.summary import RunSummary

    if "error" in answer:
        return f"{job.name}: failed: {answer['error']['message']}"
    return RunSummary.from_json(answer["summary"]).line(job.name)


def _show(done: Sequence[Done], *, quiet: bool) -> None:
    """Print the table, unless nobody wants it, and what went wrong."""
    from onnx_passes.graph.wording import count
    from onnx_passes.report.summary import RunSummary, models_table
    from onnx_passes.report.tables import standard_error

    failed = [(job, answer) for job, answer in done if "error" in answer]
    if not quiet:
        rows = [
            (job.name, None, f"failed: {answer['error']['message']}")
            if "error" in answer
            else (job.name, RunSummary.from_json(answer["summary"]), "ok")
            for job, answer in done
        ]
        console = standard_error()
        console.print(models_table(rows, console.width))
        for job, answer in done:
            for note in answer.get("notes", ()):
                click.echo(f"{job.name}: note: {note}", err=True)
    for job, answer in failed:
        text = str(answer["text"]).removeprefix("onnx-passes: ")
        click.echo(text if text.startswith(str(job.source)) else f"{job.source}: {text}", err=True)
    if not quiet:
        click.echo(f"{count(done, 'model')}, {len(done) - len(failed)} written, {len(failed)} failed", err=True)
