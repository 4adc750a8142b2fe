"""Metrics of a model on batches of a dataset, wherever they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from onnx_passes.verify.comparison.interface_history import InterfaceHistory
from onnx_passes.verify.metrics.accumulators import Accumulator, Metric
from onnx_passes.verify.metrics.expectations import Results, expectations
from onnx_passes.verify.metrics.metrics import accumulator, is_elementwise
from onnx_passes.verify.run.execute import Executable, Sample
from onnx_passes.verify.samples.dataset import Batch

Metrics = Mapping[str, Metric]
States = dict[str, Accumulator]


def measure(
    metrics: Metrics,
    batches: Iterable[tuple[int, Batch]],
    run: Callable[[int, Batch], Sample],
    originals: Results,
    interface: InterfaceHistory,
) -> States:
    """Run a model on batches and take in what metrics look at."""
    states = {name: accumulator(metric) for name, metric in metrics.items()}
    for number, batch in batches:
        found = interface.under_old_names(run(number, batch))
        for name, state in states.items():
            known = dict(expectations(metrics[name], number, batch, found, originals))
            for output in interface.left(known, found):
                state.update(interface.as_returned_now(output, known[output], found[output]), found[output])
    return states


def run_now(ready: Executable, interface: InterfaceHistory) -> Callable[[int, Batch], Sample]:
    """Return what runs a model on batches in the form that its inputs have now."""
    return lambda _, batch: interface.as_taken_now(batch).run(ready)


def needs_originals(metrics: Metrics, *, has_expected: bool) -> bool:
    """Tell whether results of the original model are what metrics are held against."""
    return not has_expected or any(map(is_elementwise, metrics.values()))


def merged(parts: Iterable[States]) -> States:
    """Merge what came of parts of a dataset, of which there is at least one."""
    whole: States | None = None
    for part in parts:
        if whole is None:
            whole = part
            continue
        for name, state in whole.items():
            state.merge(part[name])
    assert whole is not None
    return whole
