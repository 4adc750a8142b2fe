from __future__ import annotations

import pytest

from onnx_passes.report.summary import RunSummary

KNOWN = {"nodes": (40, 24), "bytes": (2516582, 1887436), "opset": (17, 17), "cpu": 0.42, "level": "bits:sampled"}


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({}, "m.onnx: 40 → 24 nodes (−40 %), 2.4 → 1.8 MiB, opset 17, 0.4 s, verified: bits:sampled"),
        ({"nodes": (3, 3), "level": ""}, "m.onnx: 3 → 3 nodes, 2.4 → 1.8 MiB, opset 17, 0.4 s, not verified"),
        ({"nodes": (0, 2), "opset": (None, None)}, "m.onnx: 0 → 2 nodes, 2.4 → 1.8 MiB, 0.4 s, verified: bits:sampled"),
        ({"bytes": (500, 2048)},
         "m.onnx: 40 → 24 nodes (−40 %), 500 B → 2.0 KiB, opset 17, 0.4 s, verified: bits:sampled"),
        ({"opset": (13, 21), "level": "unverified"},
         "m.onnx: 40 → 24 nodes (−40 %), 2.4 → 1.8 MiB, opset 13 → 21, 0.4 s, not verified"),
    ],
)  # fmt: skip
def test_a_run_in_one_line(other, line):
    assert RunSummary(**{**KNOWN, **other}).line("m.onnx") == line


def test_a_summary_is_plain_data():
    summary = RunSummary(**KNOWN)
    assert (
        RunSummary.from_json({key: list(v) if isinstance(v, tuple) else v for key, v in vars(summary).items()})
        == summary
    )
