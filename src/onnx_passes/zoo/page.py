"""The summary page of a zoo: one self-contained file with links to the models."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from onnx_passes.core.text import size_text
from onnx_passes.graph.atomic import replacing
from onnx_passes.report.tables import signed
from onnx_passes.zoo.comparison import ModelDifference, ZooComparison
from onnx_passes.zoo.manifest import ModelRow, Run

NAME = "index.html"
_KINDS = {"ok": "good", "unverified": "open", "failed": "bad", "lost": "bad"}
"""Colours of states; an unverified model is neither good nor bad."""
_SHOWN = 4
"""Maximum number of operators whose changed numbers are listed."""


@dataclass(frozen=True)
class _Cell:
    """A cell: its content, and the number by which its column is sorted."""

    html: str
    number: float | None = None
    kind: str = ""


def write_page(
    folder: Path, rows: Mapping[str, ModelRow], runs: Mapping[int, Run], comparison: ZooComparison | None
) -> Path:
    """Write the page of a folder of results atomically."""
    template = resources.files("onnx_passes.zoo").joinpath("page.html").read_text(encoding="utf-8")
    name = folder.resolve().name
    parts = [_head(name, list(rows.values()), runs)]
    if comparison is not None:
        parts.append(_compared(comparison, folder))
    parts.append(_models(rows.values(), folder))
    html = template.replace("__TITLE__", escape(f"{name}: {len(rows)} models")).replace("__BODY__", "\n".join(parts))
    with replacing(folder / NAME) as file:
        file.write(html.encode())
    return folder / NAME


def _head(name: str, rows: Sequence[ModelRow], runs: Mapping[int, Run]) -> str:
    status = Counter(row.status for row in rows)
    well = [row for row in rows if row.is_written]
    counts = [f'<span class="{_KINDS[kind]}">{status[kind]} {kind}</span>' for kind in _KINDS if status[kind]]
    before, after = (sum(getattr(row, f"nodes_{when}") or 0 for row in well) for when in ("before", "after"))
    sizes = [sum(getattr(row, f"bytes_{when}") or 0 for row in well) for when in ("before", "after")]
    cpu = sum(row.cpu_seconds for row in rows)
    lines = [
        f"<h1>{escape(name)}</h1>",
        f"<p>{len(rows)} models: {', '.join(counts)}; {before:,} → {after:,} nodes{_percent(before, after)}, "
        f"{size_text(sizes[0])} → {size_text(sizes[1])}, {cpu:.1f} s CPU</p>",
    ]
    made = Counter(row.run for row in rows)
    for number in sorted(made, reverse=True):
        run = runs[number]
        versions = ", ".join(f"{escape(package)} {escape(version)}" for package, version in run.versions.items())
        options = "".join(f" {escape(f'{key}={value}')}" for key, value in run.options.items())
        lines.append(
            f'<p class="quiet">{made[number]} of run {number}, {escape(run.started[:19].replace("T", " "))} UTC: '
            f"<code>{escape(run.pipeline) or 'no passes'}</code>{options}; {versions}</p>"
        )
    return "\n".join(lines)


def _models(rows: Iterable[ModelRow], folder: Path) -> str:
    columns = (
        *("model", "status", "#nodes", "#Δ", "#size", "#parameters", "#CPU s", "#wall s", "evidence"),
        *("operators", "message", "host"),
    )
    table = _table("models", columns, [(_row(row, folder), "" if row.is_written else "failed") for row in rows])
    return (
        f'<h2>Models</h2>\n<input id="filter" type="search" placeholder="Filter" aria-label="Filter models">\n{table}'
    )


def _row(row: ModelRow, folder: Path) -> list[_Cell]:
    known = row.nodes_before is not None and row.nodes_after is not None
    before, after = row.nodes_before or 0, row.nodes_after or 0
    parameters = "" if row.parameters_after is None else f"{row.parameters_before:,} → {row.parameters_after:,}"
    sizes = "" if not known else f"{size_text(row.bytes_before or 0)} → {size_text(row.bytes_after or 0)}"
    return [
        _Cell(_link(row.model, row.output, folder)),
        _Cell(row.status, kind=_KINDS[row.status]),
        _Cell(f"{before:,} → {after:,}" if known else "", after),
        _Cell(signed(after - before) + _percent(before, after) if known else "", after - before),
        _Cell(sizes, row.bytes_after or 0),
        _Cell(parameters, row.parameters_after or 0),
        _Cell(f"{row.cpu_seconds:.2f}", row.cpu_seconds),
        _Cell(f"{row.wall_seconds:.2f}", row.wall_seconds),
        _Cell(escape(row.evidence or ("unverified" if row.is_written else ""))),
        _Cell(escape(_operators(row)), kind="text"),
        _Cell(escape(row.message), kind="text"),
        _Cell(escape(row.host)),
    ]


def _compared(found: ZooComparison, folder: Path) -> str:
    old = escape(os.path.relpath(found.old, folder))
    parts = [f"<h2>Against {old}</h2>"]
    for title, differences in (("worse", found.worse), ("better", found.better)):
        if differences:
            kind = "bad" if title == "worse" else "good"
            cells = [(_difference(one, kind), "") for one in differences]
            parts.append(_table(title, (title, "what", "before", "after"), cells))
        else:
            parts.append(f"<p>Nothing got {title}.</p>")
    for what, names in (
        ("only there", found.only_old),
        ("only here", found.only_new),
        ("changed: only failures are compared", found.changed),
    ):
        if names:
            parts.append(f'<p class="quiet">{len(names)} models {what}: {escape(", ".join(names))}</p>')
    return "\n".join(parts)


def _difference(one: ModelDifference, kind: str) -> list[_Cell]:
    return [
        _Cell(escape(one.model)),
        _Cell(escape(one.what)),
        _Cell(escape(one.old), kind="text"),
        _Cell(escape(one.new), kind=f"text {kind}"),
    ]


def _table(name: str, columns: Sequence[str], rows: Iterable[tuple[Sequence[_Cell], str]]) -> str:
    """Write a table; titles of numeric columns begin with ``#``."""
    heads = "".join(_title(title.lstrip("#"), is_number=title.startswith("#")) for title in columns)
    body = "\n".join(f"<tr{f' class={kind}' if kind else ''}>{''.join(map(_cell, cells))}</tr>" for cells, kind in rows)
    table = f'<table id="{name}"><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
    return f'<div class="table">{table}</div>'


