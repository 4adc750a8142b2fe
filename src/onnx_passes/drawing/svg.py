"""Write a laid-out scene as SVG: self-contained, light or dark as the viewer's settings, with selectable text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from onnx_passes.drawing.layout import HEAD, LINE, NORMAL, SMALL, Placed, PlacedBox, PlacedWire, text_width
from onnx_passes.drawing.palette import COLOURS, FAMILIES
from onnx_passes.drawing.scene import Role

Theme = Literal["auto", "light", "dark", "notebook"]
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_LEGEND = 26.0
_SIGNS: dict[Role, str] = {"added": "+", "removed": "−", "changed": "~", "found": "•"}


def svg_text(placed: Placed, *, theme: Theme = "auto", description: str = "") -> str:
    """Return the picture as a document, which can also be embedded in a page."""
    scene = placed.scene
    texts = [scene.title, *filter(None, (scene.note,))]
    width = max(placed.width, text_width("   ".join(texts), NORMAL) + 32)
    if scene.roles:
        width = max(width, 100.0 * len(scene.roles) + 32)
    head = _LEGEND + (_LEGEND if scene.roles else 0.0)
    size = (
        f'width="{width:.0f}" height="{placed.height + head:.0f}" viewBox="0 0 {width:.0f} {placed.height + head:.0f}"'
    )
    label = quoteattr(clean(description or " ".join(texts)))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="onnx-drawing" {size} role="img" aria-label={label}>',
        f"<title>{_escaped(scene.title)}</title>",
        f"<desc>{_escaped(description)}</desc>" if description else "",
        f"<style>{_style(theme)}</style>",
        '<rect class="page" width="100%" height="100%" rx="6"/>',
        f'<text class="heading" x="16" y="20">{_escaped(scene.title)}'
        f'<tspan class="muted" dx="12">{_escaped(scene.note)}</tspan></text>',
        *_legend(scene.roles),
        f'<g transform="translate({(width - placed.width) / 2:.1f} {head:.1f})">',
        *_scene(placed, quiet=bool(scene.roles)),
        "</g>",
        "</svg>",
    ]
    return "\n".join(filter(None, lines)) + "\n"


def _legend(roles: tuple[Role, ...]) -> Iterator[str]:
    for number, role in enumerate(roles):
        x = 16 + 100 * number
        yield f'<rect class="card {role}" x="{x}" y="31" width="14" height="14" rx="3"/>'
        yield f'<text class="small" x="{x + 20}" y="42">{_SIGNS[role]} {role}</text>'


def _scene(placed: Placed, *, quiet: bool) -> Iterator[str]:
    yield from map(_wire, placed.wires)
    for box in placed.boxes:
        yield from _box(box, quiet=quiet)
    for wire in placed.wires:
        if wire.label is not None:
            x, y, text = wire.label
            yield f'<text class="label" x="{x:.1f}" y="{y:.1f}">{_escaped(text)}</text>'


def _wire(wire: PlacedWire) -> str:
    (_, (x, y)), *rest = wire.points
    (first, _) = wire.points[0]
    parts = [f"M{first[0]:.1f} {first[1]:.1f}"]
    if first[1] != y:
        parts.append(f"V{y:.1f}")
    for number, ((next_x, top), (_, bottom)) in enumerate(rest):
        end = top - 5 if number == len(rest) - 1 else top
        if abs(next_x - x) < 0.5:
            parts.append(f"L{next_x:.1f} {end:.1f}")
        else:
            middle = (y + end) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {end:.1f}")
        if bottom != top:
            parts.append(f"V{bottom:.1f}")
        x, y = next_x, bottom
    arrow = f'<path class="tip {wire.wire.role}" d="M{x - 3.5:.1f} {y - 7:.1f}h7l-3.5 7z"/>'
    return f'<path class="wire {wire.wire.role}" d="{"".join(parts)}"/>{arrow}'


def _box(placed: PlacedBox, *, quiet: bool) -> Iterator[str]:
    box = placed.box
    width, height = placed.width, placed.height
    yield f'<g class="{box.kind} {box.role}" transform="translate({placed.x:.1f} {placed.y:.1f})">'
    if box.hint:
        yield f"<title>{_escaped(box.hint)}</title>"
    if not box.is_card:
        yield f'<rect class="end" width="{width:.1f}" height="{height:.1f}" rx="{height / 2:.1f}"/>'
        yield f'<text class="name" x="{width / 2:.1f}" y="{height / 2 + 4:.1f}">{_escaped(box.title)}</text></g>'
        return
    family = "other" if quiet and not box.role else box.family
    yield f'<rect class="card {box.role}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'
    low = height <= HEAD
    shape = f"h{width - 10:.1f}a5 5 0 0 1 5 5v{HEAD - 5:.0f}h-{width:.1f}v-{HEAD - 5:.0f}a5 5 0 0 1 5-5z"
    if low:
        yield f'<rect class="{family}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'
    else:
        yield f'<path class="{family}" d="M5 0{shape}"/>'
    sign = f"{_SIGNS[box.role]} " if box.role else ""
    yield f'<text class="op" x="{width / 2:.1f}" y="16.5">{sign}{_escaped(box.title)}</text>'
    y = HEAD + LINE
    if box.name:
        yield f'<text class="label plain" x="8" y="{y:.1f}">{_escaped(box.name)}</text>'
        y += LINE
    for row in box.rows:
        yield f'<text class="small" x="8" y="{y:.1f}"><tspan class="key">{_escaped(row.label)}</tspan></text>'
        yield f'<text class="small end-text" x="{width - 8:.1f}" y="{y:.1f}">{_escaped(row.text)}</text>'
        y += LINE
    for dx, dy, inner in placed.inner:
        size = f'width="{inner.width:.1f}" height="{inner.height:.1f}"'
        yield f'<rect class="inside" x="{dx:.1f}" y="{dy:.1f}" {size} rx="4"/>'
        if inner.scene.title:
            yield f'<text class="label plain" x="{dx + 2:.1f}" y="{dy - 5:.1f}">{_escaped(inner.scene.title)}</text>'
        yield f'<g transform="translate({dx:.1f} {dy:.1f})">'
        yield from _scene(inner, quiet=quiet)
        yield "</g>"
    yield "</g>"


def _style(theme: Theme) -> str:
    light, dark = (_rules(0), _rules(1))
    if theme in ("light", "dark"):
        return _FIXED + (light if theme == "light" else dark)
    either = f"{_FIXED}{light}@media (prefers-color-scheme:dark){{{dark}}}"
    return either if theme == "auto" else f"{either}{_rules(0, _LIGHT)}{_rules(1, _DARK)}"


_FIXED = (
    ".onnx-drawing{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',Arial,sans-serif}"
    f".onnx-drawing text{{font-size:{NORMAL}px}}"
    f".onnx-drawing .label,.onnx-drawing .small{{font-size:{SMALL}px}}"
    ".onnx-drawing .op{fill:#fff;font-weight:600;text-anchor:middle}"
    ".onnx-drawing .name{text-anchor:middle}"
    ".onnx-drawing .end-text{text-anchor:end}"
    ".onnx-drawing .heading{font-weight:600}"
    ".onnx-drawing .heading .muted{font-weight:400}"
    ".onnx-drawing .wire{fill:none;stroke-width:1.2}"
    ".onnx-drawing .label{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}"
    ".onnx-drawing .label.plain{stroke:none}"
    ".onnx-drawing .wire.removed,.onnx-drawing .card.removed,.onnx-drawing .value .end{stroke-dasharray:5 3}"
    ".onnx-drawing .card.added,.onnx-drawing .card.removed,.onnx-drawing .card.changed,"
    ".onnx-drawing .card.found{stroke-width:2.5}"
)


_LIGHT = ':is([data-jp-theme-light="true"],[data-theme="light"],.vscode-light,.light) '
_DARK = ':is([data-jp-theme-light="false"],[data-theme="dark"],.vscode-dark,.vscode-high-contrast,.dark) '
"""Selectors of the light or dark themes of Jupyter, VS Code, marimo or a page, which override the system's."""


