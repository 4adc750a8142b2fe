"""Hold a pipeline to the accuracy on a dataset: what each step that may round costs; too much is an error."""

import onnx_passes
from onnx_passes import Measuring, examples

digits = examples.digits()
dataset = [{"image": digits.image}]  # or files: ["images.npy"], ["val.parquet#image"], ["s3://bucket/val.zarr#image"]
labels = [digits.label]

measuring = Measuring({"accuracy": (0.98, 1.0)}, dataset=dataset, expect=labels)
result = onnx_passes.apply(examples.path("digits-cnn"), "streamline", metrics=measuring)

for step in result.steps:
    if step.metrics:
        print(f"{step.name:32} accuracy {step.metrics['accuracy']:.2%}, {step.level}")
