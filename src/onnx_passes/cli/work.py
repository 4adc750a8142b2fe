"""Work of a worker on one of several models: requests and answers are plain data."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.cli.choices import Choices
from onnx_passes.cli.execution import execute
from onnx_passes.cli.failures import failure_of
from onnx_passes.cli.files import require_writable
from onnx_passes.cli.jobs import Job
from onnx_passes.cli.limits import limits_given
from onnx_passes.cli.options import IMPORTS
from onnx_passes.cli.signals import cleaning_up
from onnx_passes.core.errors import ExitCode
from onnx_passes.core.imports import import_user_modules

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_passes.workers.cluster import Cluster

Answer = dict[str, Any]
"""Outcome of a model: a summary of the run, or an error."""

_FOLDERS = ("keep_intermediates", "dump", "repro")
"""Folders that a run writes besides its result, on request or on failure."""


@dataclass(frozen=True)
class Request:
    """Options common to all models: passes, configuration, limits, and the folder that paths are relative to."""

    passes: tuple[str, ...]
    config_file: str | None
    choices: Choices
    given: Mapping[str, Any]
    """Options of the command line for inputs, outputs, passes and modules of the user."""
    folder: str
    seconds: float
    memory: int

    @classmethod
    def of_command(cls, passes: tuple[str, ...], config_file: str | None, choices: Choices, at_once: int) -> Request:
        """Return the request of the current command, for a number of concurrent models on this machine."""
        from onnx_passes.verify.run.resources import current_resources
        from onnx_passes.workers.sharing import memory_share

        limits = current_resources()
        given = dict(click.get_current_context().meta)
        memory = memory_share(at_once, limits.memory)
        return cls(passes, config_file, choices, given, os.getcwd(), limits.seconds, memory)  # noqa: PTH109

    @contextlib.contextmanager
    def holding(self) -> Generator[None]:
        """Apply the settings of the request to this process, as if its command ran here."""
        from onnx_passes.verify.run.resources import limited

        if not Path(self.folder).samefile("."):
            os.chdir(self.folder)
        with (
            click.Context(click.Command("run")) as context,
            limited(time_limit=self.seconds, memory_limit=self.memory),
        ):
            context.meta.update(self.given)
            limits_given(context)
            import_user_modules(self.given.get(IMPORTS, ()))
            yield


Task = tuple[Job, Request]


def do(task: Task) -> Answer:
    """Run one model; errors are part of the answer, so that the other models continue."""
    job, request = task
    try:
        with cleaning_up(), request.holding():
            return _run(job, request)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the others go on
        failure = failure_of(error)
        return {**failure.to_json(), "text": failure.text}


def answers(
    cluster: Cluster, jobs: Iterable[Job], request: Request, work: Callable[[Task], Answer] = do
) -> Iterator[tuple[Job, Answer]]:
    """Run all models on workers, and yield each answer as soon as it is known.

    A model whose process ends is tried once: here it would end the next one, too. A cluster loses workers for other
    reasons, so there it is tried twice.
    """
    from onnx_passes.workers.cluster import require_seen
    from onnx_passes.workers.completed import Lost, completed

    tasks = [(job, request) for job in jobs]
    if tasks and not cluster.is_local:
        first = tasks[0][0]
        first.target.parent.mkdir(parents=True, exist_ok=True)
        require_seen(cluster, first.source.absolute(), first.target.parent.absolute())
    for (job, _), answer in completed(cluster.workers, work, tasks, attempts=1 if cluster.is_local else 2):
        yield job, _of_lost(answer) if isinstance(answer, Lost) else answer


def exit_code(answer: Answer) -> int:
    """Return the exit code of a run of this model alone."""
    return int(answer["error"]["exit_code"]) if "error" in answer else ExitCode.OK


def _run(job: Job, request: Request) -> Answer:
    """Run one of several models; each has its own folders for reproducers and dumps."""
    choices = request.choices
    own = {key: str(Path(folder) / job.name) for key in _FOLDERS if (folder := getattr(choices, key))}
    job.target.parent.mkdir(parents=True, exist_ok=True)
    require_writable(str(job.target))
    quiet = replace(choices, quiet=True, **own)
    done = execute(str(job.source), str(job.target), request.passes, request.config_file, quiet)
    return {"summary": vars(done.summary), "notes": list(done.notes), "record": done.result.record.to_json()}


def _of_lost(lost: object) -> Answer:
    error = {"kind": "lost", "exit_code": int(ExitCode.INTERNAL), "type": "Lost", "message": str(lost)}
    return {"error": error, "text": f"onnx-passes: {lost}"}
