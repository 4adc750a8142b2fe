"""``onnx-passes prove``: prove laws and rules, and show why a proof fails."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import common_options, imported
from onnx_passes.core.errors import ExitCode

if TYPE_CHECKING:
    from onnx_passes.proofs.rule_certificate import PassCertificates, RuleCertificate
    from onnx_passes.testing.prove.prover import RuleVerdict


@click.command("prove", short_help="Prove laws and rules for all inputs.")
@click.argument("rules", nargs=-1, metavar="RULE…", shell_complete=pass_names)
@click.option("--all", "every", is_flag=True, help="Prove every registered rule.")
@click.option("--open", "only_open", is_flag=True, help="Skip rules with a proof of their current source.")
@click.option("--stale", "only_stale", is_flag=True, help="Skip rules with a certificate of their current source.")
@click.option("--write", is_flag=True, help="Write the certificates of the collection.")
@click.option("-j", "--jobs", type=click.IntRange(min=0), default=1, help="Concurrent processes [0: all processors].")
@common_options
@click.pass_context
def command(
    context: click.Context,
    rules: tuple[str, ...],
    every: bool,
    only_open: bool,
    only_stale: bool,
    write: bool,
    jobs: int,
    as_json: bool,
) -> int:
    """Prove RULE…, names of passes or groups that are made of rules, or one rule as pass/rule.

    For each rule, small models that it rewrites are generated, with all ranks up to four, and the sizes, types,
    attributes and constants that it accepts. For each model it is proved that the rewrite keeps the results for all
    inputs: bit by bit if its pass promises equality, over the reals if it promises a tolerance. If that fails, the
    reason is printed with the model. Exits with 1 if any rule is not proved.
    """
    if bool(rules) == every:
        raise click.UsageError("Give RULE… or --all.")
    from onnx_passes.testing.fuzz.targets import targets_of
    from onnx_passes.testing.prove import certify

    certify.solver()
    wanted = [target.name for rule in rules for target in targets_of(rule)]
    passes = list(dict.fromkeys(name.partition("/")[0] for name in wanted)) if rules else certify.passes_to_prove()
    found: list[tuple[str, RuleCertificate]] = []

    def done(certificates: PassCertificates, verdicts: list[RuleVerdict]) -> None:
        if write:
            certify.write(certificates)
        for name, certificate in certificates.rules.items():
            title = f"{certificates.name}/{name}"
            if not wanted or title in wanted or certificates.name in wanted:
                found.append((title, certificate))
                if not as_json:
                    click.echo(_line(title, certificate))
        if not as_json and not every:
            for verdict in verdicts:
                _show_failure(verdict)

    jobs = jobs or os.cpu_count() or 1
    anew = "stale" if only_stale else "open" if only_open else "all"
    certify.certify_all(passes, wanted, done, anew=anew, jobs=jobs, imports=imported(context))
    proved = sum(certificate.is_proved for _, certificate in found)
    if as_json:
        click.echo(json.dumps([{"rule": name, **each.to_json()} for name, each in found], indent=2, ensure_ascii=False))
    else:
        click.echo(f"{proved} of {len(found)} laws and rules are proved")
    return ExitCode.OK if proved == len(found) or write else ExitCode.VERIFICATION


def _line(name: str, certificate: RuleCertificate) -> str:
    if not certificate.is_proved:
        return f"{name}: not proved: {certificate.lacks}"
    return f"{name}: {certificate.level} by {certificate.method}; {certificate.instances} models; {certificate.domain}"


def _show_failure(verdict: RuleVerdict) -> None:
    """Print the model that was not proved, before and after."""
    import onnx_ir as ir

    from onnx_passes.testing.fuzz.judge import text_of

    for failure in verdict.failures[:1] if not verdict.is_proved else ():
        click.echo(f"\n{verdict.target.name}: {failure.why.reason}\nbefore:")
        click.echo(text_of(ir.to_proto(failure.instance.before)))
        click.echo("after:")
        click.echo(text_of(ir.to_proto(failure.instance.after)))
