"""Modules of the zoo as they are exported: called by position, with tensors alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Options = Mapping[str, Any]
Row = tuple[str, str] | tuple[str, str, Options]
"""Architecture, its exports, and what its constructor is called with beside what all of its library are."""


@dataclass(frozen=True)
class Prepared:
    """A module, what it is called with by name, and which axes are dynamic where that is asked for."""

    module: torch.nn.Module
    inputs: dict[str, torch.Tensor]
    axes: dict[str, dict[int, str]]


class Called(torch.nn.Module):
    """A module that is called by position and answers with tensors alone."""

    def __init__(self, module: torch.nn.Module, names: tuple[str, ...], choose: Callable[[Any], Any], **options: Any):
        super().__init__()
        self.module, self.names, self.choose, self.options = module, names, choose, options

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.choose(self.module(**dict(zip(self.names, inputs, strict=True)), **self.options))


class Decoder(torch.nn.Module):
    """A decoder that takes the keys and values of each layer so far, and returns them with those of its input."""

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.module = module

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, *past: torch.Tensor) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        made = self.module(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return made.logits, *(kept for layer in cache.layers for kept in (layer.keys, layer.values))


class Detector(torch.nn.Module):
    """A detector of one image."""

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.module = module

    def forward(self, image: torch.Tensor) -> Any:
        found = self.module([image[0]])[0]
        return found["boxes"], found["scores"], found["labels"]


def images(size: int, batch: int = 1) -> torch.Tensor:
    return torch.rand(batch, 3, size, size)
