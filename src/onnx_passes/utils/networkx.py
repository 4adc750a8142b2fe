"""Models as graphs of NetworkX; ``onnx_passes.to_networkx`` says more of them."""

from onnx_passes.graph.networkx import onnx_to_nx

__all__ = ["onnx_to_nx"]
