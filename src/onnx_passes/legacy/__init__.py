"""Names and features of version 0.4 on which users may rely, each in terms of its replacement.

Nothing else in the package depends on the form of 0.4. Modules of 0.4 without a counterpart under their old path
(``onnx_passes.passes.base``, ``onnx_passes.passes.compose`` …) only import from here.
"""
