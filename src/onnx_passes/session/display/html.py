"""Elements of pages; all other text is escaped.

Colours are those of the notebook: text inherits its colour, lines and shades are lighter versions of it, so that pages
fit light and dark themes of Jupyter, VS Code and marimo. Where styles are removed, tables and lists remain.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

STYLE = """
.onnx-passes{color:inherit;font-size:13px;line-height:1.45;--line:color-mix(in srgb,currentColor 18%,transparent);
--shade:color-mix(in srgb,currentColor 6%,transparent);overflow-x:auto}
.onnx-passes p{margin:2px 0}
.onnx-passes table{border-collapse:collapse;margin:6px 0;font-size:13px;color:inherit;border:0}
.onnx-passes tr{background:none!important;border:0}
.onnx-passes th,.onnx-passes td{text-align:left!important;vertical-align:top;padding:2px 14px 2px 0;border:0;
border-bottom:1px solid var(--line);background:none;max-width:52em;white-space:normal;overflow-wrap:anywhere}
.onnx-passes th{font-weight:600;overflow-wrap:normal;white-space:nowrap}
.onnx-passes .n{text-align:right!important;font-variant-numeric:tabular-nums;white-space:nowrap}
.onnx-passes code,.onnx-passes pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px;
color:inherit;background:none!important;padding:0!important}
.onnx-passes pre{background:var(--shade)!important;padding:6px 8px!important;margin:6px 0;border-radius:4px;
white-space:pre-wrap;overflow-wrap:anywhere}
.onnx-passes .quiet{opacity:.72}
.onnx-passes .now{font-weight:600}
.onnx-passes .badge{border-radius:9px;padding:0 7px;white-space:nowrap;background:var(--shade)}
.onnx-passes .good{background:rgba(46,160,67,.24)}
.onnx-passes .near{background:rgba(56,139,253,.24)}
.onnx-passes .open{background:rgba(210,153,34,.28)}
.onnx-passes .bad{background:rgba(248,81,73,.28)}
.onnx-passes .lines{list-style:none;margin:6px 0;padding:0}
.onnx-passes .lines li{margin:0;padding:1px 6px;border-left:3px solid transparent}
.onnx-passes .added{border-color:#2ea043!important;background:rgba(46,160,67,.12)}
.onnx-passes .removed{border-color:#f85149!important;background:rgba(248,81,73,.12)}
.onnx-passes .changed{border-color:#d29922!important;background:rgba(210,153,34,.12)}
.onnx-passes details{margin:4px 0}
.onnx-passes summary{cursor:pointer}
.onnx-passes .picture{max-height:440px;overflow:auto;margin:6px 0;resize:vertical;border:1px solid var(--line);
border-radius:6px}
.onnx-passes svg{max-width:none;height:auto}
""".replace("\n", "")


class Html(str):
    """Markup, which is not escaped."""

    __slots__ = ()


def element(name: str, *content: object, of: str = "", **attributes: object) -> Html:
    """Make an element; ``of`` is its class."""
    given = {"class": of, **attributes}
    written = "".join(f' {key}="{html.escape(str(value))}"' for key, value in given.items() if value not in ("", False))
    return Html(f"<{name}{written}>{joined(content)}</{name}>")


def joined(content: Iterable[object]) -> Html:
    """Join parts, with text escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(str(part)) for part in content))


def page(content: Html, label: str) -> str:
    """Make a self-contained page."""
    return element(
        "div", Html(f"<style>{STYLE}</style>"), content, of="onnx-passes", role="group", **{"aria-label": label}
    )


def title(*content: object) -> Html:
    """Make the first line of a page."""
    return element("p", *content)


def strong(text: object) -> Html:
    """Stress a text."""
    return element("b", text)


def code(text: object) -> Html:
    """Set a name or an expression as code."""
    return element("code", text)


def quiet(*content: object) -> Html:
    """Put something in the background."""
    return element("span", *content, of="quiet")


def table(header: Sequence[object], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> Html:
    """Make a table; ``numbers`` are the columns that are set to the right."""
    head = [element("th", cell, of="n" if at in numbers else "", scope="col") for at, cell in enumerate(header)]
    body = [
        element("tr", *(element("td", cell, of="n" if at in numbers else "") for at, cell in enumerate(row)))
        for row in rows
    ]
    return element("table", element("thead", element("tr", *head)) if any(header) else "", element("tbody", *body))


def facts(known: Mapping[str, object]) -> Html:
    """List facts with their labels, without empty ones."""
    rows = [
        element("tr", element("th", label, scope="row"), element("td", value))
        for label, value in known.items()
        if value
    ]
    return element("table", element("tbody", *rows))


def lines(items: Iterable[tuple[str, object]]) -> Html:
    """List lines, each of a class: added, removed or changed."""
    return element("ul", *(element("li", code(text), of=kind) for kind, text in items), of="lines")


def folded(summary: object, *content: object) -> Html:
    """Fold something away."""
    return element("details", element("summary", summary), *content)


def badge(text: str, kind: str) -> Html:
    """Mark something as good, near, open or bad."""
    return element("span", text, of=f"badge {kind}") if text else Html("")
