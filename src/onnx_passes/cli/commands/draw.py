"""``onnx-passes draw``: draw a model, or a part of it."""

from __future__ import annotations

import click

from onnx_passes.cli.files import require_writable
from onnx_passes.cli.options import debug_option, import_option


@click.command("draw", short_help="Draw a model, or the neighbourhood of a node.")
@click.argument("model")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help=".svg, .png, .html, .dot, .mmd or .graphml file [default: SVG, printed].",
)
@click.option("--around", multiple=True, metavar="NODE", help="Show the neighbourhood of a node; may be repeated.")
@click.option("--hops", type=click.IntRange(min=0), default=2, show_default=True, help="Size of the neighbourhood.")
@click.option("--before", metavar="FILE", help="Colour the differences from this model.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Largest graph that is drawn in full [default: 150].",
)
@click.option("--all", "everything", is_flag=True, help="Show every node.")
@click.option(
    "--theme",
    type=click.Choice(["auto", "light", "dark"]),
    default="auto",
    help="Colours [default: those of the viewer].",
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

    Constants are drawn inside the nodes that read them, subgraphs inside their nodes; edges are labelled with shapes
    and data types. In a summary, repeated parts are drawn once, with their number.
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
