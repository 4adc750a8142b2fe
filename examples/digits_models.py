"""Two small quantized networks for 8×8 images of handwritten digits."""

from collections import OrderedDict

from brevitas import nn as qnn
from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat, Int8WeightPerTensorFloat
from torch import Tensor, nn

PIXELS = 8 * 8
CLASSES = 10
BITS = 4


def signed(bits: int) -> nn.Module:
    return qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, bit_width=bits)


def relu() -> nn.Module:
    return qnn.QuantReLU(bit_width=BITS)


def linear(inputs: int, outputs: int, *, bits: int = BITS, bias: bool = False) -> nn.Module:
    """Multiply by a matrix with one scale for all its weights."""
    quantizer = Int8WeightPerTensorFloat
    return qnn.QuantLinear(inputs, outputs, bias=bias, weight_quant=quantizer, weight_bit_width=bits)


def conv(inputs: int, outputs: int, kernel: int, *, bits: int = BITS, bias: bool = False) -> nn.Module:
    """Convolve without changing the image size, with one weight scale per output channel."""
    quantizer = Int8WeightPerChannelFloat
    return qnn.QuantConv2d(
        inputs, outputs, kernel, padding=kernel // 2, bias=bias, weight_quant=quantizer, weight_bit_width=bits
    )


class Residual(nn.Module):
    """Add a branch of two convolutions to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = conv(channels, channels, 3)
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = relu()
        self.conv2 = conv(channels, channels, 3)
        self.norm2 = nn.BatchNorm2d(channels)
        # Both operands of the sum pass through this one quantizer: integers add up only on a common scale.
        self.grid = signed(BITS)
        self.relu2 = relu()
        # Zero makes the block start as the identity and leaves the sign of each channel to training.
        nn.init.zeros_(self.norm2.weight)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.relu1(self.norm1(self.conv1(x)))
        branch = self.norm2(self.conv2(branch))
        return self.relu2(self.grid(branch) + self.grid(x))


def mlp(width: int = 32) -> nn.Module:
    """Build a perceptron with two hidden layers."""
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            quantize=signed(8),
            fc1=linear(PIXELS, width),
            norm1=nn.BatchNorm1d(width),
            relu1=relu(),
            fc2=linear(width, width),
            norm2=nn.BatchNorm1d(width),
            relu2=relu(),
            classifier=linear(width, CLASSES, bias=True),
        )
    )


def cnn(width: int = 16) -> nn.Module:
    """Build a convolutional network with a residual block and a biased pointwise convolution."""
    return nn.Sequential(
        OrderedDict(
            quantize=signed(8),
            conv1=conv(1, width, 3, bits=8),
            norm1=nn.BatchNorm2d(width),
            relu1=relu(),
            residual=Residual(width),
            pool1=nn.MaxPool2d(2),
            conv2=conv(width, 2 * width, 3),
            norm2=nn.BatchNorm2d(2 * width),
            relu2=relu(),
            pool2=nn.MaxPool2d(2),
            conv3=conv(2 * width, 2 * width, 1, bias=True),
            relu3=relu(),
            flatten=nn.Flatten(),
            classifier=linear(8 * width, CLASSES, bits=8, bias=True),
        )
    )
