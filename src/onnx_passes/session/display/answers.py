"""Pages of explanations: why, why not, whether results are equal, and failures."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_passes.check.verdict import Verdict
from onnx_passes.core.errors import OnnxPassesError, PassFailedError
from onnx_passes.debug.attempts import Attempt
from onnx_passes.debug.why_not import RuleReport, WhyNot
from onnx_passes.graph.wording import count
from onnx_passes.history.events import Ancestry, Event
from onnx_passes.history.items import Item
from onnx_passes.session.display.changes import diff_page
from onnx_passes.session.display.html import (
    Html,
    badge,
    code,
    element,
    facts,
    folded,
    joined,
    quiet,
    strong,
    table,
    title,
)
from onnx_passes.session.failed import FailedStep
from onnx_passes.verify.comparison.compare import TensorComparison
from onnx_passes.verify.failure import Failure

_VERDICTS = {"equal bit by bit": "good", "within tolerance": "near", "different": "bad", "not verified": "near"}
_FEW = 10


def ancestry_page(story: Ancestry) -> Html:
    """Show the origin of a node, or its fate."""
    parts: list[object] = [title(strong(story.item), "" if story.present else quiet(" is gone"))]
    if story.fate:
        parts += [
            title("removed by"),
            _events(story.fate),
            title("in the result: ", _items(story.successors)),
        ]
    if story.events:
        parts += [title("came from"), _events(story.events)]
        parts += [title("originally: ", _items(story.origins))] if story.origins else []
    else:
        parts.append(title("as in the original model" if story.present else "it came from the original model"))
    return joined(parts)


def _events(events: tuple[Event, ...]) -> Html:
    rows = [
        (
            event.step,
            code(event.text),
            event.rule and f"{event.rule} (rewrite {event.application})",
            _items(event.matched),
            _items(event.replacements) if event.replacements else quiet("nothing: nobody uses it any more"),
        )
        for event in events
    ]
    return table(("step", "pass", "rule", "before", "after"), rows, numbers=(0,))


def _items(items: Iterable[Item]) -> Html:
    return joined(element("div", code(item)) for item in items)


def why_not_page(answer: WhyNot) -> Html:
    """Show how far rules matched."""
    parts: list[object] = [title(quiet(f"after {', '.join(answer.before)}"))] if answer.before else []
    parts += [_rule(report) for report in answer.rules if report.candidates]
    others = [report.rule for report in answer.rules if not report.candidates]
    if others:
        none = "no node of the model is what the pattern ends with"
        parts.append(title(quiet(f"{', '.join(others[:_FEW])}{' …' if len(others) > _FEW else ''}: {none}")))
    return joined(parts) if answer.rules else title("it considered no rewrite there")


def _rule(report: RuleReport) -> Html:
    rows = [(code(attempt.node), _outcome(attempt)) for attempt in report.attempts]
    applies = badge(f"applies to {report.applies} of {report.candidates}", "good" if report.applies else "open")
    return joined([title(strong(report.rule), " ", applies, " ", quiet(report.source)), table(("node", ""), rows)])


def _outcome(attempt: Attempt) -> Html:
    matched = "the whole pattern" if attempt.complete else f"{len(attempt.matched)} of {attempt.size} nodes"
    parts = element("ul", *(element("li", f"{pattern} is {node}") for pattern, node in attempt.matched))
    if attempt.applies:
        return joined([badge("applies", "good"), parts if attempt.matched else ""])
    reasons = "; or ".join(map(str, attempt.stops))
    return joined([reasons, folded(quiet(f"{matched} matched"), parts) if attempt.size else ""])


def verdict_page(found: Verdict) -> Html:
    """Show whether two models compute the same results."""
    differing = [tensor for result in found.results for tensor in result.tensors if not tensor.equal]
    parts: list[object] = [
        title(
            badge(found.verdict, _VERDICTS[found.verdict]),
            f" on {count(len(found.results), 'sample')} ({found.engine})",
        )
    ]
    if differing:
        parts.append(_tensors(differing[:_FEW]))
    if found.violation is not None and not differing:
        parts.append(found.violation.difference)
    if found.divergence:
        parts.append(title("first divergence: ", code(found.divergence)))
    return joined(parts)


def _tensors(tensors: list[TensorComparison]) -> Html:
    rows: list[tuple[object, ...]] = []
    for tensor in tensors:
        worst = tensor.worst
        place = "" if worst is None else f"[{', '.join(map(str, worst.index))}]"
        values = ("", "") if worst is None else (_number(worst.expected), _number(worst.found))
        error = "" if tensor.max_abs is None else f"{tensor.max_abs:.3g}"
        rows.append((code(tensor.name + place), *values, error, f"{tensor.differing} of {tensor.total}", tensor.status))
    header = ("worst element", "expected", "found", "max abs", "elements", "")
    return table(header, rows, numbers=(1, 2, 3, 4))


def _number(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def failure_page(failure: Failure) -> Html:
    """Show the findings of a verification."""
    known: dict[str, object] = {"pass": code(f"{failure.text}"), "promises": failure.claim}
    known |= {
        "difference": code(failure.difference),
        "sample": failure.sample,
        "rewrite": failure.application,
        "rule": code(failure.source) if failure.source else "",
        "matched": code(failure.matched) if failure.matched else "",
        "replaced by": code(failure.replacement) if failure.replacement else "",
        "diverges at": code(failure.diverges) if failure.diverges else "",
        "not accepted": failure.no_excuse,
        "to accept": failure.advice,
        "reproducer": failure.reproducer,
    }
    if failure.facts is not None:
        known = {"pass": code(failure.text), **failure.facts}
    return facts(known)


def error_page(error: OnnxPassesError) -> Html:
    """Show an error: the findings of a verification, or the message, location and hint."""
    failure = getattr(error, "failure", None)
    heading = title(badge(type(error).__name__, "bad"), " ", error.what)
    if isinstance(failure, Failure):
        return joined([heading, failure_page(failure)])
    return joined([heading, facts({"where": error.where or "", "do": error.hint or ""})])


def failed_step_page(failed: FailedStep) -> Html:
    """Show a failed step, and the changes that it would have made."""
    error = failed.error
    parts: list[object] = [title("the session is still at step ", strong(failed.state.number), ": ", failed.state.text)]
    parts.append(error_page(error) if isinstance(error, OnnxPassesError) else title(code(str(error))))
    try:
        parts.append(folded("what the step would have changed", diff_page(failed.diff)))
    except PassFailedError:
        parts.append(title(quiet("the step leaves no model to compare with")))
    return joined(parts)
