"""Options of a run besides its passes, and those of verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choices:
    """Options of a run besides its passes: plain data, which can be sent to another process."""

    output: str | None = None
    jobs: int = 1
    scheduler: str | None = None
    store: str | None = None
    state: str | None = None
    record: str | None = None
    report: str | None = None
    trace: str | None = None
    in_place: bool = False
    external: bool | None = None
    share_data: bool = False
    print_changed: bool = False
    keep_intermediates: str | None = None
    time: bool = False
    evidence: bool = False
    measure: bool = False
    limit: int | None = None
    paranoid: bool = False
    verify: str | None = None
    tolerance: str | None = None
    seed: int = 0
    samples: int | None = None
    effort: float = 1.0
    special: bool | None = None
    sizes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    dataset: tuple[str, ...] = ()
    batch: int | None = None
    structure: tuple[str, ...] = ()
    dump: str | None = None
    dump_limit: str | None = None
    require: str | None = None
    prove: bool = True
    memory: str | None = None
    repro: str = "onnx-passes-repro"
    quiet: bool = False
    as_json: bool = False


_CHECKING = (
    click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N rule applications."),
    click.option("--paranoid", is_flag=True, help="Check the contract of every pass, and the whole model after it."),
    click.option(
        "--verify", type=click.Choice(["each", "final", "off"]), help="When to run and compare [default: each]."
    ),
    click.option(
        "--tolerance",
        metavar="ATOL[,RTOL]",
        help="Largest difference of results from the original [default: 1e-5,1e-4].",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated inputs."),
    click.option(
        "--samples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of inputs to generate [default: 3 or more, fewer if the model is slow].",
    ),
    click.option(
        "--effort",
        type=click.FloatRange(min=0, max=1e6),
        default=Choices.effort,
        metavar="X",
        help="Let runs on samples of a slow model take X times as long [default: 1].",
    ),
    click.option(
        "--size",
        "sizes",
        multiple=True,
        metavar="NAME=SIZE",
        help="Size of a dynamic dimension in generated inputs; the model keeps it dynamic. May be repeated.",
    ),
    click.option(
        "--special/--no-special",
        default=None,
        help="Add NaN, infinities, the largest and smallest numbers [default: on small models].",
    ),
    click.option(
        "--inputs", multiple=True, metavar="FILE", help="Inputs to verify with (.npy, .npz, .pb); may be repeated."
    ),
    click.option(
        "--expect",
        multiple=True,
        metavar="FILE",
        help="Outputs expected for the inputs or, with --metric, class labels of the dataset; may be repeated.",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="NAME[=MIN,MAX]",
        help="Measure a metric (accuracy, psnr, …, or your module:function) and require a range, also as NAME>=MIN or "
        "NAME<=MAX; may be repeated.",
    ),
    click.option(
        "--dataset", multiple=True, metavar="FILE", help="Inputs to measure on [default: --inputs]; may be repeated."
    ),
    click.option(
        "--batch", type=click.IntRange(min=1), metavar="N", help="Rows of the dataset to run at a time [default: 64]."
    ),
    click.option(
        "--structure",
        multiple=True,
        metavar="PROPERTY",
        help="Require a property of the graph, as 'acyclic' or 'at-most(Conv, 3)'; may be repeated.",
    ),
    click.option(
        "--require",
        metavar="WHAT[:HOW]",
        help="Fail unless the run preserves bits, levels, reals, tolerance or metric, known at least as proved, "
        "proved-here, tested or sampled [default: sampled].",
    ),
    click.option("--prove/--no-prove", default=Choices.prove, help="Look for proofs of rewrites [default: prove]."),
    click.option("--memory", metavar="SIZE", help="Memory for local checks [default: 256MiB]."),
    click.option(
        "--repro",
        default=Choices.repro,
        metavar="DIR",
        show_default=True,
        help="Folder for the reproducer of a failure.",
    ),
)


def checking_options(function: F) -> F:
    """Add the options of verification to a command."""
    for option in reversed(_CHECKING):
        function = option(function)
    return function
