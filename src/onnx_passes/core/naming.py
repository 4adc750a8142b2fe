"""The three spellings of a pass: class ``FuseBatchNorm``, file ``fuse_batchnorm``, text ``fuse-batchnorm``."""

from __future__ import annotations

import functools
import re

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@functools.lru_cache(maxsize=4096)
def kebab(name: str) -> str:
    """Return the spelling of a class, file or field name in pipeline text."""
    return _WORD_START.sub("-", name).replace("_", "-").lower()


@functools.lru_cache(maxsize=4096)
def fold(name: str) -> str:
    """Return one spelling for ``FuseBatchNorm``, ``fuse-batchnorm`` and ``fuse_batch_norm``."""
    return name.replace("-", "").replace("_", "").casefold()
