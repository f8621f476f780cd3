"""A winner whose source was a Transformers model, in the form that ``transformers.pipeline`` and users expect.

Imported only for such winners: transformers takes a second or two to import.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NoReturn

import torch
import transformers

from hone_runtime.learner.checks import explain_fault
from hone_runtime.learner.model import Learner
from hone_runtime.values.artifact import Artifact

TOKENIZERS = ("tokenizer_config.json", "tokenizer.json", "preprocessor_config.json", "processor_config.json")
"""Any of these files next to the model's folder shows that its tokenizer or processor was published with it."""

MOST_COUNTED: Final = 1 << 17
"""The limit of layers or classes in a configuration: transformers makes a list or dictionary entry for each."""
_BACKBONE: Final = "backbone_config"
_COUNTED: Final = re.compile(r"(?!.*theta).*(label|layer|depth|block|stage|dense|moe|attention_types)")
"""Parts of the names of configuration values that transformers counts up to, or uses as an exponent."""


class PretrainedLearner(Learner):
    """A winner that is called like its source model of Transformers.

    It takes the same arguments and returns the same ``ModelOutput``; ``transformers.pipeline`` accepts it as a model.
    It is a compiled graph on one device: its weights cannot be read, trained, moved or saved.

    Attributes:
        config: The source's configuration; ``generation_config`` is the one of its ``generate``, or None.
        name_or_path: A folder from which the tokenizer or processor published with the winner is loaded.
        device: Where it computes; ``dtype`` is the type of its numbers.
        training: False.
    """

    main_input_name = "input_ids"
    base_model_prefix = "model"
    input_modalities: Any = ("text",)
    training = False

    def __init__(self, artifact: Artifact, files: Path, **options: Any) -> None:
        """Open a sealed artifact, given the folder of its files; the options are those of ``Learner``."""
        super().__init__(artifact, files, **options)
        about = artifact.metadata["transformers"]
        self.config = make_config(about.get("config") or {})
        generation = about.get("generation")
        self.generation_config = transformers.GenerationConfig.from_dict(generation) if generation else None
        around = files.parent
        published = files.name == "artifact" and any((around / name).is_file() for name in TOKENIZERS)
        self.name_or_path = str(around if published else files)
        self.config._name_or_path = self.name_or_path  # noqa: SLF001 - as from_pretrained sets it
        self.device = torch.device(artifact.device)
        numbers = [spec.dtype for spec in (*artifact.inputs, *artifact.outputs) if "float" in spec.dtype]
        self.dtype: torch.dtype = getattr(torch, numbers[0]) if numbers else torch.float32

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the source's ``forward``."""
        return self(*args, **kwargs)

    def can_generate(self) -> bool:
        """Return whether the winner has ``generate``."""
        return False

    def eval(self) -> PretrainedLearner:
        """Return the model itself, which is never in training mode."""
        return self

    def train(self, mode: bool = True) -> PretrainedLearner:  # noqa: FBT001, FBT002 - torch's own arguments
        """Return the model for ``train(False)``.

        Raises:
            ValueError: For ``train()``.
        """
        if mode:
            raise ValueError("a compiled model cannot be trained; train the source, and optimize it again")
        return self

    def requires_grad_(self, requires_grad: bool = True) -> PretrainedLearner:  # noqa: FBT001, FBT002 - torch's own
        """Return the model for ``requires_grad_(False)``.

        Raises:
            ValueError: For ``requires_grad_()``.
        """
        return self.train(requires_grad)

    def to(self, *args: Any, **kwargs: Any) -> PretrainedLearner:
        """Return the model if the device and the type are its own.

        Raises:
            ValueError: For any other device or type.
        """
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)  # noqa: SLF001 - as torch.nn.Module.to reads them
        if device is not None and (device.type, device.index or 0) != (self.device.type, self.device.index or 0):
            raise ValueError(
                f"the model was compiled for {self.device} and cannot be moved to {device}; a pipeline takes "
                f"device={str(self.device)!r}"
            )
        if dtype not in {None, self.dtype}:
            raise ValueError(f"the model was compiled with {self.dtype} for what it takes and returns, not {dtype}")
        return self

    def cpu(self) -> PretrainedLearner:
        """Return the model as ``to("cpu")`` does."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> PretrainedLearner:
        """Return the model as ``to("cuda")`` does."""
        return self.to(torch.device("cuda", device) if isinstance(device, int) else device or "cuda")

    def float(self) -> PretrainedLearner:
        """Return the model as ``to(torch.float32)`` does."""
        return self.to(torch.float32)

    def half(self) -> PretrainedLearner:
        """Return the model as ``to(torch.float16)`` does."""
        return self.to(torch.float16)

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an ``AttributeError`` that explains why the attribute does not exist."""
        raise AttributeError(
            f"{name}: this is a winner of kedro-hone, made from {type(self).__name__}; it is called like that class, "
            "but "
            "has none of its modules and weights. Load the source for them."
        )


def make_config(values: dict[str, Any]) -> transformers.PreTrainedConfig:
    """Return the configuration of a ``config.json``, in transformers' own class for its ``model_type``.

    For configurations with code of the author (``auto_map``), the general class is used: that code is not run.

    Raises:
        HoneError: ``model-corrupt``: it declares so many layers or classes that they would fill the memory.
    """
    if (largest := _find_largest(values)) > MOST_COUNTED:
        raise explain_fault(f"its configuration counts up to {largest:.3g}, and the limit is {MOST_COUNTED}")
    given = {key: value for key, value in values.items() if key != "auto_map"}
    kind = given.get("model_type")
    cls = _find_config_class(kind) or transformers.PreTrainedConfig
    return cls.from_dict(_resolve_backbones(given))


def _find_config_class(kind: Any) -> Any:
    known = transformers.CONFIG_MAPPING
    return known[kind] if isinstance(kind, str) and kind in known else None


def _resolve_backbones(value: Any) -> Any:
    """Return a configuration with all backbones given in full: transformers would fetch a named one from the Hub."""
    if isinstance(value, list):
        return [_resolve_backbones(item) for item in value]
    if not isinstance(value, dict):
        return value
    settled = {key: _resolve_backbones(item) for key, item in value.items()}
    takes = hasattr(_find_config_class(settled.get("model_type")) or transformers.PreTrainedConfig, _BACKBONE)
    named, options = settled.get("backbone"), settled.get("backbone_kwargs")
    if not takes or settled.get(_BACKBONE) or (named is None and settled.get("use_timm_backbone", True)):
        return settled
    of_timm = options if isinstance(options, dict) else {}
    left = settled.keys() - {"backbone", "backbone_kwargs", "use_timm_backbone", "use_pretrained_backbone"}
    return {key: settled[key] for key in left} | {
        _BACKBONE: {**of_timm, "model_type": "timm_backbone", "backbone": str(named or "resnet50")}
    }


def _find_largest(value: Any, *, counted: bool = False) -> float:
    """Return the largest number in a configuration that is a count; 0 if absent."""
    if isinstance(value, dict):
        pairs = ((item, counted or _COUNTED.match(key) is not None) for key, item in value.items())
        return max((_find_largest(item, counted=under) for item, under in pairs), default=0)
    if isinstance(value, list | tuple):
        return max((_find_largest(item, counted=counted) for item in value), default=0)
    return value if counted and isinstance(value, int | float) else 0
