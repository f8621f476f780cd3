"""The interface of a Transformers model around a session's ``run``: tensors by name in, a ``ModelOutput`` out.

All information is in the artifact's metadata (``transformers`` and ``structure``); the only model code that is
imported is transformers' own. Workers import it, to time the call that users make. So it imports
nothing of kedro-hone but the neighbouring module.
"""

from __future__ import annotations

import importlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .tensors import import_torch, make_shape_check, match_shapes

if TYPE_CHECKING:
    from hone_runtime.values.artifact import Artifact, TensorSpec

    from .tensors import Arrays, Run

_MOST_FILLED = 64  # number of input shapes for which the filled arrays are cached

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "labels": "a loss is for training, and this model cannot be trained; compute it from the logits",
        "inputs_embeds": "the embedding is a part of the compiled model; give input_ids",
        "output_hidden_states": "the compiled model returns only what the source returned when it was converted",
        "output_attentions": "the compiled model returns only what the source returned when it was converted",
        "past_key_values": "a call has no cache; give the whole sequence, or let generate keep a cache of its own",
        "use_cache": "a call has no cache; give the whole sequence, or let generate keep a cache of its own",
        "head_mask": "the heads were compiled as they are",
        "position_ids": "positions were no input of the source when it was converted",
        "cache_position": "positions were no input of the source when it was converted",
    }
)
"""Arguments of Transformers models that a compiled model does not support, with the reason."""

OF_TOKENIZERS: Final = frozenset(
    {"length", "offset_mapping", "overflow_to_sample_mapping", "special_tokens_mask", "token_type_ids"}
)
"""What a tokenizer may return besides a model's inputs. Many classes accept any arguments, and ignore these."""


def make_pretrained_interface(run: Run, artifact: Artifact) -> Callable[..., Any]:
    """Return a function with the arguments of ``forward`` of the source's class; it returns its ``ModelOutput``.

    Inputs that callers of the source may omit are filled from ``optional`` in the metadata. Integers of another type
    are cast, since an embedding accepts any integer type; results have no gradient.

    Raises:
        ImportError: PyTorch or transformers is not installed.
    """
    torch = import_torch()
    about = artifact.metadata["transformers"]
    bind, lower = make_binding(artifact), _make_lowering(artifact, torch)
    check_shapes = make_shape_check(artifact.inputs, about.get("limits") or {})
    make_output, make_tuple = _make_outputs(artifact, torch)
    by_default = (about.get("config") or {}).get("return_dict") is not False

    def call(*args: Any, **kwargs: Any) -> Any:
        if args:
            kwargs = bind(args, kwargs)
        return_dict = kwargs.pop("return_dict", None)
        feeds = lower(kwargs)
        check_shapes(feeds)
        outputs = run(feeds)
        return make_output(outputs) if (by_default if return_dict is None else return_dict) else make_tuple(outputs)

    return call


def _make_lowering(artifact: Artifact, torch: Any) -> Callable[[dict[str, Any]], Arrays]:
    """Return a function that converts a caller's arguments into a session's feeds."""
    dtypes = {spec.name: getattr(torch, spec.dtype) for spec in artifact.inputs}
    source = str(artifact.metadata["transformers"].get("class"))
    fill = _make_filling(artifact.inputs, artifact.metadata["transformers"].get("optional") or {})
    wanted, tensor_type = len(dtypes), torch.Tensor

    def lower(kwargs: dict[str, Any]) -> Arrays:
        feeds: Arrays = {}
        for name, value in kwargs.items():
            dtype = dtypes.get(name)
            if dtype is None:
                if not _is_ignored(name, source):
                    _refuse(name, value, dtypes)
            elif type(value) is tensor_type and value.dtype is dtype and value.is_contiguous():
                try:
                    feeds[name] = value.numpy()
                except (RuntimeError, TypeError):  # it requires a gradient, or is on another device
                    feeds[name] = _read_tensor(name, value, dtype, torch)
            elif value is not None:
                feeds[name] = _read_tensor(name, value, dtype, torch)
        if len(feeds) < wanted:
            fill(feeds)
        return feeds

    return lower


def _read_tensor(name: str, value: Any, dtype: Any, torch: Any) -> np.ndarray[Any, Any]:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; the model takes torch tensors")
    if value.device.type != "cpu":
        raise ValueError(f"{name} is on {value.device}; the model takes tensors on the CPU")
    if value.requires_grad:
        if torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, and a compiled model has none; call it in torch.no_grad()")
        value = value.detach()
    array: np.ndarray[Any, Any] = _cast(name, value, dtype).contiguous().numpy()
    return array


def make_binding(artifact: Artifact) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """Return a function that maps positional arguments to names, in the order of ``forward`` of the source's class.

    If that class is unknown, the order of the inputs is used.
    """
    order: list[str] = []

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not order:
            forward = getattr(find_class(str(artifact.metadata["transformers"].get("class"))), "forward", None)
            known = [*inspect.signature(forward).parameters][1:] if forward else []
            order.extend(known or [spec.name for spec in artifact.inputs])
        if len(args) > len(order):
            raise TypeError(f"the model takes {len(order)} arguments ({', '.join(order)}); {len(args)} were given")
        given = dict(zip(order, args, strict=False))
        if twice := given.keys() & kwargs.keys():
            raise TypeError(f"{min(twice)} was given twice")
        return given | kwargs

    return bind


