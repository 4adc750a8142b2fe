"""``python -m onnx_passes``: the command line."""

from onnx_passes.cli.main import main

main()
