"""The interactive session: a model, its history, and undo."""

from __future__ import annotations

from onnx_passes.session.notebooks import install

install()
