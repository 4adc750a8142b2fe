"""Shell completion of pass names, answered from the index."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem


def pass_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a pass or group."""
    from onnx_passes.core.registry import REGISTRY

    summaries = {entry.name: entry.summary for entry in REGISTRY.entries()}
    return [CompletionItem(name, help=summaries.get(name)) for name in REGISTRY.names() if name.startswith(incomplete)]


def model_or_pass(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the model first, then passes."""
    values: Any = ctx.params.get(parameter.name or "")
    if not values:
        return [CompletionItem(incomplete, type="file")]
    return pass_names(ctx, parameter, incomplete)
