"""Sessions of ONNX Runtime, in this process or in one of their own; both are limited in time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

from onnx_passes.verify.run.child import Child, Run
from onnx_passes.verify.run.resources import Resources, ended_after, memory_limited

Shape = Sequence[int | str | None] | None


class InProcess:
    """A session of ONNX Runtime in this process."""

    def __init__(self, session: Callable[[], Any], resources: Resources) -> None:
        import onnxruntime

        self._session = session()
        self._options = cast("Any", onnxruntime).RunOptions
        self.resources = resources

    @cached_property
    def outputs(self) -> list[tuple[str, str, Shape]]:
        """Name, type and shape of every output."""
        return _described(self._session)

    def run(self, names: Sequence[str], feeds: dict[str, Any]) -> list[Any]:
        """Compute outputs by name."""
        options = self._options()
        with memory_limited(self.resources.memory), ended_after(self.resources.seconds, options):
            return self._session.run(names, feeds, options)


class InChild:
    """A session of ONNX Runtime in a process of its own."""

    def __init__(self, session: Callable[[], Any], resources: Resources) -> None:
        def prepare() -> tuple[Run, object]:
            made = session()
            return made.run, _described(made)

        self.resources = resources
        self._child = Child(prepare, resources)
        self.run = self._child.run
        self.outputs = cast("list[tuple[str, str, Shape]]", self._child.known)


def _described(session: Any) -> list[tuple[str, str, Shape]]:
    return [(output.name, output.type, output.shape) for output in session.get_outputs()]
