"""The index of the collection, from which ``list`` and ``explain`` answer without importing passes.

``python -m onnx_passes.testing.index`` writes it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import replace

from onnx_passes.core.registry import INDEX, REGISTRY


def build_index() -> str:
    """Import the whole collection and describe it."""
    from onnx_passes import passes

    modules = [module.name for module in pkgutil.walk_packages(passes.__path__, f"{passes.__name__}.")]
    for module in modules:
        importlib.import_module(module)
    # Members of a group run in the order of the index: by name within a package, whatever their table.
    entries = [entry for entry in REGISTRY.entries() if entry.module in modules and REGISTRY.load(entry)]
    entries.sort(key=lambda entry: (entry.module.rpartition(".")[0], entry.name))
    return json.dumps([replace(entry, line=0).to_json() for entry in entries], indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    # The existing index may name modules that have moved.
    REGISTRY.only_imported()
    INDEX.write_text(build_index(), encoding="utf-8")
