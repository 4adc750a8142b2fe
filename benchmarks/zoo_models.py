"""The models of the zoo: which architectures of which library are exported, how, and how small.

An export is written `ts17` or `dy20`: the exporter (TorchScript or dynamo) and the opset; a `+` behind it makes the
batch, and of text also the sequence, dynamic. Sizes are small where the structure of the graph does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import zoo_operators  # noqa: F401 - before torchvision
from zoo_diffusers import DIFFUSERS, diffusers_part
from zoo_prepared import Called, Decoder, Detector, Options, Prepared, Row, images

EXPORTERS = {"ts": "torchscript", "dy": "dynamo"}


@dataclass(frozen=True)
class Export:
    library: str
    architecture: str
    way: str
    options: Options

    @property
    def exporter(self) -> str:
        return EXPORTERS[self.way[:2]]

    @property
    def opset(self) -> int:
        return int(self.way[2:4])

    @property
    def dynamic(self) -> bool:
        return self.way.endswith("+")

    @property
    def name(self) -> str:
        return f"{self.library}-{self.architecture}-{self.way.replace('+', '-dynamic')}"

    def prepare(self) -> Prepared:
        return LIBRARIES[self.library][0](self.architecture, dict(self.options))


def exports() -> Iterator[Export]:
    for library, (_, rows) in LIBRARIES.items():
        for architecture, ways, *options in rows:
            yield from (Export(library, architecture, way, *(options or ({},))) for way in ways.split())


def _timm(architecture: str, options: dict[str, Any]) -> Prepared:
    import timm

    size = options.pop("size", options.get("img_size", 64))
    module = timm.create_model(architecture, pretrained=False, num_classes=10, **options)
    return Prepared(module, {"image": images(size)}, {"image": {0: "batch"}})


_TIMM: tuple[Row, ...] = (
    ("resnet18", "ts13 dy18"),
    ("resnet26t", "ts15"),
    ("seresnext26d_32x4d", "ts14"),
    ("res2net50_14w_8s", "ts16"),
    ("skresnet18", "ts17"),
    ("resnest14d", "ts13"),
    ("mobilenetv2_050", "ts13 dy18+"),
    ("mobilenetv3_small_050", "ts15+"),
    ("mobilenetv4_conv_small_050", "dy19"),
    ("tf_efficientnetv2_b0", "ts17"),
    ("efficientnet_lite0", "dy20"),
    ("ghostnet_050", "ts18"),
    ("regnety_002", "ts13"),
    ("dla46x_c", "ts14"),
    ("densenet121", "ts19", {"growth_rate": 8}),
    ("hgnetv2_b0", "ts20"),
    ("repvgg_a0", "ts17"),
    ("ese_vovnet19b_slim_dw", "ts16"),
    ("inception_v3", "ts13", {"size": 128}),
    ("nf_regnet_b0", "ts17 dy18"),
    ("nf_resnet26", "ts14"),
    ("eca_nfnet_l0", "ts20"),
    ("resnetv2_50x1_bit", "ts15"),
    ("convnext_atto", "ts17 dy20"),
    ("convnextv2_atto", "ts16"),
    ("vit_tiny_patch16_224", "ts17 dy20+", {"img_size": 64, "depth": 3}),
    ("deit_tiny_distilled_patch16_224", "ts14", {"img_size": 64, "depth": 3}),
    ("beit_base_patch16_224", "ts17 dy20", {"img_size": 64, "depth": 3, "embed_dim": 192, "num_heads": 3}),
    ("eva02_tiny_patch14_224", "dy18", {"img_size": 56, "depth": 3}),
    ("swin_tiny_patch4_window7_224", "ts17 dy18", {"embed_dim": 24, "depths": (2, 2, 2, 2), "size": 224}),
    ("swinv2_cr_tiny_ns_224", "ts16", {"embed_dim": 24, "depths": (2, 2, 2, 2), "size": 224}),
    ("maxvit_rmlp_pico_rw_256", "ts17", {"size": 256}),
    ("coatnet_pico_rw_224", "dy20", {"size": 224}),
    ("coat_lite_tiny", "ts14 dy20", {"size": 224}),
    ("mobilevit_xxs", "ts17+", {"size": 128}),
    ("fastvit_t8", "ts17 dy18", {"size": 128}),
    ("edgenext_xx_small", "ts15"),
    ("poolformer_s12", "ts13"),
    ("pvt_v2_b0", "ts17"),
    ("xcit_nano_12_p16_224", "ts18", {"size": 64}),
    ("gmlp_ti16_224", "dy20", {"img_size": 64}),
    ("mixer_s32_224", "ts13", {"img_size": 64}),
    ("levit_128s", "ts17", {"size": 224}),
    ("efficientvit_b0", "ts19"),
    ("gcvit_xxtiny", "ts20", {"size": 224}),
)


def _torchvision(architecture: str, options: dict[str, Any]) -> Prepared:
    import torchvision

    size, kind, argument = options.pop("size", 64), options.pop("kind", "classifier"), options.pop("argument", "x")
    module = torchvision.models.get_model(architecture, weights=None, **options)
    if kind == "flow":
        frames = {"first": images(size), "second": images(size)}
        return Prepared(Called(module, ("image1", "image2"), lambda flows: flows[-1], num_flow_updates=2), frames, {})
    if kind == "detector":
        return Prepared(Detector(module), {"image": images(size)}, {})
    if kind == "video":
        return Prepared(module, {"clip": torch.rand(1, 3, 8, size, size)}, {"clip": {0: "batch"}})
    if kind == "segmentation":
        module = Called(module, (argument,), lambda found: found["out"])
    return Prepared(module, {"image": images(size)}, {"image": {0: "batch"}})


_SEGMENTATION = {"kind": "segmentation", "weights_backbone": None, "num_classes": 5}
_DETECTION = {"kind": "detector", "weights_backbone": None, "num_classes": 5}
_TORCHVISION: tuple[Row, ...] = (
    ("squeezenet1_1", "ts13"),
    ("shufflenet_v2_x0_5", "ts15 dy18"),
    ("googlenet", "ts17", {"init_weights": False, "aux_logits": False}),
    ("mnasnet0_5", "dy20"),
    ("swin_v2_t", "ts17"),
    ("maxvit_t", "ts17", {"size": 224}),
    ("lraspp_mobilenet_v3_large", "ts16+", {**_SEGMENTATION, "argument": "input"}),
    ("deeplabv3_mobilenet_v3_large", "ts14", _SEGMENTATION),
    ("mc3_18", "ts18", {"kind": "video"}),
    ("raft_small", "ts17", {"kind": "flow", "size": 128}),
    ("ssdlite320_mobilenet_v3_large", "ts17", {**_DETECTION, "size": 320}),
    ("fasterrcnn_mobilenet_v3_large_320_fpn", "ts17", {**_DETECTION, "size": 320}),
)


def _ultralytics(architecture: str, options: dict[str, Any]) -> Prepared:
    from ultralytics.nn import tasks

    module = getattr(tasks, options.get("task", "DetectionModel"))(f"{architecture}.yaml", verbose=False)
    module.eval().fuse(verbose=False)
    for part in module.modules():
        if hasattr(part, "export"):
            part.export, part.format = True, "onnx"
    return Prepared(module, {"images": images(128)}, {"images": {0: "batch"}})


_ULTRALYTICS: tuple[Row, ...] = (
    ("yolov5n", "ts13"),
    ("yolov8n", "ts17 dy20"),
    ("yolov8n-seg", "ts17+", {"task": "SegmentationModel"}),
    ("yolov9t", "ts16"),
    ("yolov10n", "ts18"),
    ("yolo11n", "ts19 dy18"),
    ("yolo11n-pose", "ts17", {"task": "PoseModel"}),
    ("yolo12n", "ts20"),
)

_WIDTH = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_BERT = {"task": "ForMaskedLM", "vocab_size": 256, "max_position_embeddings": 64, **_WIDTH}
_DECODER = {**_BERT, "task": "ForCausalLM"}
_GROUPED = {**_DECODER, "num_key_value_heads": 2}
_IMAGE = {"task": "ForImageClassification", "image_size": 64, "num_labels": 10, **_WIDTH}
_GPT = {"task": "ForCausalLM", "vocab_size": 256, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
_BART = {
    "task": "ForSeq2SeqLM", "vocab_size": 256, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
}  # fmt: skip
_SPEECH = {
    **_BERT, "task": "ForCTC", "vocab_size": 32, "conv_dim": (32, 32, 32), "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 2, 2), "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
_RESULTS = ("logits", "predicted_depth", "logits_per_image", "last_hidden_state")


_PAST = "-past"
"""Ends the name of a decoder that is exported with its cache."""


def _transformers(architecture: str, options: dict[str, Any]) -> Prepared:
    import transformers

    if architecture.endswith(_PAST):
        return _decoder(architecture.removesuffix(_PAST), options)
    task, attention = options.pop("task"), options.pop("attention", "eager")
    config = transformers.AutoConfig.for_model(architecture, use_cache=False, **options)
    module = getattr(transformers, f"AutoModel{task}").from_config(config, attn_implementation=attention)
    ids = torch.randint(3, 200, (2, 12))
    axes = {0: "batch", 1: "sequence"}
    inputs: dict[str, tuple[torch.Tensor, dict[int, str]]] = {
        "input_ids": (ids, axes),
        "attention_mask": (torch.ones_like(ids), axes),
        "pixel_values": (images(options.get("image_size", 64), 2), {0: "batch"}),
        "input_values": (torch.randn(2, 800), {0: "batch", 1: "samples"}),
        "input_features": (torch.randn(2, options.get("num_mel_bins", 16), 48), {0: "batch"}),
        "decoder_input_ids": (torch.randint(3, 200, (2, 7)), {0: "batch", 1: "decoder_sequence"}),
    }
    names = {
        "ForCTC": ("input_values",),
        "ForSpeechSeq2Seq": ("input_features", "decoder_input_ids"),
        "ForSeq2SeqLM": ("input_ids", "attention_mask", "decoder_input_ids"),
        "ForZeroShotImageClassification": ("input_ids", "pixel_values", "attention_mask"),
        "ForImageClassification": ("pixel_values",),
        "ForSemanticSegmentation": ("pixel_values",),
    }.get(task, ("input_ids", "attention_mask"))
    called = Called(module, names, lambda made: next(made[key] for key in _RESULTS if key in made), return_dict=True)
    return Prepared(called, {name: inputs[name][0] for name in names}, {name: inputs[name][1] for name in names})


def _decoder(architecture: str, options: dict[str, Any]) -> Prepared:
    """Prepare a decoder with a past of five tokens, all lengths dynamic."""
    import transformers

    task, attention = options.pop("task"), options.pop("attention", "eager")
    config = transformers.AutoConfig.for_model(architecture, **options)
    module = getattr(transformers, f"AutoModel{task}").from_config(config, attn_implementation=attention)
    first = transformers.DynamicCache()
    module(torch.randint(3, 200, (2, 5)), past_key_values=first, use_cache=True)
    ids = torch.randint(3, 200, (2, 3))
    inputs = {"input_ids": ids, "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "total"}}
    for number, layer in enumerate(first.layers):
        for name, kept in ((f"past.{number}.key", layer.keys), (f"past.{number}.value", layer.values)):
            inputs[name], axes[name] = kept.detach(), {0: "batch", 2: "past"}
    return Prepared(Decoder(module), inputs, axes)


_TRANSFORMERS: tuple[Row, ...] = (
    ("bert", "ts13 ts17+ dy20+", _BERT),
    ("distilbert", "ts14 dy18", {**_BERT, "dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4}),
    ("roberta", "ts17+", {**_BERT, "attention": "sdpa"}),
    ("albert", "ts15", {**_BERT, "embedding_size": 32}),
    ("electra", "ts16+", {**_BERT, "embedding_size": 32}),
    ("mpnet", "ts17", _BERT),
    ("mobilebert", "ts14", {**_BERT, "true_hidden_size": 32, "intra_bottleneck_size": 32, "embedding_size": 32}),
    ("deberta-v2", "ts17+", {
        **_BERT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8,
    }),
    ("modernbert", "dy20", {
        **_BERT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
    }),
    ("gpt2", "ts13+ ts17 dy20+", _GPT),
    ("gpt_neo", "ts17+", {**_DECODER, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}),
    ("gptj", "ts18", {**_GPT, "rotary_dim": 8}),
    ("gpt_neox", "ts16+", _DECODER),
    ("opt", "ts17+", {**_DECODER, "ffn_dim": 128, "word_embed_proj_dim": 64}),
    ("bloom", "ts15", {**_DECODER, "n_layer": 2, "n_head": 4}),
    ("llama", "ts17+ dy18+ ts14", _GROUPED),
    ("mistral", "ts20+", {**_GROUPED, "attention": "sdpa"}),
    ("qwen2", "dy20", _GROUPED),
    ("qwen3", "ts19+", {**_GROUPED, "head_dim": 16}),
    ("gemma", "ts17+", {**_GROUPED, "head_dim": 16}),
    ("phi", "ts18+", _DECODER),
    ("gpt2-past", "ts17+", _GPT),
    ("gpt_neox-past", "ts17+", _DECODER),
    ("opt-past", "ts17+", {**_DECODER, "ffn_dim": 128, "word_embed_proj_dim": 64}),
    ("llama-past", "ts17+", _GROUPED),
    ("mistral-past", "ts18+", {**_GROUPED, "attention": "sdpa"}),
    ("qwen2-past", "ts17+", {**_GROUPED, "attention": "sdpa"}),
    ("qwen3-past", "ts20+", {**_GROUPED, "head_dim": 16}),
    ("phi-past", "ts17+", _DECODER),
    ("phi3-past", "ts17+", {**_GROUPED, "pad_token_id": 0}),
    ("olmo2-past", "ts17+", _GROUPED),
    ("gemma-past", "ts17+", {**_GROUPED, "head_dim": 16}),
    ("stablelm-past", "ts18+", _GROUPED),
    ("starcoder2-past", "ts17+", _GROUPED),
    ("granite-past", "ts19+", _GROUPED),
    ("mamba", "ts17", {"task": "ForCausalLM", "vocab_size": 256, "hidden_size": 32, "state_size": 4,
        "num_hidden_layers": 2, "expand": 2}),
    ("rwkv", "ts17", {"task": "ForCausalLM", "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2,
        "attention_hidden_size": 32, "intermediate_size": 64, "context_length": 64}),
    ("t5", "ts17+ dy20", {
        "task": "ForSeq2SeqLM", "vocab_size": 256, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2,
        "num_heads": 4,
    }),
    ("bart", "ts17+", _BART),
    ("marian", "ts14", {**_BART, "decoder_start_token_id": 0, "pad_token_id": 0}),
    ("whisper", "dy20", {
        **_BART, "task": "ForSpeechSeq2Seq", "num_mel_bins": 16, "max_source_positions": 24, "max_target_positions": 16,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    }),
    ("wav2vec2", "ts17+", _SPEECH),
    ("hubert", "ts16", _SPEECH),
    ("clip", "ts17+", {
        "task": "ForZeroShotImageClassification", "projection_dim": 32, "image_size": 32,
        "text_config": {**_WIDTH, "vocab_size": 256, "max_position_embeddings": 64, "eos_token_id": 2},
        "vision_config": {**_WIDTH, "image_size": 32, "patch_size": 8},
    }),
    ("vit", "ts17+ dy20+", {**_IMAGE, "patch_size": 16}),
    ("dinov2", "ts18", {**_IMAGE, "patch_size": 16}),
    ("segformer", "ts17+", {
        "task": "ForSemanticSegmentation", "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1],
        "decoder_hidden_size": 32, "num_labels": 5,
    }),
    ("mobilevit", "ts15", {
        "task": "ForImageClassification", "image_size": 128, "hidden_sizes": [32, 40, 48],
        "neck_hidden_sizes": [8, 16, 24, 32, 40, 48, 64],
    }),
)  # fmt: skip


LIBRARIES: dict[str, tuple[Callable[[str, dict[str, Any]], Prepared], tuple[Row, ...]]] = {
    "transformers": (_transformers, _TRANSFORMERS),
    "diffusers": (diffusers_part, DIFFUSERS),
    "timm": (_timm, _TIMM),
    "torchvision": (_torchvision, _TORCHVISION),
    "ultralytics": (_ultralytics, _ULTRALYTICS),
}