def find_class(name: str) -> Any:
    """Return transformers' own class of a model, or None; code of the model's author is never imported."""
    import transformers

    found = getattr(transformers, name, None) if name.isidentifier() else None
    return found if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel) else None


def find_output_class(about: Mapping[str, Any]) -> Any:
    """Return the class of the source's results: transformers' own class of that name, else ``ModelOutput``.

    The name is looked up among the shared output classes, then in the module of the source's class. A class of the
    author's own code is not imported: its results become a ``ModelOutput`` with the same keys.

    Raises:
        ImportError: transformers is not installed.
    """
    try:
        from transformers import modeling_outputs
        from transformers.utils import ModelOutput
    except ImportError as error:
        raise ImportError(
            "The source was a Transformers model, so this one is called as one, and transformers is not installed. "
            'Install it: pip install transformers, or load the model with interface="onnx" to use numpy arrays.',
            name=error.name,
        ) from error
    name = str(about.get("output_class"))
    found = getattr(modeling_outputs, name, None)
    if found is None and (model := find_class(str(about.get("class")))) is not None:
        found = getattr(importlib.import_module(model.__module__), name, None)
    return found if isinstance(found, type) and issubclass(found, ModelOutput) else ModelOutput


def _make_outputs(artifact: Artifact, torch: Any) -> tuple[Callable[[Arrays], Any], Callable[[Arrays], Any]]:
    """Return two functions that convert a session's outputs: one to a ``ModelOutput``, one to a tuple."""
    structure = artifact.metadata.get("structure") or {}
    if structure.get("kind") == "dict":
        items = [(key, name) for key, name in structure["items"] if name is not None]
    else:
        items = [(spec.name, spec.name) for spec in artifact.outputs]
    cls = find_output_class(artifact.metadata["transformers"])
    empty = {field.name: None for field in fields(cls)} if is_dataclass(cls) else {}
    from_numpy, new, put = torch.from_numpy, cls.__new__, OrderedDict.__setitem__

    def lift(array: np.ndarray[Any, Any]) -> Any:
        return from_numpy(array if array.flags.writeable else array.copy())

    def make_output(outputs: Arrays) -> Any:
        result = new(cls)
        # Done as in the class itself, whose constructor takes longer than a small model: an attribute for each field,
        # and an item for each that is not None.
        attributes = result.__dict__
        attributes.update(empty)
        for key, name in items:
            array = outputs[name]
            attributes[key] = value = from_numpy(array if array.flags.writeable else array.copy())
            put(result, key, value)
        return result

    return make_output, lambda outputs: tuple([lift(outputs[name]) for _, name in items])


def _make_filling(specs: tuple[TensorSpec, ...], optional: Mapping[str, Any]) -> Callable[[Arrays], None]:
    """Return a function that adds omitted optional inputs; arrays are cached for recurring shapes."""
    kept: dict[tuple[Any, ...], np.ndarray[Any, Any]] = {}

    def fill(feeds: Arrays) -> None:
        given = [spec for spec in specs if spec.name in feeds]
        for spec in specs:
            if spec.name in feeds:
                continue
            if spec.name not in optional or not given:
                raise TypeError(f"{spec.name} was not given")
            like = next((feeds[other.name].shape for other in given if other.shape == spec.shape), None)
            if like is None:
                sizes = match_shapes(given, [feeds[other.name].shape for other in given])
                if missing := [dim for dim in spec.shape if isinstance(dim, str) and dim not in sizes]:
                    raise TypeError(f"{spec.name} was not given, and no other input gives its {missing[0]}")
                like = tuple(dim if isinstance(dim, int) else sizes[dim] for dim in spec.shape)
            array = kept.get((spec.name, like))
            if array is None:
                array = np.full(like, optional[spec.name], spec.dtype)
                if len(kept) < _MOST_FILLED:
                    kept[spec.name, like] = array
            feeds[spec.name] = array

    return fill


@lru_cache(maxsize=_MOST_FILLED)
def _is_ignored(name: str, source: str) -> bool:
    """Return whether the class of this name ignores an argument that tokenizers return."""
    forward = getattr(find_class(source), "forward", None) if name in OF_TOKENIZERS else None
    if forward is None:
        return False
    known = inspect.signature(forward).parameters
    return name not in known and any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())


def _refuse(name: str, value: Any, inputs: Mapping[str, Any]) -> None:
    """Raise an error for an argument that is not an input, unless its value has no effect.

    Raises:
        TypeError: It is not a known argument of Transformers models.
        ValueError: It is a known argument that a compiled model does not support.
    """
    if name in REFUSED:
        if value is None or value is False:
            return
        raise ValueError(f"{name} is not supported: {REFUSED[name]}")
    if name == "attention_mask" and value is not None:
        if bool((value == 1).all()):  # equivalent to no mask
            return
        raise ValueError(
            "attention_mask is not supported: the source was converted without one; give rows of one length"
        )
    if value is not None:
        raise TypeError(f"the model has no input {name}; it takes {', '.join(inputs)}")


def _cast(name: str, value: Any, dtype: Any) -> Any:
    """Return a tensor in the model's type; only integers are cast, to another integer type.

    Raises:
        TypeError: The value is of another kind, or contains numbers that are not whole.
    """
    if value.dtype is dtype:
        return value
    if not dtype.is_floating_point and not value.is_complex():
        cast = value.to(dtype)
        if not value.is_floating_point() or bool((cast == value).all()):
            return cast
    raise TypeError(f"{name} is {value.dtype}; the model takes {dtype}")
