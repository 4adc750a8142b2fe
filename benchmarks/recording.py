"""Cost of recording a run for a report, in CPU time of one process and in memory.

    python benchmarks/recording.py [--models FOLDER] [--repeat N]

For each run: CPU time of the verified run without and with a recording, alternately, the least of several, and the
part of it that hooks of the recording took beside the rest of the same run; the same unverified; what is kept of the
model as it came, and in all (tracemalloc); the number of events; and what the data of the report cost.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir

import onnx_passes
from onnx_passes import examples
from onnx_passes.core.instruments import Instrument
from onnx_passes.history.recording import Recording
from onnx_passes.report.data import report_data


def chain(nodes: int, changed: int = 100) -> ir.Model:
    """Build a graph of some width in which every so many nodes there is something to simplify."""
    lines = ["v0 = Tanh(x)"]
    last = "v0"
    for i in range(1, nodes):
        if i % max(nodes // changed, 2) == 0:
            lines.append(f"v{i} = Identity({last})")
        elif i % 7 == 0:
            lines.append(f"v{i} = Add({last}, v{i - 5})")
        else:
            lines.append(f"v{i} = Tanh({last})")
        last = f"v{i}"
    body = "\n".join(f"[n{i}] {line}" for i, line in enumerate(lines))
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["": 20]> g (float[4] x) => (float[4] {last}) {{ {body} }}'
    )


def spent(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


HOOKS = [name for name in vars(Instrument) if name.startswith(("before_", "after_"))]


class Timed(Recording):
    """A recording that knows how long it took."""

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__()


def timed(name: str) -> Callable[..., object]:
    def hook(self: Timed, *arguments: object) -> object:
        start = time.process_time()
        try:
            return getattr(Recording, name)(self, *arguments)
        finally:
            self.seconds += time.process_time() - start

    return hook


for name in HOOKS:
    setattr(Timed, name, timed(name))


def compare(source: object, pipeline: str, repeat: int, *, verify: bool) -> tuple[float, float, float]:
    """Return the least CPU seconds without and with a recording, measured alternately, and the part within it.

    The part is taken within one run, which does not depend on what else the machine does.
    """
    plain, recorded, parts = list[float](), list[float](), list[float]()
    for _ in range(repeat):
        plain.append(spent(lambda: onnx_passes.apply(source, pipeline, verify=verify)))
        recording = Timed()
        recorded.append(
            spent(lambda: onnx_passes.apply(source, pipeline, verify=verify, instruments=[recording]))  # noqa: B023
        )
        parts.append(recording.seconds / (recorded[-1] - recording.seconds))
    return min(plain), min(recorded), min(parts)


class Kept(Instrument):
    """How much memory code of the recording holds at the start and at the end."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def before_pipeline(self, run, model) -> None:
        self._take()

    def after_pipeline(self, run, model) -> None:
        self._take()

    def _take(self) -> None:
        only = [tracemalloc.Filter(True, "*/history/*")]
        found = tracemalloc.take_snapshot().filter_traces(only)
        self.sizes.append(sum(entry.size for entry in found.statistics("filename")))


def memory(source: object, pipeline: str) -> tuple[int, int, int]:
    """Return the bytes that a recording keeps of the model as it came, and at the end; and the number of events."""
    recording, kept = Recording(), Kept()
    tracemalloc.start()
    onnx_passes.apply(source, pipeline, verify=False, instruments=[recording, kept])
    gc.collect()
    kept._take()
    tracemalloc.stop()
    return kept.sizes[0], kept.sizes[-1], len(recording.events)


def measure(name: str, source: object, pipeline: str, repeat: int) -> None:
    verified = compare(source, pipeline, repeat, verify=True)
    bare = compare(source, pipeline, repeat, verify=False)
    first, last, events = memory(source, pipeline)
    result = onnx_passes.apply(source, pipeline, verify=False, report=True)
    written = spent(lambda: report_data(result.recording))
    print(
        f"{name:28}"
        + "".join(f"{plain:9.2f}{recorded:9.2f}{part:8.1%}" for plain, recorded, part in (verified, bare))
        + f"{first / 1e6:9.2f}{last / 1e6:9.2f}{events:8}{written:9.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", type=Path, help="a folder with the two networks of others")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    runs: list[tuple[str, Callable[[], object], str]] = [
        ("digits-cnn streamline", lambda: examples.path("digits-cnn"), "streamline"),
        ("5 000 nodes simplify", lambda: chain(5000), "simplify"),
        ("20 000 nodes simplify", lambda: chain(20_000), "simplify"),
    ]
    if chosen.models is not None:
        runs += [
            ("CNV 2w2a streamline", lambda: chosen.models / "brevitas/bnnpynq_cnv_2w2a.onnx", "streamline"),
            ("BERT simplify", lambda: chosen.models / "float/ort_tfbert_qa_tiny.onnx", "simplify"),
        ]
    print(
        f"{'':28}{'verified':>9}{'recorded':>9}{'part':>8}{'unverif.':>9}{'recorded':>9}{'part':>8}"
        f"{'MB first':>9}{'MB last':>9}{'events':>8}{'writing':>9}"
    )
    for name, make, pipeline in runs:
        if chosen.only in name:
            measure(name, make(), pipeline, chosen.repeat)


if __name__ == "__main__":
    main()
