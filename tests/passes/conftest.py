"""Register the whole collection: sequences name their members."""

import importlib
import pkgutil

import onnx_passes.passes

for module in pkgutil.walk_packages(onnx_passes.passes.__path__, "onnx_passes.passes."):
    importlib.import_module(module.name)
