"""The table of simplify.py: goals, classes and models in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

PEERS = ("onnxsim", "onnxslim", "onnxoptimizer", "onnxscript", "onnx_passes_04")
OURS = ("ours", "ours_unverified")
REASONS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        ("Add", "MatMul"),
        ("Gemm",),
        "products with a bias on stacks of rows stay MatMul and Add, which attention fusions look for; not Gemm",
    ),
    (
        ("MatMul",),
        ("Split",),
        "a peer merges products of one input, which costs a copy: merge-matmuls does so on demand",
    ),
    (("Mul",), (), "the half of a Gelu that is written out stays: by it ONNX Runtime knows the formula"),
    (("Add",), (), "adding zero makes negative zeros positive: it stays where they may occur"),
)
"""Why a peer leaves fewer nodes than we do, where that is meant: operators that we have more of, and fewer of."""

Row = dict[str, Any]
_BAD = ("wrong", "invalid", "refused")


def markdown(rows: Sequence[Row]) -> str:
    tools = list(rows[0]["tools"]) if rows else []
    return "\n\n".join((_goals(rows), _classes(rows, tools), _models(rows, tools), _failures(rows))) + "\n"


def _goals(rows: Sequence[Row]) -> str:
    more = [row for row in rows if excess(row) > 0]
    kinds = sorted({row["class"] for row in rows})
    lines = [
        f"# Simplifying {len(rows)} models beside peers",
        "Nodes without Constant, those of subgraphs included; CPU seconds of the call, start-up and files apart.",
        "- not right: " + "; ".join(f"{tool} {_verdicts(rows, tool)}" for tool in (rows[0]["tools"] if rows else ())),
        f"- no more nodes than the best peer that is right: {len(rows) - len(more)} of {len(rows)}"
        + "".join(f"\n  - {row['model']}: {excess(row)} more; {reason(row)}" for row in more),
        f"- CPU unverified / onnxsim's: {_ratio(rows, 'ours_unverified', 'onnxsim')} (goal: at most 1); "
        + ", ".join(f"{kind} {_ratio(of_class(rows, kind), 'ours_unverified', 'onnxsim')}" for kind in kinds)
        + " (goal: at most 2)",
        f"- CPU verified / onnxslim's: {_ratio(rows, 'ours', 'onnxslim')} (goal: at most 0.5)",
    ]
    return "\n".join((lines[0], "", lines[1], "", *lines[2:]))


def _classes(rows: Sequence[Row], tools: Sequence[str]) -> str:
    lines = [f"| class (models) | before | {' | '.join(tools)} |", "|---" * (len(tools) + 2) + "|"]
    for kind in (*sorted({row["class"] for row in rows}), "all"):
        chosen = rows if kind == "all" else of_class(rows, kind)
        # A tool that fails on a model leaves it as it was.
        left = [sum(nodes_left(row, tool) for row in chosen) for tool in tools]
        spent = [sum(row["tools"][tool].get("cpu", 0) for row in chosen) for tool in tools]
        cells = [f"{nodes} / {cpu:.1f}" for nodes, cpu in zip(left, spent, strict=True)]
        lines.append(f"| {kind} ({len(chosen)}) | {sum(map(nodes, chosen))} | {' | '.join(cells)} |")
    return "\n".join(("## Classes: nodes left / CPU s", "", *lines))


def _models(rows: Sequence[Row], tools: Sequence[str]) -> str:
    lines = [f"| model | before | {' | '.join(tools)} |", "|---" * (len(tools) + 2) + "|"]
    lines += [f"| {r['model']} | {nodes(r)} | {' | '.join(_cell(r['tools'][t]) for t in tools)} |" for r in rows]
    return "\n".join(("## Models: nodes left / CPU s / largest error", "", *lines))


def _failures(rows: Sequence[Row]) -> str:
    lines = [
        f"- {row['model']}, {tool}: {cell['status']}: {' '.join(cell['detail'].split())}"
        for row in rows
        for tool, cell in row["tools"].items()
        if cell["status"] != "ok"
    ]
    return "\n".join(("## Not right", "", *(lines or ["Nothing."])))


def _cell(cell: dict[str, Any]) -> str:
    if "cpu" not in cell:
        return str(cell["status"])
    state = f"{cell['error']:.0e}" if cell["status"] == "ok" and cell["error"] else cell["status"]
    return f"{nodes(cell)} / {cell['cpu']:.2f} / {'0' if state == 'ok' else state}"


def nodes(counted: dict[str, Any]) -> int:
    """Return how many nodes a model has whose operators were counted."""
    return sum(counted["operators"].values())


def nodes_left(row: Row, tool: str) -> int:
    """Return what a tool leaves of a model; one that fails leaves it as it was."""
    cell = row["tools"][tool]
    return nodes(cell if cell["status"] == "ok" else row)


def best_operators(row: Row, tools: Sequence[str]) -> Counter[str]:
    """Return the operators of what the best of some tools leaves; a tool that fails leaves the model as it was."""
    cells = [row["tools"][tool] for tool in tools if tool in row["tools"]]
    left = [cell if cell["status"] == "ok" else row for cell in cells]
    return Counter(min(left or [row], key=nodes)["operators"])


def excess(row: Row) -> int:
    """Return how many nodes fewer the best peer leaves."""
    return best_operators(row, OURS).total() - best_operators(row, PEERS).total()


def reason(row: Row) -> str:
    """Say which operators the best peer is without, and why we are not."""
    mine, best = best_operators(row, OURS), best_operators(row, PEERS)
    more, fewer = mine - best, best - mine
    reasons = [why for ours, theirs, why in REASONS if {*ours} <= more.keys() and {*theirs} <= fewer.keys()]
    said = f"{_listed(more)}, instead of {_listed(fewer)}" if fewer else _listed(more)
    return f"{said}: {reasons[0] if reasons else 'not explained'}"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {operator}" for operator, count in sorted(counts.items()))


def _verdicts(rows: Sequence[Row], tool: str) -> str:
    cells = [row["tools"][tool]["status"] for row in rows if tool in row["tools"]]
    counts = [f"{cells.count(status)} {status}" for status in _BAD if status in cells]
    return ", ".join(counts) or "none"


def of_class(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["class"] == kind]


def _ratio(rows: Sequence[Row], mine: str, peer: str) -> str:
    """Return the ratio of CPU times over the models that both simplify."""
    both = [row["tools"] for row in rows if all("cpu" in row["tools"].get(tool, {}) for tool in (mine, peer))]
    spent = [sum(tools[tool]["cpu"] for tools in both) for tool in (mine, peer)]
    return f"{spent[0] / spent[1]:.2f}" if both else "?"
