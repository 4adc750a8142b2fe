"""Accepted ranges of metrics: what is written, what it means, and how it is told."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import cast

from onnx_passes.core.errors import ConfigError, UsageError

MetricRange = tuple[float | None, float | None]
ANY: MetricRange = (None, None)
"""A range without ends: measured, and nothing held against it."""

_CONDITION = re.compile(r"(?P<name>[^=<>]+?)\s*(?:(?P<sign><=|>=|=)(?P<ends>.*))?")


def accepted(value: float, limits: MetricRange) -> bool:
    """Tell whether a value is in a range, ends included; NaN is in none."""
    least, most = limits
    return not math.isnan(value) and (least is None or value >= least) and (most is None or value <= most)


def range_text(limits: MetricRange) -> str:
    """Say which values are accepted."""
    match limits:
        case None, None:
            return "anything"
        case least, None:
            return f"at least {least:g}"
        case None, most:
            return f"at most {most:g}"
        case least, most:
            return f"exactly {least:g}" if least == most else f"{least:g} to {most:g}"


def parse_ranges(ranges: Mapping[str, object], *, where: str = "verify.metrics") -> dict[str, MetricRange]:
    """Read the accepted range of each metric, ``[min, max]`` with nothing for an open end."""
    if not isinstance(ranges, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError("expected metrics and their ranges", where=where, hint="write name: [min, max]")
    return {str(name): _range(limits, f"{where}.{name}") for name, limits in ranges.items()}


def parse_condition(text: str) -> tuple[str, MetricRange | None]:
    """Read ``NAME``, ``NAME=MIN,MAX`` with nothing for an open end, ``NAME>=MIN`` or ``NAME<=MAX``."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise _unreadable(text)
    if found["sign"] is None:
        return found["name"], None
    ends = [part.strip() for part in found["ends"].split(",")]
    if len(ends) != (2 if found["sign"] == "=" else 1):
        raise _unreadable(text)
    try:
        numbers = [float(end) if end else None for end in ends]
    except ValueError:
        raise _unreadable(text) from None
    if found["sign"] != "=":
        if numbers[0] is None:
            raise _unreadable(text)
        numbers = [None, *numbers] if found["sign"] == "<=" else [*numbers, None]
    return found["name"], _range(numbers, f"metric '{found['name']}'")


def _unreadable(text: str) -> UsageError:
    return UsageError(f"'{text}' is no metric with a range", hint="write NAME, NAME=MIN,MAX, NAME>=MIN or NAME<=MAX")


def _range(limits: object, where: str) -> MetricRange:
    hint = "write [min, max], with null for an open end"
    if not isinstance(limits, Sequence) or isinstance(limits, str):
        raise ConfigError(f"expected a range, found {limits!r}", where=where, hint=hint)
    ends = list(cast(Sequence[object], limits))
    if len(ends) != 2:
        raise ConfigError(f"a range has two ends, found {len(ends)}", where=where, hint=hint)
    least, most = (_end(end, where, hint) for end in ends)
    if least is not None and most is not None and least > most:
        raise ConfigError(f"the range from {least:g} to {most:g} is empty", where=where, hint=hint)
    return least, most


def _end(end: object, where: str, hint: str) -> float | None:
    if end is None:
        return None
    if not isinstance(end, int | float) or isinstance(end, bool) or math.isnan(end):
        raise ConfigError(f"{end!r} is no end of a range", where=where, hint=hint)
    return float(end)
