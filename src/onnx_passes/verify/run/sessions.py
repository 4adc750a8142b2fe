"""Sessions of ONNX Runtime, in this process or in one of their own; both are limited in time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

from onnx_passes.verify.run import server
from onnx_passes.verify.run.child import Child, Run
from onnx_passes.verify.run.profile import Recipe, described
from onnx_passes.verify.run.resources import Resources, ended_after, memory_limited, other_threads
from onnx_passes.verify.run.weights import Place

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
        return described(self._session)

    def run(self, names: Sequence[str], feeds: dict[str, Any]) -> list[Any]:
        """Compute outputs by name."""
        options = self._options()
        with memory_limited(self.resources.memory), ended_after(self.resources.seconds, options):
            return self._session.run(names, feeds, options)


class InChild:
    """A session of ONNX Runtime in a process of its own: a copy of this one, or one that shares nothing with it.

    Beside other threads it is no copy, nor if it is ``large``: then it is there only while it runs. ``places`` returns
    where it finds its weights, ``spent`` the bytes of the limit that are used up already.
    """

    def __init__(
        self,
        recipe: Recipe,
        resources: Resources,
        places: Callable[[], Mapping[str, Place]] | None = None,
        *,
        large: bool = False,
        spent: Callable[[], int] = int,
    ) -> None:
        def prepare() -> tuple[Run, object]:
            made = recipe()
            return made.run, described(made)

        def left() -> Resources:
            memory = resources.memory - spent()
            if memory <= 0:
                raise MemoryError
            return replace(resources, memory=memory)

        # What does not fit is not even put into files.
        left()
        is_copy = not large and not other_threads()
        start = None
        if not is_copy and places is not None and recipe.is_plain and server.has_server():
            start = partial(server.start, recipe, places())
        self.resources = resources
        self._child = Child(
            prepare,
            resources,
            left=left,
            start=start,
            brief=large,
        )
        self.run = self._child.run
        self.outputs = cast("list[tuple[str, str, Shape]]", self._child.known)
