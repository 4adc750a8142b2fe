"""The domains of the operators of QONNX."""

DOMAIN = "qonnx.custom_op.general"
BREVITAS_DOMAIN = "onnx.brevitas"
