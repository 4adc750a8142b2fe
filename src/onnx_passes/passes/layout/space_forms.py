"""Channels-last forms of DepthToSpace and SpaceToDepth."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integer, text
from onnx_passes.graph.shapes import dims
from onnx_passes.passes.layout.images import CHANNELS_LAST, ChannelsLast, ChannelsLastForm
from onnx_passes.rewrite.refusal import Refusal, no

_IMAGE = 4


def _sizes(images: ChannelsLast, node: ir.Node) -> tuple[ir.Value, int, list[int]] | Refusal:
    """Return the image, the block size, and height, width and channels, which must be known."""
    x, block = argument(node, 0), integer(node, "blocksize", 0)
    sizes = dims(x)
    if x is None or sizes is None or len(sizes) != _IMAGE or not block:
        return no("it is not of an image of known rank", at=node)
    known = [size for size in (*sizes[2:], sizes[1]) if isinstance(size, int)]
    if len(known) < _IMAGE - 1 or 0 in known:
        return no("the size of the image is not known, or zero", at=node)
    return images.last(x), block, known


def _moved(images: ChannelsLast, x: ir.Value, apart: list[int], perm: list[int], joined: list[int]) -> ir.Value:
    """Split axes into blocks, permute them, and merge them again."""
    split = images.op.Reshape(x, np.array([-1, *apart], np.int64))
    return images.op.Reshape(images.op.Transpose(split, perm=perm), np.array([-1, *joined], np.int64))


def _depth_to_space(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    found = _sizes(images, node)
    if isinstance(found, Refusal):
        return found
    x, block, (height, width, channels) = found
    depth = channels // block**2
    joined = [height * block, width * block, depth]
    if text(node, "mode", "DCR") == "CRD":
        return _moved(images, x, [height, width, depth, block, block], [0, 1, 4, 2, 5, 3], joined)
    return _moved(images, x, [height, width, block, block, depth], [0, 1, 3, 2, 4, 5], joined)


def _space_to_depth(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    found = _sizes(images, node)
    if isinstance(found, Refusal):
        return found
    x, block, (height, width, channels) = found
    joined = [height // block, width // block, channels * block**2]
    apart = [height // block, block, width // block, block, channels]
    return _moved(images, x, apart, [0, 1, 3, 2, 4, 5], joined)


CHANNELS_LAST.attach(
    {
        "DepthToSpace": ChannelsLastForm(_depth_to_space, starts=False),
        "SpaceToDepth": ChannelsLastForm(_space_to_depth, starts=False),
    }
)
