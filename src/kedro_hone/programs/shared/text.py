"""Text as tokens: the columns of the data, the model's own tokenizer, and padded arrays for its inputs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .arrays import Array, Arrays, find_array
from .errors import BadOptionError, EmptyError, TaskMismatchError, TokenizerMissingError, UnreadableError
from .pretrained import check_head, count_positions, load_tokenizer, read_config
from .targets import pack

Json = dict[str, Any]

OPTIONS: dict[str, Any] = {
    "arrays": {},  # "text" (and other columns), or "target": the name of its column in the data
    "length": None,  # tokens of each row, to which rows are padded and cut; by default the longest row of the split
    "tokenizer": None,  # absolute path of the folder with the tokenizer, if the model's files have none
}
"""The options of every program for text."""

TEXTS = ("text", "sentence", "sentence1", "premise", "question", "content", "document")
PAIRS = ("text_pair", "pair", "sentence2", "hypothesis")


def find_texts(data: Arrays, name: str, options: Json, aliases: tuple[str, ...]) -> list[str] | None:
    """Return a column of text; None if absent.

    Raises:
        UnreadableError: A row of it is not text.
    """
    column = find_array(data, name, arrays=options["arrays"], aliases=aliases)
    if column is None:
        return None
    texts = column.tolist()
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise UnreadableError(f"row {row} of the column {name!r} holds {str(text)[:40]!r}, which is not text")
    return list(texts)


def need_texts(data: Arrays, name: str, options: Json, aliases: tuple[str, ...]) -> list[str]:
    """Return a column of text.

    Raises:
        UnreadableError: It is absent, or a row of it is not text.
    """
    texts = find_texts(data, name, options, aliases)
    if texts is None:
        known = f"no column {name!r} of text (or {', '.join(aliases)}); the data have {', '.join(data)}"
        raise UnreadableError(f"{known}; name it by `hone.program.options.arrays: {{{name}: …}}`")
    return texts


class Tokens:
    """The model's tokenizer, and how many tokens a row may have.

    Attributes:
        tokenizer: The tokenizer of transformers.
        config: The model's ``config.json``; empty if it has none.

    Raises:
        TokenizerMissingError: There is no tokenizer.
        BadOptionError: The option ``length`` is beyond the model's positions, or not the size of its input.
    """

    def __init__(
        self,
        job: Json,
        options: Json,
        *,
        name: str = "input_ids",
        most: int | None = None,
        fast: bool = False,
        own_side: bool = False,
    ) -> None:
        self._job = job
        self.config = read_config(job, options)
        self.tokenizer = load_tokenizer(job, options, own_side=own_side)
        self._left = self.tokenizer.padding_side == "left"
        if fast and not self.tokenizer.is_fast:
            raise TokenizerMissingError("the program needs to know where tokens are in the text: save tokenizer.json")
        self._length = _choose_length(options, job, name, positions := count_positions(self.config))
        usual = self.tokenizer.model_max_length  # a very large number if the tokenizer has none
        self.limit = self._length or min(known for known in (positions, usual, most) if known is not None)

    def encode(self, *texts: Any, only_second: bool = False, **asked: Any) -> Any:
        """Return the tokenized rows; those that are too long are cut, and a warning counts them.

        Raises:
            EmptyError: There are none.
            BadOptionError: They cannot be cut to the length, since the part that is never cut is already as long.
            UnreadableError: The tokenizer fails on them.
        """
        if not any(texts) and not asked.get("text_target"):
            raise EmptyError("there is no text")
        kinds = any(spec["name"] == "token_type_ids" for spec in self._job["input"]["inputs"])
        asked = {"return_attention_mask": True, "return_token_type_ids": kinds, "verbose": False, **asked}
        try:
            encoded = self.tokenizer(*texts, truncation=False, **asked)
        except BaseException as error:
            if (
                not isinstance(error, Exception) and type(error).__name__ != "PanicException"
            ):  # an exception of Rust's code
                raise
            raise UnreadableError(
                f"the model's tokenizer fails on the texts: {' '.join(str(error).split())}"
            ) from error
        long = sum(len(ids) > self.limit for ids in encoded["input_ids"])
        if not long:
            return encoded
        what = "targets" if "text_target" in asked else "rows"
        said = f"{long} of {len(encoded['input_ids'])} {what} are longer than {self.limit} tokens and were cut"
        warnings.warn(said, stacklevel=2)
        cut = "only_second" if only_second else True
        try:
            return self.tokenizer(*texts, truncation=cut, max_length=self.limit, **asked)
        except Exception as error:
            said = f"rows cannot be cut to {self.limit} tokens, since the first text alone is as long: {error}"
            raise BadOptionError(said) from error

    def pad(self, rows: list[list[int]], fill: int) -> Array:
        """Return lists of token numbers as one array, padded to the option ``length`` or the longest of them."""
        packed = pack([row[::-1] for row in rows] if self._left else rows, fill=fill, dtype=np.int64)
        more = (self._length or 0) - packed.shape[1]
        packed = np.pad(packed, ((0, 0), (0, more)), constant_values=fill) if more > 0 else packed
        return np.ascontiguousarray(packed[:, ::-1]) if self._left else packed

    def feed(self, encoded: Any) -> Arrays:
        """Return an array for each input of the model.

        Raises:
            TaskMismatchError: The model takes an input that is not made from text.
        """
        return choose_feeds(self.make(encoded), self._job)

    def make(self, encoded: Any) -> Arrays:
        """Return the inputs that models take for a text, by their usual names."""
        tokenizer = self.tokenizer
        fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
        made = {"input_ids": self.pad(encoded["input_ids"], fill)}
        made["attention_mask"] = self.pad(encoded["attention_mask"], 0)
        kinds = encoded.get("token_type_ids")
        made["token_type_ids"] = np.zeros_like(made["input_ids"]) if kinds is None else self.pad(kinds, 0)
        made["position_ids"] = np.broadcast_to(np.arange(made["input_ids"].shape[1]), made["input_ids"].shape)
        if self._left:  # counted from the first token, as in generate
            made["position_ids"] = np.maximum(made["attention_mask"].cumsum(axis=1) - 1, 0)
        return made


def choose_feeds(made: Arrays, job: Json) -> Arrays:
    """Return those arrays that the model takes.

    Raises:
        TaskMismatchError: It takes one that was not made.
    """
    names = [spec["name"] for spec in job["input"]["inputs"]]
    if strange := [name for name in names if name not in made]:
        raise TaskMismatchError(f"the model takes {strange[0]!r}, and the program makes {', '.join(made)}")
    return {name: made[name] for name in names}


def _choose_length(options: Json, job: Json, name: str, positions: int | None) -> int | None:
    """Return the tokens that each row must have, or None if the longest row of a split decides."""
    shape: list[int | str] = next((spec["shape"] for spec in job["input"]["inputs"] if spec["name"] == name), [])
    fixed = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
    length = options["length"]
    if length is None:
        return fixed
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise BadOptionError(f"length is {length!r}, and it is a number of tokens")
    if fixed not in (None, length):
        raise BadOptionError(f"length is {length}, and the model's input {name!r} has {fixed} tokens")
    if positions is not None and length > positions:
        raise BadOptionError(f"length is {length}, and the model has positions for {positions} tokens")
    return length


def find_token(tokenizer: Any, name: str) -> int:
    """Return the number of a special token, such as ``mask_token``.

    Raises:
        TokenizerMissingError: The tokenizer has none.
    """
    number = getattr(tokenizer, f"{name}_id")
    if number is None:
        raise TokenizerMissingError(f"the tokenizer has no {name}, which the program needs")
    return int(number)


def find_output(outputs: Arrays, name: str | None, *, rank: int, words: tuple[str, ...] = ("logits",)) -> Array:
    """Return the output in an option; otherwise one with a usual name, or the first one with ``rank`` dimensions.

    Raises:
        TaskMismatchError: There is none.
    """
    usual = (known for known in words if known in outputs and outputs[known].ndim == rank)
    chosen = name or next(usual, None) or next((known for known, array in outputs.items() if array.ndim == rank), None)
    if chosen is None or chosen not in outputs or outputs[chosen].ndim != rank:
        shapes = ", ".join(f"{known} {array.shape}" for known, array in outputs.items())
        wanted = f"output {name!r}" if name else "an output"
        raise TaskMismatchError(f"the program needs {wanted} with {rank} dimensions; the model has {shapes}")
    return outputs[chosen]


def check_task(job: Json, options: Json, *, task: str, rank: int, output: str = "output") -> None:
    """Refuse a model of another task, by the name of its class, or by the dimensions of its outputs.

    One of the outputs, or the one in an option (``output``), must have ``rank`` dimensions.

    Raises:
        TaskMismatchError: It is for another task.
    """
    check_head(job, read_config(job, options), task)
    name = options[output]
    outputs = [spec for spec in job["input"].get("outputs", []) if name in (None, spec["name"])]
    if outputs and all(len(spec["shape"]) != rank for spec in outputs):
        shapes = ", ".join(f"{spec['name']} {tuple(spec['shape'])}" for spec in outputs)
        raise TaskMismatchError(f"{task} needs an output with {rank} dimensions, and the model has {shapes}")
