"""The functions that every law may call: what is known of values, and arithmetic on constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onnx_passes.graph.arithmetic import folded, grows_when_folded, negated
from onnx_passes.graph.constants import (
    grows,
    held,
    holds_only,
    is_constant,
    is_number,
    is_own_constant,
    number,
)
from onnx_passes.graph.shapes import (
    has_no_signs,
    is_discrete,
    is_float,
    is_integral,
    is_whole,
    keeps_shape,
    stays,
    vanishes_into,
)

CONSTANT = frozenset(function.__name__ for function in (holds_only, is_constant, is_number, is_own_constant))
"""The functions that say no to a first argument that is not constant."""
WORDS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        folded,
        grows,
        grows_when_folded,
        has_no_signs,
        held,
        holds_only,
        is_constant,
        is_discrete,
        is_float,
        is_integral,
        is_number,
        is_own_constant,
        is_whole,
        keeps_shape,
        negated,
        number,
        stays,
        vanishes_into,
    )
}
