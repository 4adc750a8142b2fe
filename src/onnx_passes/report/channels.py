"""Tables of the ranges of tensors, and of their statistics on data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from onnx_passes.analysis.channels import TensorRange
from onnx_passes.passes.analyse.inspection import Inspection
from onnx_passes.passes.analyse.tensor_statistics import TensorStatistics
from onnx_passes.report.columns import Column, table_lines

T = TypeVar("T")

_LISTED = 6
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
    if len(items) <= _LISTED:
        return " ".join(items)
    return f"{len(items)}: {' '.join(items[:_LISTED])} …"