def _title(title: str, *, is_number: bool) -> str:
    kind = ' class="number"' if is_number else ""
    return f'<th scope="col"{kind}><button>{escape(title)}</button></th>'


def _cell(cell: _Cell) -> str:
    if cell.number is not None:
        return f'<td class="number" data-value="{cell.number}">{cell.html}</td>'
    return f'<td class="{cell.kind}">{cell.html}</td>' if cell.kind else f"<td>{cell.html}</td>"


def _link(name: str, output: str | None, folder: Path) -> str:
    if output is None:
        return escape(name)
    return f'<a href="{escape(quote(Path(os.path.relpath(output, folder)).as_posix()))}">{escape(name)}</a>'


def _operators(row: ModelRow) -> str:
    """List the operators whose number changed most."""
    names = row.operators_before.keys() | row.operators_after.keys()
    changes = {name: row.operators_after.get(name, 0) - row.operators_before.get(name, 0) for name in names}
    most = sorted((name for name in names if changes[name]), key=lambda name: (-abs(changes[name]), name))
    shown = [f"{signed(changes[name])} {name}" for name in most[:_SHOWN]]
    return ", ".join([*shown, "…"] if len(most) > _SHOWN else shown)


def _percent(before: int, after: int) -> str:
    return f" ({100 * (after - before) / before:+.0f} %)".replace("-", "−") if before and after != before else ""