def _rules(side: Literal[0, 1], inside: str = "") -> str:
    c = {name: pair[side] for name, pair in COLOURS.items()}
    rules = {
        ".page": f"fill:{c['page']}",
        "text": f"fill:{c['text']}",
        ".label": f"fill:{c['muted']};stroke:{c['page']}",
        ".muted": f"fill:{c['muted']}",
        ".key": f"fill:{c['muted']}",
        ".op": "fill:#fff",
        ".wire": f"stroke:{c['line']}",
        ".tip": f"fill:{c['line']}",
        ".card": f"fill:{c['card']};stroke:{c['border']}",
        ".inside": f"fill:{c['inside']};stroke:{c['border']}",
        ".end": f"fill:{c['page']};stroke:{c['line']}",
        **{f".{family}": f"fill:{c[family]}" for family in FAMILIES},
    }
    for role in _SIGNS:
        rules[f".card.{role}"] = f"fill:{c[f'{role}-fill']};stroke:{c[role]}"
        rules[f".wire.{role}"] = f"stroke:{c[role]}"
        rules[f".tip.{role}"] = f"fill:{c[role]}"
    return "".join(f"{inside}.onnx-drawing {selector}{{{rule}}}" for selector, rule in rules.items())


def clean(text: str) -> str:
    """Replace characters that XML does not allow."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _escaped(text: str) -> str:
    return escape(clean(text))
