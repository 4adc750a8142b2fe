"""What simplify.py measured as a result for the documentation: nodes and CPU time by class, and all losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from results import record, table
from simplify_table import OURS, Row, best_operators, excess, nodes, nodes_left, of_class, reason

_NAMES = {
    "ours": "onnx-passes",
    "ours_unverified": "onnx-passes, unverified",
    "onnx_passes_04": "onnx-passes 0.4",
}


def record_simplify(rows: Sequence[Row]) -> None:
    """Write the result of all models."""
    tools = list(rows[0]["tools"])
    names = [_NAMES.get(tool, tool) for tool in tools]
    kinds = [*sorted({row["class"] for row in rows}), "all"]
    chosen = {kind: list(rows) if kind == "all" else of_class(rows, kind) for kind in kinds}
    record(
        "simplify",
        "Simplifying models",
        f"{len(rows)} models exported by the usual libraries with random weights. Nodes are those left, without "
        "Constant; CPU seconds are of the call alone, each tool in a warm process of its own. What a tool cannot "
        "simplify counts as it was. Results are checked, run in ONNX Runtime and compared with the original.",
        [
            table(
                "Nodes left",
                ("class", "models", "before", *names),
                [
                    (
                        kind,
                        len(each),
                        sum(map(nodes, each)),
                        *(sum(nodes_left(row, tool) for row in each) for tool in tools),
                    )
                    for kind, each in chosen.items()
                ],
                names,
            ),
            table(
                "CPU seconds",
                ("class", "models", *names),
                [(kind, len(each), *(round(_spent(each, tool), 2) for tool in tools)) for kind, each in chosen.items()],
                names,
            ),
            table(
                "Not right",
                ("tool", "wrong", "invalid", "refused"),
                [
                    (name, *(_count(rows, tool, status) for status in ("wrong", "invalid", "refused")))
                    for tool, name in zip(tools, names, strict=True)
                ],
            ),
        ],
        _losses(rows),
    )


def _losses(rows: Sequence[Row]) -> list[str]:
    found: list[str] = []
    for row in rows:
        found += [
            f"{row['model']}: {_NAMES[tool]} is {cell['status']}: {' '.join(cell['detail'].split())}"
            for tool in OURS
            if (cell := row["tools"].get(tool, {"status": "ok"}))["status"] != "ok"
        ]
        if excess(row) > 0:
            found.append(f"{row['model']}: {excess(row)} nodes more than the best peer leaves; {reason(row)}")
    for tool in rows[0]["tools"]:
        faster = [_milliseconds(row, tool) for row in rows if _is_faster(row, tool)]
        if faster:
            name = _NAMES.get(tool, tool)
            found.append(
                f"{name} is faster than we are unverified, and leaves as few nodes, on {len(faster)} of {len(rows)} "
                f"models (ours, {name}, in ms): {', '.join(faster)}"
            )
    return found


def _is_faster(row: Row, tool: str) -> bool:
    """Tell whether a peer takes less CPU time than we do unverified, and leaves as few nodes."""
    cell, mine = row["tools"][tool], row["tools"].get("ours_unverified", {})
    if tool in OURS or cell["status"] != "ok":
        return False
    return cell["cpu"] < mine.get("cpu", 0) and nodes(cell) <= best_operators(row, OURS).total()


def _milliseconds(row: Row, tool: str) -> str:
    ours, theirs = (1000 * row["tools"][each]["cpu"] for each in ("ours_unverified", tool))
    return f"{row['model']} {ours:.0f}, {theirs:.0f}"


def _spent(rows: Sequence[Row], tool: str) -> float:
    return sum(row["tools"][tool].get("cpu", 0.0) for row in rows)


def _count(rows: Sequence[Row], tool: str, status: str) -> int:
    cells: list[dict[str, Any]] = [row["tools"][tool] for row in rows]
    return sum(cell["status"] == status for cell in cells)
