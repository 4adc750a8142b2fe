"""The output of ``inspect`` on the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onnx_passes.analysis.bit_cost import ModelBitCost
from onnx_passes.analysis.channels import TensorRange
from onnx_passes.analysis.cost import SCALAR, ModelCost, NodeCost
from onnx_passes.analysis.support import Support
from onnx_passes.core.text import shortened, size_text
from onnx_passes.graph.extents import Amount, Extent, Monomial
from onnx_passes.graph.wording import count
from onnx_passes.ops.facts.work import total
from onnx_passes.passes.analyse.inspection import Inspection, Timed
from onnx_passes.passes.analyse.tensor_statistics import TensorStatistics
from onnx_passes.report.accumulators import accumulators_table
from onnx_passes.report.columns import Column, table_lines, width_of, wrapped
from onnx_passes.report.tables import Row, fitted_table, seconds_text

_LABEL = 11
_CELL = 32
"""Characters of a formula in a table."""
_LISTED = 5
_WRITTEN_OUT = ("quantized networks", "plug-in")
"""Where operators are defined that are written as standard ones before ONNX Runtime gets a model."""
_LEAST_SHARE = 0.01
"""Of the time of a model, below which operators are not worth naming."""


def show_inspection(found: Inspection, *, layers: bool = False, console: Console | None = None) -> None:
    """Print the findings on standard output, with a line for each node if requested."""
    console = console or Console(highlight=False, width=width_of(sys.stdout, 240))
    names = _names(found)
    operators = operators_table(found, console.width, names)
    nodes = list(layer_lines(found.cost, console.width, names)) if layers else []
    for label, lines in sections(found, names):
        parts = [part for line in lines for part in wrapped(line, console.width - _LABEL - 1)]
        for index, part in enumerate(parts):
            text = Text(f"{label if index == 0 else '':{_LABEL}} ", style="bold") + Text(part, style="not bold")
            console.print(text, soft_wrap=True)
    console.print()
    console.print(operators)
    if found.streamlined is not None and found.streamlined.accumulators:
        console.print()
        console.print(accumulators_table(found.streamlined, console.width))
    for lines in (range_lines(found, console.width), statistics_lines(found, console.width)):
        for line in lines:
            console.out(line, highlight=False)
    if nodes:
        console.print()
        for line in nodes:
            console.out(line, highlight=False)


def _names(found: Inspection) -> SizeNames:
    return SizeNames({*found.dynamic, *found.cost.symbols})


def sections(found: Inspection, names: SizeNames | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yield the findings as lines, by label; labels without lines are empty.

    ``names`` are the short names of sizes, to which those of amounts are added.
    """
    summary, cost, graph = found.summary, found.cost, found.statistics
    names = _names(found) if names is None else names
    yield "model", [summary.name + (f" (by {summary.producer})" if summary.producer else "")]
    yield "IR version", [str(summary.ir_version)]
    yield "opsets", [", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in summary.opsets.items())]
    yield "input", list(_inputs(found))
    yield "output", [str(port) for port in summary.outputs]
    yield "dynamic", list(_dynamic(found))
    yield "parameters", [f"{summary.size.parameters:,} ({size_text(summary.size.bytes)})", *_weights(found)]
    yield (
        "compute",
        [f"{amount_text(cost.macs, names)} MACs", f"{amount_text(cost.operations, names)} other operations"],
    )
    yield "memory", list(_memory(cost, names))
    yield (
        "graph",
        [
            f"{count(graph.nodes, 'node')}, {graph.depth} deep, {graph.width} wide, {count(graph.forks, 'fork')}, "
            f"{count(graph.joins, 'join')}" + (f", in {graph.parts} parts" if graph.parts > 1 else "")
        ],
    )
    yield "bodies", list(_bodies(found))
    yield "functions", [", ".join(summary.functions)] if summary.functions else []
    yield "quantizers", [f"{number:6,} {kind}" for kind, number in found.quantizers.most_common()]
    yield "integers", [] if found.streamlined is None else [str(found.streamlined)]
    yield "bits", [] if found.bits is None else list(_bits(found.bits, names))
    datatypes = ", ".join(f"{name} {number}" for name, number in summary.datatypes.most_common())
    yield "datatypes", [datatypes] if datatypes else []
    yield "no shape", [count(summary.values_without_shape, "value")] if summary.values_without_shape else []
    yield "unusual", [_support(support) for support in found.support if not support.is_plain]
    yield "not counted", list(_uncounted(cost))
    yield "runs", list(_trial(found))
    yield "time", [] if found.timed is None else list(_timed(found.timed))
    yield "unused", [f"input '{name}'" for name in graph.unused_inputs]
    yield "repaired", list(summary.repairs)
    yield "note", list(found.notes)
    yield "sizes", list(names.lines())


def _inputs(found: Inspection) -> Iterator[str]:
    """Name all inputs that must be given, and those with a default where they are few."""
    ports = found.summary.inputs
    defaults = sum(port.has_default for port in ports)
    yield from (str(port) for port in ports if not port.has_default or defaults <= _LISTED)
    if defaults > _LISTED:
        yield f"and {defaults} inputs with a default"


def _dynamic(found: Inspection) -> Iterator[str]:
    for name, inputs in found.dynamic.items():
        size = f" = {found.dimensions[name]}" if name in found.dimensions else ""
        yield f"{name}{size} in {', '.join(inputs)}"
    for name, size in found.dimensions.items():
        if name not in found.dynamic:
            yield f"{name} = {size}"


def _weights(found: Inspection) -> Iterator[str]:
    for name, weights in found.weights.items():
        held = f", {weights.in_nodes:,} of them in Constant nodes" if weights.in_nodes else ""
        yield f"{weights.elements:,} {name} in {count(weights.tensors, 'tensor')}{held}"


def _memory(cost: ModelCost, names: SizeNames) -> Iterator[str]:
    yield f"{bytes_text(cost.peak.bytes, names)} of activations at most, at {cost.peak.at}" + (
        f", without {count(cost.peak.unknown, 'value')} of unknown size" if cost.peak.unknown else ""
    )
    read, weights = bytes_text(cost.read_bytes, names), bytes_text(cost.weight_bytes, names)
    yield f"{read} of activations and {weights} of weights read"
    yield f"{bytes_text(cost.written_bytes, names)} written"


def _bits(found: ModelBitCost, names: SizeNames) -> Iterator[str]:
    yield f"{amount_text(found.bops, names)} bit operations, {bytes_text(-(-found.weight_bits // 8), names)} of weights"
    for (left, right), (macs, bops) in found.by_types().items():
        products, bit_operations = amount_text(macs, names), amount_text(bops, names)
        yield f"{left} × {right}: {products} MACs without zero weights, {bit_operations} bit operations"


def _bodies(found: Inspection) -> Iterator[str]:
    if found.summary.subgraphs:
        inside = sum(1 for layer in found.cost.layers if layer.scope)
        yield f"{count(inside, 'node')} in {count(found.summary.subgraphs, 'subgraph')}, counted once each"


def _support(support: Support) -> str:
    origin = {
        "onnx": "",
        "onnxruntime": "defined by ONNX Runtime",
        "function": "a function of the model",
        "quantized networks": "an operator for quantized networks",
        "plug-in": "an operator of a plug-in",
        "nothing": "nothing defines it",
    }[support.defined_by]
    missing = "ONNX Runtime has no kernel for it" if support.kernel is False and support.defined_by == "onnx" else ""
    return f"{support.nodes:6,} {support.operator}: {origin or missing}"


def _uncounted(cost: ModelCost) -> Iterator[str]:
    for name, number in cost.uncounted.most_common():
        yield f"{number:6,} {name}: no formula"
    unknown = cost.unknown
    for layer in unknown[:_LISTED]:
        yield f"{layer.operator} '{layer.name}': {layer.unknown}"
    if len(unknown) > _LISTED:
        yield f"and {count(len(unknown) - _LISTED, 'node')} more"


def _timed(found: Timed) -> Iterator[str]:
    if found.least is None or found.median is None:
        yield f"not timed: {found.why}"
        return
    least, median = seconds_text(found.least), seconds_text(found.median)
    yield f"{least} in ONNX Runtime (the least of {found.runs} runs, the median is {median}; one thread)"
    yield f"on {found.sample}"
    shares = [f"{name} {share:.0%}" for name, share in found.operators.items() if share >= _LEAST_SHARE]
    if shares:
        yield f"as ONNX Runtime executes it: {', '.join(shares)}"


def _trial(found: Inspection) -> Iterator[str]:
    trial = found.trial
    if trial is None:
        return
    if not trial.runs:
        yield f"not in ONNX Runtime{' as it runs by default' if trial.level else ''}: {trial.why}"
    if trial.seconds is not None:
        level = "its default optimizations" if trial.runs else "optimizations off (ORT_DISABLE_ALL)"
        yield f"in ONNX Runtime with {level}, {trial.seconds * 1000:.1f} ms on one thread"
    rewritten = [each.operator for each in found.support if each.defined_by in _WRITTEN_OUT]
    if rewritten and trial.seconds is not None:
        yield f"ONNX Runtime lacks {', '.join(rewritten)}: standard operators ran instead"


def operators_table(found: Inspection, width: int, names: SizeNames | None = None) -> Table:
    """Tabulate operators: nodes, MACs and their share, other operations."""
    columns = [
        Column("nodes", right=True),
        Column("operator", shorten="front", least=20),
        Column("MACs", right=True),
        Column("%", right=True),
        Column("other operations", right=True),
    ]
    names = _names(found) if names is None else names
    costs = found.cost.by_operator()
    rows: list[Row] = []
    for name, number in found.summary.size.operators.most_common():
        _, macs, operations = costs.get(name, (0, 0, 0))
        cells = [
            f"{number:,}",
            name,
            amount_text(macs, names, _CELL) if macs else "",
            _percent(found.cost.share(macs)),
            amount_text(operations, names, _CELL) if operations else "",
        ]
        rows.append((cells, ""))
    total_cells = [f"{found.summary.size.nodes:,}", "total", amount_text(found.cost.macs, names, _CELL), ""]
    rows.append(([*total_cells, amount_text(found.cost.operations, names, _CELL)], "bold"))
    return fitted_table(columns, rows, width)


_LAYER_COLUMNS = (
    Column("#", right=True),
    Column("node", shorten="front", least=10),
    Column("operator", shorten="end", least=10),
    Column("inputs", shorten="end", least=8, spare=4),
    Column("outputs", shorten="end", least=10),
    Column("MACs", right=True),
    Column("%", right=True, spare=2),
    Column("other", right=True, spare=1),
    Column("parameters", right=True, spare=3),
    Column("bytes", right=True, spare=5),
)


def layer_lines(cost: ModelCost, width: int = 240, names: SizeNames | None = None) -> Iterator[str]:
    """List every node: shapes (without scalars), MACs and their share, parameters, and the bytes that it moves.

    A table of rich would take its time on many thousand nodes.
    """
    names = SizeNames(cost.symbols) if names is None else names
    rows = [[str(number), *_layer_cells(cost, layer, names)] for number, layer in enumerate(cost.layers, 1)]
    return table_lines(_LAYER_COLUMNS, rows, width)


def _layer_cells(cost: ModelCost, layer: NodeCost, names: SizeNames) -> list[str]:
    parts = (layer.weight_bytes, layer.read_bytes, layer.written_bytes)
    moved = None if None in parts else total(parts)
    return [
        f"{'  ' if layer.scope else ''}{layer.name}",
        layer.operator.rpartition("::")[2],
        ", ".join(names.shape(shape) for shape in layer.inputs if shape not in ("", SCALAR)),
        ", ".join(map(names.shape, filter(None, layer.outputs))),
        "?" if layer.macs is None else amount_text(layer.macs, names, _CELL) if layer.macs else "",
        _percent(cost.share(layer.macs)),
        "?" if layer.operations is None else amount_text(layer.operations, names, _CELL) if layer.operations else "",
        f"{layer.parameters:,}" if layer.parameters else "",
        "?" if moved is None else bytes_text(moved, names, _CELL) if moved else "",
    ]


def _percent(share: float) -> str:
    return f"{share * 100:.1f}" if share else ""


def amount_text(amount: Amount, names: SizeNames, width: int | None = None) -> str:
    """Print a number with a unit, ``4.09 G``, or a formula, shortened where it is long."""
    return names.formula(amount, "", width) if isinstance(amount, Extent) else _number(amount)


def bytes_text(amount: Amount, names: SizeNames, width: int | None = None) -> str:
    """Print a number of bytes, or a formula for it."""
    return names.formula(amount, " B", width) if isinstance(amount, Extent) else size_text(amount)


def _number(amount: int) -> str:
    for unit, factor in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if amount >= factor:
            return f"{amount / factor:.2f} {unit}"
    return f"{amount:,}"


T = TypeVar("T")

_LISTED_CHANNELS = 6
_RANGES = (
    Column("tensor", shorten="front", least=20),
    Column("low", right=True),
    Column("high", right=True),
    Column("step", right=True),
    Column("channels", right=True),
    Column("stuck", shorten="end", least=12),
    Column("unread", shorten="end", least=12, spare=1),
)
_STATISTICS = (
    Column("tensor", shorten="front", least=20),
    Column("min", right=True),
    Column("max", right=True),
    Column("mean", right=True),
    Column("std", right=True),
    Column("zeros %", right=True),
    Column("levels", right=True),
    Column("saturated %", right=True),
    Column("constant channels", right=True, spare=1),
)


def range_lines(found: Inspection, width: int) -> Iterator[str]:
    """Yield the range of every tensor, if requested: constant channels have their value after ``=``."""
    return _lines(_RANGES, found.ranges, _range_row, width)


def statistics_lines(found: Inspection, width: int) -> Iterator[str]:
    """Yield the statistics of every tensor, if data was given."""
    return _lines(_STATISTICS, found.tensors, _statistics_row, width)


def _lines(
    columns: Sequence[Column], tensors: Sequence[T] | None, row: Callable[[T], list[str]], width: int
) -> Iterator[str]:
    if tensors is not None:
        yield ""
        yield from table_lines(columns, [row(each) for each in tensors], width)


def _range_row(each: TensorRange) -> list[str]:
    stuck = [f"{index}={value:g}" for index, value in zip(each.stuck, each.values, strict=True)]
    ends = ["open" if end is None else f"{end:g}" for end in (each.low, each.high)]
    step = "" if each.scale is None else f"{each.scale:g}"
    channels = "" if each.channels is None else str(each.channels)
    return [each.name, *ends, step, channels, _some(stuck), _some([str(index) for index in each.unread])]


def _statistics_row(each: TensorStatistics) -> list[str]:
    numbers = (each.min.min(), each.max.max(), each.overall_mean, each.overall_std)
    levels = "" if each.levels is None else f"{each.levels}/{each.of_levels}"
    saturated = "" if each.saturated is None else f"{each.saturated:.1%}"[:-1]
    same = int((each.min == each.max).sum()) if each.min.size > 1 else 0
    channels = f"{same} of {each.min.size}" if same else ""
    shown = [f"{number:.4g}" for number in numbers]
    return [each.name, *shown, f"{each.zeros.mean():.1%}"[:-1], levels, saturated, channels]


def _some(items: Sequence[str]) -> str:
    if len(items) <= _LISTED_CHANNELS:
        return " ".join(items)
    return f"{len(items)}: {' '.join(items[:_LISTED_CHANNELS])} …"


_FORMULA = re.compile(r"[()+*/]")
_CALL = re.compile(r"\w+\(")
_TERMS = 4
_LISTED_SIZES = 24
_LONGEST = 100
"""Characters of a formula that are shown."""


class SizeNames:
    """Names ``d1``, ``d2``, … for formulas in the output, and their definitions.

    ``reserved`` are the names of dimensions, which no other size may have.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._reserved = frozenset(reserved)
        self._names: dict[str, str] = {}

    def of(self, size: str) -> str:
        """Return the name of a size: its own, unless that is a formula."""
        if size not in self._names and _FORMULA.search(size):
            self._names[size] = self._next()
        return self._names.get(size, size)

    def _next(self) -> str:
        number = len(self._names) + 1
        while f"d{number}" in self._reserved or f"d{number}" in self._names.values():
            number += 1
        return f"d{number}"

    def shape(self, text: str) -> str:
        """Write a shape, ``N×3×H``, with names of sizes."""
        return "×".join(map(self.of, text.split("×")))

    def formula(self, amount: Extent, unit: str = "", width: int | None = None) -> str:
        """Write the greatest terms of a formula; with a ``width``, as many as it holds, and at least one."""
        ordered = sorted(amount.terms.items(), key=lambda term: (-len(term[0]), -term[1], term[0]))
        many = min(len(ordered), _TERMS)
        if width is None:
            rest = len(ordered) - many
            more = f" + … ({rest} more terms, give numbers with --dim)" if rest else ""
            return f"{self._sum(ordered[:many])}{more}{unit}"
        texts = (f"{self._sum(ordered[:n])}{' + …' if n < len(ordered) else ''}{unit}" for n in range(many, 1, -1))
        shortest = f"{self._sum(ordered[:1])}{' + …' if len(ordered) > 1 else ''}{unit}"
        return next((text for text in texts if len(text) <= width), shortest)

    def _sum(self, terms: Sequence[tuple[Monomial, int]]) -> Extent:
        return Extent({tuple(sorted(map(self.of, names))): factor for names, factor in terms})

    def lines(self) -> Iterator[str]:
        """Return the definitions of the names, in terms of one another; empty if no formula was named."""
        by_length = sorted(self._names, key=len)
        for number, formula in enumerate(by_length[:_LISTED_SIZES]):
            text, name = formula, self._names[formula]
            for other in reversed(by_length[:number]):
                if len(other) < len(formula):
                    # A sum is one operand only in brackets: 3*(a + b) holds it, 3*a + b does not.
                    part = other if _is_call(other) else f"({other})"
                    text = text.replace(part, self._names[other])
            yield shortened(f"{name} = {text}", _LONGEST)
        if len(self._names) > _LISTED_SIZES:
            yield f"and {len(self._names) - _LISTED_SIZES} more"
        if self._names:
            yield "give numbers with --dim NAME=SIZE"


def _is_call(formula: str) -> bool:
    """Return whether a formula is one call, ``floor(…)``, which no operator around it takes apart."""
    if not _CALL.match(formula) or not formula.endswith(")"):
        return False
    depths = accumulate((character == "(") - (character == ")") for character in formula)
    return all(depth for depth in list(depths)[formula.index("(") : -1])
