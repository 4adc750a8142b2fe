"""Work on a model step by step: look, try, take back, compare, and keep the pipeline that comes of it."""

import onnx_passes
from onnx_passes import examples

digits = examples.digits()
s = onnx_passes.open(examples.path("digits-cnn"), inputs={"image": digits.image[:8]})

print(len(s.find("Relu > Quant")), "quantizers behind a Relu")
print(s.preview("extract-quant-scale-zeropoint").summary())

s.apply("streamline")
print(s.steps)

narrow = s.undo().branch("three bits")  # a session of its own, with the same history
narrow.apply("streamline{infer-thresholds.max-bits=3}")
s.redo()
for name, session in {"all bits": s, "three bits": narrow}.items():
    logits = session.run({"image": digits.image})["logits"]
    print(f"{name}: {(logits.argmax(axis=1) == digits.label).mean():.2%} in {len(session.model.graph)} nodes")

print("the command line does the same with:", s.pipeline)
s.save("streamlined.onnx")
s.report("report.html")
