"""The shared context of the graphs of one rewrite: the model, names, and opset imports."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.graph.annotations import referenced_names
from onnx_passes.graph.names import Container, Names


@dataclass
class Scope:
    """One graph with its subgraphs, or one function, which share names and opset imports."""

    model: ir.Model
    container: Container
    _names: Names | None = None
    _origins: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def names(self) -> Names:
        """Return the names in use, collected when first needed."""
        if self._names is None:
            self._names = Names.of(self.container)
        return self._names

    @functools.cached_property
    def keep(self) -> Collection[str]:
        """Return the names that quantization annotations refer to: their tensors look unused but are not."""
        return _Referenced(self.container)

    def forget_references(self) -> None:
        """Discard the collected names of annotated tensors, because annotations or tensors have been renamed."""
        self.__dict__.pop("keep", None)

    def derive(self, claim: Callable[[str], str], name: str, suffix: str) -> str:
        """Claim a name made from another one; deriving from the result again does not make it longer."""
        origin = self._origins.get(name, name)
        claimed = claim(origin + suffix)
        self._origins[claimed] = origin
        return claimed


class _Referenced(Collection[str]):
    """Names that annotations refer to, collected when first asked for: many rewrites remove no tensor."""

    def __init__(self, container: Container) -> None:
        self._container = container

    @functools.cached_property
    def _names(self) -> set[str]:
        return referenced_names(self._container)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
