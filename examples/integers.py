"""Take a quantized network to integers, and run it in ONNX Runtime, which knows nothing of us."""

import numpy as np
import onnxruntime

import onnx_passes
from onnx_passes import examples

digits = examples.digits()
streamlined = onnx_passes.apply(examples.path("digits-cnn"), "streamline", inputs=[{"image": digits.image[:8]}])
exported = onnx_passes.apply(streamlined.model, "export-integer")
exported.save("integers.onnx")

session = onnxruntime.InferenceSession("integers.onnx", providers=["CPUExecutionProvider"])
(logits,) = session.run(None, {"image": digits.image})
same = onnx_passes.run_model(streamlined.model, {"image": digits.image})["logits"]
print(f"{(logits == same).all(axis=1).sum()} of {len(logits)} images bit by bit as before the export")
print(f"accuracy {np.mean(logits.argmax(axis=1) == digits.label):.2%}")
print(", ".join(sorted({node.op_type for node in exported.model.graph if "Integer" in node.op_type})))
