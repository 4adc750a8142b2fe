"""Pages of facts about values: their ranges, and the findings of an inspection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.analysis.channels import TensorRange
from onnx_passes.numbers.range import Range, bits_for
from onnx_passes.passes.analyse.inspection import Inspection
from onnx_passes.report.inspection import sections
from onnx_passes.session.display.html import Html, code, facts, folded, joined, quiet, strong, table, title

_FEW = 24
"""So many tensors are shown at once, the others are folded away."""
_MANY = 200
"""More tensors than this are only counted."""
_CHANNELS = 96
"""So many bars are drawn at most."""
_WIDTH, _HEIGHT = 96, 16


def ranges_page(ranges: Mapping[str, Range]) -> Html:
    """Tabulate the ranges of tensors, and draw per-channel ranges."""
    known = {name: found for name, found in ranges.items() if not found.is_unknown}
    constants = [_range_row(name, found) for name, found in known.items() if found.is_point]
    rows = [_range_row(name, found) for name, found in known.items() if not found.is_point]
    unknown = len(ranges) - len(known)
    header = ("tensor", "low", "high", "step", "bits", "by channel")
    parts: list[object] = [
        title(strong(f"{len(rows)} tensors"), f", nothing is known of {unknown}" if unknown else ""),
        *_folded_rows(header, rows, (1, 2, 3, 4)),
    ]
    if constants:
        parts.append(folded(f"{len(constants)} constants", table(header, constants[:_MANY], (1, 2, 3, 4))))
    return joined(parts)


def inspection_page(found: Inspection) -> Html:
    """Show the findings of an inspection."""
    known = {label: joined(_broken(lines)) for label, lines in sections(found) if lines}
    operators = sorted(found.summary.size.operators.items(), key=lambda item: -item[1])
    parts: list[object] = [
        facts(known),
        folded(f"{len(operators)} operators", table(("operator", "nodes"), operators, (1,))),
    ]
    if found.ranges is not None:
        header = ("tensor", "low", "high", "step", "channels", "stuck channels")
        parts += _folded_rows(header, [_tensor_row(each) for each in found.ranges], (1, 2, 3, 4))
    return joined(parts)


def _broken(lines: Sequence[str]) -> list[object]:
    parts: list[object] = []
    for line in lines:
        parts += [Html("<br>"), line] if parts else [line]
    return parts


def _folded_rows(header: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[int]) -> list[object]:
    shown: list[object] = [table(header, rows[:_FEW], numbers)]
    rest = rows[_FEW:]
    left = f"… and {len(rest) - _MANY} more" if len(rest) > _MANY else ""
    return [*shown, folded(f"{len(rest)} more tensors", table(header, rest[:_MANY], numbers), left)] if rest else shown


def _range_row(name: str, found: Range) -> tuple[object, ...]:
    overall = found.overall()
    low, high = float(overall.low), float(overall.high)
    grid = found.integer_grid
    step = "" if found.grid is None else _step(found.grid.scale)
    bits = ""
    if grid is not None and overall.is_finite:
        bits = str(bits_for(int(low), int(high)))
    return code(name), f"{low:.6g}", f"{high:.6g}", step, bits, channel_plot(found)


def _step(scale: np.ndarray) -> str:
    first = float(scale.flat[0]) if scale.size else 0.0
    return f"{first:.4g}" if (scale == first).all() else "by channel"


def _tensor_row(each: TensorRange) -> tuple[object, ...]:
    ends = ("open" if end is None else f"{end:.6g}" for end in (each.low, each.high))
    stuck = f"{len(each.stuck)}: {', '.join(map(str, each.stuck[:6]))}" if each.stuck else ""
    return code(each.name), *ends, "" if each.scale is None else f"{each.scale:.4g}", each.channels or "", stuck


def channel_plot(found: Range) -> Html:
    """Draw the range of every channel as a bar between the least and the greatest value of all."""
    low, high = np.broadcast_arrays(found.low, found.high)
    axes = [axis for axis, size in enumerate(low.shape) if size > 1]
    if len(axes) != 1 or not found.is_finite:
        return quiet("by element") if axes else Html("")
    lows, highs = low.reshape(-1)[:_CHANNELS], high.reshape(-1)[:_CHANNELS]
    least, span = float(lows.min()), float(highs.max() - lows.min()) or 1.0
    width = _WIDTH / len(lows)
    tops, heights = _HEIGHT * (1 - (highs - least) / span), np.maximum(_HEIGHT * (highs - lows) / span, 0.6)
    bars = "".join(
        f"M{(at + 0.5) * width:.1f} {top:.1f}v{height:.1f}"
        for at, (top, height) in enumerate(zip(tops.tolist(), heights.tolist(), strict=True))
    )
    label = f"{low.size} channels between {least:.4g} and {least + span:.4g}"
    return Html(
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'stroke="currentColor" stroke-width="{max(width - 0.4, 0.4):.1f}" opacity="0.7">'
        f'<title>{label}</title><path d="{bars}"/></svg>'
    )
