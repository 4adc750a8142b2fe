"""How ONNX Runtime is set up, and a session that is to be made: here, or in a process that shares nothing with this."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Profile:
    """How ONNX Runtime is set up: by default one thread, no optimization, no prepacking.

    Results under different settings are not equal bit by bit, so one profile serves a whole run. ``round_halves``
    rounds every result in half precision, which ONNX Runtime by itself does only where a value leaves a chain of nodes.
    ``optimized`` leaves it to ONNX Runtime what to make of a model, as for users: to measure time, never to compare.
    """

    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    provider_options: Any = None
    session_options: Mapping[str, str] = field(default_factory=dict[str, str])
    round_halves: bool = True
    optimized: bool = False

    def to_json(self) -> str | None:
        """Return the profile as text; None if only this process understands its options."""
        try:
            return json.dumps({**vars(self), "session_options": dict(self.session_options)})
        except (TypeError, ValueError):
            return None

    @staticmethod
    def from_json(text: str) -> Profile:
        """Return the profile that was written as text."""
        read: dict[str, Any] = json.loads(text)
        read["providers"] = tuple(read["providers"])
        return Profile(**read)


@dataclass(frozen=True)
class Recipe:
    """A session to be made of a serialised model and the weights that are handed over, by name.

    ``folder`` has the file that the weights pretend to be in, as long as ``keeper`` is there; ``options`` are further
    options of sessions.
    """

    content: bytes
    handed: Mapping[str, Any]
    profile: Profile
    folder: str
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    keeper: object = None

    @property
    def is_plain(self) -> bool:
        """Tell whether another process can make the session, too."""
        return not self.options and self.profile.to_json() is not None

    def __call__(self) -> Any:
        """Make the session."""
        import onnxruntime

        chosen = self._options(onnxruntime)
        if self.handed:
            chosen.add_session_config_entry("session.model_external_initializers_file_folder_path", self.folder)
        for name, option in self.options.items():
            setattr(chosen, name, option)
        if self.profile.optimized and self.handed:
            # Those that are added one by one are not there yet when the model is optimized.
            chosen.add_external_initializers(list(self.handed), list(self.handed.values()))
        else:
            for name, held in self.handed.items():
                chosen.add_initializer(name, held)
        make: Callable[..., Any] = onnxruntime.InferenceSession
        providers = list(self.profile.providers)
        return make(self.content, chosen, providers=providers, provider_options=self.profile.provider_options)

    def _options(self, onnxruntime: Any) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if not self.profile.optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            # Planning which tensors share memory takes more than linear time; buffers are freed without it, too.
            options.enable_mem_reuse = options.enable_mem_pattern = False
            options.add_session_config_entry("session.disable_prepacking", "1")
            # By default a weight of half precision is widened, by a Cast of ONNX Runtime's, long before it is read.
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        for key, text in self.profile.session_options.items():
            options.add_session_config_entry(key, str(text))
        return options


def described(session: Any) -> list[tuple[str, str, Any]]:
    """Return name, type and shape of every output of a session."""
    return [(output.name, output.type, output.shape) for output in session.get_outputs()]
