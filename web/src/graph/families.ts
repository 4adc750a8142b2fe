/** Families of operators, for colour: what a node is for matters more than which one it is. */

export type Family = "product" | "quantize" | "arithmetic" | "activation" | "normalize" | "move" | "reduce" | "control" | "other";

const MEMBERS: Record<Exclude<Family, "other">, string> = {
  product: "Conv ConvTranspose ConvInteger MatMul MatMulInteger Gemm Einsum QLinearConv QLinearMatMul LSTM GRU RNN Attention",
  quantize:
    "Quant IntQuant FloatQuant BipolarQuant Trunc MultiThreshold QuantizeLinear DequantizeLinear DynamicQuantizeLinear Round Floor Ceil Cast CastLike Thresholding",
  arithmetic:
    "Add Sub Mul Div Pow Sqrt Exp Log Abs Neg Sign Reciprocal Min Max Mean Sum Mod And Or Not Xor Equal Less Greater LessOrEqual GreaterOrEqual Where Sin Cos Erf BitShift",
  activation:
    "Relu LeakyRelu PRelu Sigmoid Tanh Softmax LogSoftmax Gelu Elu Selu Celu HardSigmoid HardSwish Mish Softplus Softsign Clip ThresholdedRelu Swish",
  normalize:
    "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization RMSNormalization LRN MeanVarianceNormalization LpNormalization Dropout SkipLayerNormalization",
  move: "Reshape Flatten Transpose Squeeze Unsqueeze Concat Split Slice Gather GatherND GatherElements ScatterND ScatterElements Expand Tile Pad DepthToSpace SpaceToDepth Resize Upsample Im2Col Shape Size Identity Range ConstantOfShape OneHot NonZero Constant Trilu",
  reduce:
    "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare ArgMax ArgMin TopK CumSum QuantAvgPool2d",
  control: "If Loop Scan SequenceMap SequenceAt SequenceConstruct SequenceInsert Optional",
};

const FAMILY = new Map<string, Family>(
  Object.entries(MEMBERS).flatMap(([family, names]) => names.split(" ").map((name): [string, Family] => [name, family as Family])),
);

export function familyOf(op: string): Family {
  return FAMILY.get(op) ?? "other";
}

const OPERANDS: Record<string, string> = {
  Add: "A B",
  Sub: "A B",
  Mul: "A B",
  Div: "A B",
  Max: "A B",
  Min: "A B",
  Conv: "X W B",
  ConvTranspose: "X W B",
  ConvInteger: "x w x_zero_point w_zero_point",
  Gemm: "A B C",
  MatMul: "A B",
  BatchNormalization: "X scale B mean var",
  LayerNormalization: "X scale B",
  InstanceNormalization: "X scale B",
  Quant: "X scale zero_point bits",
  IntQuant: "X scale zero_point bits",
  BipolarQuant: "X scale",
  Trunc: "X scale zero_point in_bits out_bits",
  MultiThreshold: "X thresholds",
  QuantizeLinear: "x scale zero_point",
  DequantizeLinear: "x scale zero_point",
  Reshape: "data shape",
  Slice: "data starts ends axes steps",
  Gather: "data indices",
  Clip: "x min max",
  Pad: "data pads value",
  PRelu: "X slope",
  Expand: "x shape",
  Unsqueeze: "data axes",
  Squeeze: "data axes",
  Pow: "base exponent",
  Resize: "X roi scales sizes",
  Where: "condition X Y",
};

/** What the specification calls an input. */
export function operandName(op: string, index: number): string | undefined {
  return OPERANDS[op]?.split(" ")[index];
}
