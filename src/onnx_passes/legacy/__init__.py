"""What version 0.4 had and users of it may rely on, each in terms of what there is now.

Nothing else in the package depends on how 0.4 looked. Modules of 0.4 that have no counterpart under their old path
(``onnx_passes.passes.base``, ``onnx_passes.passes.compose`` …) hold nothing but imports from here.
"""
