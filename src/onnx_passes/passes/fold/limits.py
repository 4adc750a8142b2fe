"""How large folded tensors may become, one by one and all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.wording import count, name_of
from onnx_passes.passes.fold.candidates import Candidates, bytes_of

_ALWAYS = 2**20
_NEVER = 2**26
_GROWTH = 4


@dataclass(frozen=True)
class Limits:
    """Bytes of a result, of an input, and of everything that is added."""

    size: int | None
    input: int
    growth: int

    @property
    def computed(self) -> int:
        """Return how large a result may be that is not stored itself."""
        return max(self.size or 0, _NEVER)

    def allow(self, size: int, source: int) -> bool:
        """Return whether a result may be stored that was computed from constants of a given size."""
        if self.size is not None:
            return size <= self.size
        return size <= _ALWAYS or size <= min(_NEVER, _GROWTH * source)


_LARGE = "too large to store (max-size)"
_GROWING = "beyond the growth of the model that is allowed (max-growth)"
_FED = "with a constant too large to compute with (max-input)"
_INEXACT = "in half precision that ONNX Runtime does not round where they stand"
_OVERRIDABLE = "on defaults of inputs, constant only after remove-initializers-from-inputs"


class Refusals(dict[str, dict[ir.Node, int]]):
    """Nodes that a limit excludes, with the bytes that they would need, by the reason, which names the option."""

    def has(self, node: ir.Node) -> bool:
        """Return whether a limit excludes a node."""
        return any(node in nodes for nodes in self.values())

    def notes(self) -> list[str]:
        """Describe the excluded nodes."""
        return [
            f"left {count(nodes, 'node')} {why}: the largest is {name_of(worst)} with {_bytes(nodes[worst])}"
            for why, nodes in self.items()
            if nodes and (worst := max(nodes, key=nodes.__getitem__))
        ]


class Selection:
    """The results to store: results with consumers that are not folded themselves.

    ``added`` has the bytes by which storing the results of a node enlarges the model.
    """

    def __init__(
        self,
        candidates: Candidates,
        limits: Limits,
        inexact: Collection[ir.Value],
        named: Collection[str],
        room: int,
    ) -> None:
        self.wanted: list[ir.Value] = []
        self.added: dict[ir.Node, int] = {}
        self.refused = Refusals({_LARGE: dict(candidates.huge), _GROWING: {}, _FED: dict(candidates.fed)})
        self.refused |= {_INEXACT: {}, _OVERRIDABLE: candidates.overridable}
        folded = set(candidates.nodes)
        readers = Counter(value for node in candidates.nodes for value in node.inputs if value is not None)
        freed = {value for value, number in readers.items() if number == 1 and len(value.uses()) == 1}
        # From the outputs back, because what is left alone still needs its inputs.
        for node in reversed(candidates.nodes):
            read = [value for value in node.outputs if value.name in named or _is_read(value, folded)]
            if not read:
                continue
            size = sum(candidates.bytes[value] for value in read)
            added = size - _bytes_of(value for value in node.inputs if value in freed)
            if any(value in inexact for value in read):
                self.refused[_INEXACT][node] = size
            elif not all(limits.allow(candidates.bytes[value], candidates.source[value]) for value in read):
                self.refused[_LARGE][node] = size
            elif added > room:
                self.refused[_GROWING][node] = size
            else:
                room -= added
                self.added[node] = added
                self.wanted.extend(read)
                continue
            folded.discard(node)


def _is_read(value: ir.Value, folded: set[ir.Node]) -> bool:
    return value.is_graph_output() or any(user not in folded for user, _ in value.uses())


def _bytes_of(values: Iterable[ir.Value | None]) -> int:
    tensors = [constant_tensor(value) for value in values]
    return sum(bytes_of(tensor) for tensor in tensors if tensor is not None)


def _bytes(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return count(size, "byte")
