"""``onnx-passes draw``: a picture of a model, or of a part of it."""

from __future__ import annotations

import click

from onnx_passes.cli.files import require_writable
from onnx_passes.cli.options import debug_option, import_option


@click.command("draw", short_help="Draw a model, or what is near a node.")
@click.argument("model")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="As .svg, .png, .html, .dot, .mmd or .graphml [default: SVG, printed].",
)
@click.option("--around", multiple=True, metavar="NODE", help="Show what is near a node; may be repeated.")
@click.option("--hops", type=click.IntRange(min=0), default=2, show_default=True, help="How far 'near' is.")
@click.option("--before", metavar="FILE", help="Colour what has been added, removed and changed since this model.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show larger graphs as a summary, or where they changed [default: 150].",
)
@click.option("--all", "everything", is_flag=True, help="Show every node, however many there are.")
@click.option(
    "--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", help="Colours [default: the reader's]."
)
@import_option
@debug_option
def command(
    model: str,
    output: str | None,
    around: tuple[str, ...],
    hops: int,
    before: str | None,
    limit: int | None,
    everything: bool,
    theme: str,
) -> None:
    """Draw MODEL, a file or '-', from top to bottom.

    Constants are inside of the nodes that read them, shapes and data types stand at the wires, graphs inside of nodes
    are drawn there. In a summary, what repeats is drawn once, with how often it does.
    """
    if everything and limit is not None:
        raise click.UsageError("--all and --limit exclude each other.")
    require_writable(output)
    from onnx_passes.drawing.draw import LIMIT, draw

    # GraphML goes to programs, which take all of a graph.
    most = limit or (None if everything or str(output).endswith(".graphml") else LIMIT)
    drawing = draw(model, before=before, around=around or None, hops=hops, limit=most)
    if output is None or output == "-":
        click.echo(drawing.to_svg(theme=theme), nl=False)  # pyright: ignore[reportArgumentType]
        return
    drawing.save(output, theme=theme)  # pyright: ignore[reportArgumentType]
    click.echo(f"{output}: {drawing.description}", err=True)
