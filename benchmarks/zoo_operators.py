"""The operators of torchvision for the CPU build of torch, which the torchvision of registries is not built for.

Importing this before torchvision lets it be imported, and detectors be exported: operators become nodes of ONNX.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
)


def _can_load() -> bool:
    found = importlib.util.find_spec("torchvision")
    try:
        torch.ops.load_library(str(Path(found.origin or "").with_name("_C.so")) if found else "")
    except OSError:
        return False
    return True


def _nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    from torchvision.ops import box_iou

    overlap = box_iou(boxes, boxes) > iou_threshold
    kept: list[int] = []
    for index in scores.argsort(descending=True).tolist():
        if not overlap[index, kept].any():
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def _roi_align(*arguments: Any) -> torch.Tensor:
    return sys.modules["torchvision.ops.roi_align"]._roi_align(*arguments)


def _has_ops() -> bool:
    return True


if not _can_load():
    _LIBRARY = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        _LIBRARY.define(schema)
    _LIBRARY.impl("nms", _nms, "CPU")
    _LIBRARY.impl("roi_align", _roi_align, "CPU")
    import torchvision.extension
    import torchvision.ops

    for module in (torchvision.extension, sys.modules["torchvision.ops.roi_align"]):
        module._has_ops = _has_ops  # pyright: ignore[reportAttributeAccessIssue]
