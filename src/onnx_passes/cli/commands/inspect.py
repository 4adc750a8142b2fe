"""``onnx-passes inspect``: what is in a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.options import debug_option, json_option

if TYPE_CHECKING:
    from onnx_passes.analysis.summary import Summary


@click.command("inspect", short_help="Show what is in a model.")
@click.argument("model")
@json_option
@debug_option
def command(model: str, as_json: bool) -> None:
    """Show interface, operators, opsets, parameters and annotations of MODEL, a file or '-'."""
    from onnx_passes.analysis.summary import summarize
    from onnx_passes.graph.load import load

    summary = summarize(load(model))
    if as_json:
        click.echo(json.dumps(summary.to_json(), indent=2))
    else:
        click.echo("\n".join(_lines(summary)))


def _lines(summary: Summary) -> list[str]:
    from onnx_passes.report.tables import size_text

    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in summary.opsets.items())
    lines = [
        f"model       {summary.name}" + (f" (by {summary.producer})" if summary.producer else ""),
        f"IR version  {summary.ir_version}",
        f"opsets      {opsets}",
    ]
    lines += [f"{'input' if i == 0 else '':11} {port}" for i, port in enumerate(summary.inputs)]
    lines += [f"{'output' if i == 0 else '':11} {port}" for i, port in enumerate(summary.outputs)]
    lines.append(f"parameters  {summary.size.parameters:,} ({size_text(summary.size.bytes)})")
    nested = f" (in the graph and {summary.subgraphs} subgraphs)" if summary.subgraphs else ""
    lines.append(f"nodes       {summary.size.nodes}{nested}")
    lines += [f"{'':11} {count:6} {name}" for name, count in summary.size.operators.most_common()]
    facts = [
        ("functions", ", ".join(summary.functions)),
        ("dynamic", ", ".join(summary.dynamic_dimensions)),
        ("no shape", f"{summary.values_without_shape} values" if summary.values_without_shape else ""),
        ("datatypes", ", ".join(f"{name} {count}" for name, count in summary.datatypes.most_common())),
    ]
    lines += [f"{label:11} {text}" for label, text in facts if text]
    lines += [f"{'repaired' if i == 0 else '':11} {text}" for i, text in enumerate(summary.repairs)]
    return lines
