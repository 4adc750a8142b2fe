"""``onnx-passes certify``: proofs that two models compute the same, and certificates of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.cli.options import debug_option, import_option
from onnx_passes.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.check.verdict import Verdict
    from onnx_passes.proofs.model_certificate import ModelCertificate

FLAGS = ("nnan", "ninf", "nsz", "reassoc", "contract")


@click.command("certify", short_help="Prove that two models compute the same.")
@click.argument("before")
@click.argument("after")
@click.option("--json", "json_file", metavar="FILE", help="Write the certificate; '-' is standard output.")
@click.option("--check", "check_file", metavar="FILE", help="Check a certificate: prove all of it again, and compare.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(FLAGS),
    help="Accept differences that a fast-math flag allows; may be repeated [default: reassoc, contract].",
)
@click.option(
    "--effort",
    type=click.Choice(("quick", "normal", "thorough")),
    default="normal",
    show_default=True,
    help="CPU time: of the solver 0.3, 3 or 30 s for each kind of terms, of all fragments 4, 10 or 600 s.",
)
@click.option("--size", type=int, default=2, show_default=True, help="Size of unknown dimensions.")
@click.option("--solver/--no-solver", default=True, help="Use z3, if it is installed.")
@import_option
@debug_option
def command(
    before: str,
    after: str,
    json_file: str | None,
    check_file: str | None,
    allow: tuple[str, ...],
    effort: Any,
    size: int,
    solver: bool,
) -> int:
    """Prove, fragment by fragment, that AFTER computes the same results as BEFORE for every input of its shapes.

    Unchanged parts are matched from the inputs and outputs inward. The remaining fragments are proved bit by bit
    (proved-here), in real numbers with a rounding bound (equal-in-reals), or refuted by a counterexample that ONNX
    Runtime confirms. An undecided fragment is unproved, with the reason.

    Both models run as well: proofs about models that compute something else, or do not run, do not count.

    Exits with 1 if a fragment is refuted, a run shows a difference, or a checked certificate does not hold.
    """
    from onnx_passes.check.verdict import check_with_proofs
    from onnx_passes.core.claims import Claim
    from onnx_passes.graph.load import load
    from onnx_passes.proofs.model_certificate import certify, checked, differences

    models = load(before), load(after)
    known = [_prepared(model, size) for model in models]
    facts = tuple(sorted({fact for _, told in known for fact in told}))
    old = None if check_file is None else checked(_read(check_file))
    chosen = allow or tuple((old or {}).get("allow", ("reassoc", "contract")))
    certificate = certify(
        *models, effort=effort, allow=chosen, solver=solver, sized=(known[0][0], known[1][0]), facts=facts
    )
    verdict = check_with_proofs(Claim("tolerance" if chosen else "equality"), *models, certificate)
    if json_file is not None:
        _write(certificate, json_file)
    if json_file != "-":
        _show(certificate)
        click.echo(f"verdict: {verdict.level}{_because(verdict)}")
    if old is not None:
        found = differences(old, certificate)
        click.echo("the certificate holds" if not found else "the certificate does not hold: " + "; ".join(found))
        return ExitCode.VERIFICATION if found else ExitCode.OK
    return ExitCode.VERIFICATION if certificate.is_refuted or verdict.is_violated else ExitCode.OK


def _prepared(model: ir.Model, size: int) -> tuple[ir.Model, list[str]]:
    """Give dimensions that are not known a size, and infer all shapes."""
    from onnx_passes.api import apply
    from onnx_passes.graph.extents import symbols_of
    from onnx_passes.passes.interface.fix_shapes import FixShapes

    names = {name for value in model.graph.inputs for dim in value.shape or () for name in symbols_of(dim)}
    fixed = [FixShapes(sizes=dict.fromkeys(names, size))] if names else []
    result = apply(model, [*fixed, "shape-inference"], verify=False)
    return result.model, [f"{name} = {size}" for name in sorted(names)]


def _because(verdict: Verdict) -> str:
    told = verdict.evidence.reason
    return f", {told}" if told else ""


def _read(path: str) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read the certificate '{path}': {error}") from error


def _write(certificate: ModelCertificate, path: str) -> None:
    text = json.dumps(certificate.to_json(), indent=2)
    if path == "-":
        click.echo(text)
    else:
        from onnx_passes.graph.atomic import replacing

        with replacing(Path(path)) as file:
            file.write(text.encode() + b"\n")


def _show(certificate: ModelCertificate) -> None:
    from onnx_passes.report.columns import Column, table_lines, width_of

    if not certificate.windows:
        click.echo("the models are the same: no window is left to prove")
        return
    columns = [
        Column("window", shorten="wrap", least=12),
        Column("before", shorten="wrap", least=16),
        Column("after", shorten="wrap", least=16),
        Column("level"),
        Column("why", shorten="wrap", least=24),
    ]
    rows = [
        [window.output, " ".join(window.removed), " ".join(window.added), window.level, _why(window.result)]
        for window in certificate.windows
    ]
    for line in table_lines(columns, rows, width_of(sys.stdout, 160)):
        click.echo(line)
    amount = len(certificate.windows)
    click.echo(f"{amount} window{'' if amount == 1 else 's'}; weakest level: {certificate.level}")
    for fact in certificate.facts:
        click.echo(f"for {fact}")


def _why(result: Any) -> str:
    from onnx_passes.proofs.proof import Proof

    if not isinstance(result, Proof):
        return result.reason + (f" (would need {', '.join(result.flags)})" if result.flags else "")
    bound = [] if result.bound is None else [f"off by at most {result.bound:.2g}"]
    flags = [f"flags {', '.join(result.flags)}"] if result.flags else []
    return "; ".join([result.method, *bound, *flags, *result.facts])
