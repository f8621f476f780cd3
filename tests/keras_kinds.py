"""A model of Keras for each way to build one, and SavedModels of each kind, with what each returns for some rows.

Run by path as a script in the toolchain's own environment. For each model it writes ``NAME.keras`` or the folder
``NAME``, and ``NAME.npz`` with its inputs by name and its outputs as ``due_0``, ``due_1`` and so on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")

import keras
import numpy as np
import tensorflow as tf

DRAW = np.random.default_rng(0)
ROWS = 12
Json = dict[str, Any]


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return DRAW.normal(size=(ROWS, *shape)).astype(np.float32)


def draw_tokens(length: int = 9, words: int = 20) -> np.ndarray[Any, Any]:
    """Return whole numbers, of which those at the end are padding."""
    tokens = DRAW.integers(1, words, (ROWS, length)).astype(np.int32)
    tokens[DRAW.integers(2, length + 1, ROWS)[:, None] <= np.arange(length)] = 0
    return tokens


def build_sequential() -> Iterator[tuple[str, Any, Json]]:
    """Yield each way to build a Sequential."""
    layers = keras.layers
    called = keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(3)])
    called(np.zeros((1, 5), np.float32))
    yield "sequential-called", called, {"input": draw(5)}
    yield "sequential-input", keras.Sequential([keras.Input((5,)), layers.Dense(3)]), {"input": draw(5)}
    yield "sequential-named", keras.Sequential([keras.Input((5,), name="row"), layers.Dense(3)]), {"row": draw(5)}
    built = keras.Sequential([layers.Dense(4), layers.Dense(2, activation="softmax")])
    built.build((None, 5))
    yield "sequential-built", built, {"input": draw(5)}
    inner = keras.Input((8, 8, 3))
    base = keras.Model(inner, layers.Conv2D(4, 3, activation="relu")(inner))
    whole = keras.Sequential([base, layers.GlobalAveragePooling2D(), layers.Dense(3)])
    yield "sequential-of-a-model", whole, {"input": draw(8, 8, 3)}
    augmented = [layers.RandomFlip(), layers.RandomRotation(0.1), layers.GaussianNoise(0.1), layers.Dropout(0.2)]
    ends = [layers.Flatten(), layers.Dense(3)]
    yield (
        "sequential-augmented",
        keras.Sequential([keras.Input((8, 8, 3)), *augmented, *ends]),
        {"input": draw(8, 8, 3)},
    )


def build_recurrent() -> Iterator[tuple[str, Any, Json]]:
    """Yield models with loops over steps."""
    layers = keras.layers
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    embedded = layers.Embedding(20, 6, mask_zero=True)(tokens)
    both = layers.Bidirectional(layers.LSTM(5))(embedded)
    yield "lstm-masked", keras.Model(tokens, layers.Dense(3)(both)), {"tokens": draw_tokens()}
    steps = keras.Input((7, 4), name="steps")
    deep = layers.GRU(5)(layers.GRU(6, return_sequences=True)(steps))
    yield "gru-stacked", keras.Model(steps, layers.Dense(2)(deep)), {"steps": draw(7, 4)}
    yield "gru-plain", keras.Model(steps, layers.GRU(5, reset_after=False)(steps)), {"steps": draw(7, 4)}
    yield "rnn", keras.Model(steps, layers.SimpleRNN(5)(steps)), {"steps": draw(7, 4)}
    yield "lstm-states", keras.Model(steps, layers.LSTM(5, return_state=True)(steps)), {"steps": draw(7, 4)}
    yield (
        "lstm-sequential",
        keras.Sequential([keras.Input((7, 4)), layers.LSTM(5), layers.Dense(2)]),
        {"input": draw(7, 4)},
    )
    wide = keras.Input((5, 6, 6, 2), name="frames")
    yield "conv-lstm", keras.Model(wide, layers.ConvLSTM2D(3, 3)(wide)), {"frames": draw(5, 6, 6, 2)}
    spread = layers.TimeDistributed(layers.Dense(3))(steps)
    yield "time-distributed", keras.Model(steps, layers.GlobalAveragePooling1D()(spread)), {"steps": draw(7, 4)}


def build_functional() -> Iterator[tuple[str, Any, Json]]:
    """Yield functional models by the structure of their inputs, and one with an attention."""
    layers = keras.layers
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    summed = layers.Dense(2)(layers.Concatenate()([left, right]))
    feeds = {"left": draw(4), "right": draw(4)}
    yield "inputs-list", keras.Model([left, right], summed), feeds
    yield "inputs-dict", keras.Model({"left": left, "right": right}, {"sum": summed, "half": summed / 2}), feeds
    steps = keras.Input((6, 8), name="steps")
    seen = layers.MultiHeadAttention(2, 4)(steps, steps)
    yield "attention", keras.Model(steps, layers.LayerNormalization()(seen + steps)), {"steps": draw(6, 8)}


def build_activated() -> Iterator[tuple[str, Any, Json]]:
    """Yield a net whose activation has a gradient of its own, which is saved with a function."""
    layers = keras.layers
    image = keras.Input((8, 8, 3), name="image")
    hidden = layers.SeparableConv2D(4, 3, activation="swish")(image)
    yield "swish", keras.Model(image, layers.GlobalMaxPooling2D()(hidden)), {"image": draw(8, 8, 3)}


def build_preprocessing() -> Iterator[tuple[str, Any, Json]]:
    """Yield models that begin with layers of preprocessing."""
    layers = keras.layers
    pixels = keras.Input((12, 12, 3), name="pixels")
    scaled = layers.CenterCrop(6, 6)(layers.Resizing(8, 8)(layers.Rescaling(1 / 255)(pixels)))
    ends = layers.Dense(3)(layers.Flatten()(scaled))
    yield "rescaled", keras.Model(pixels, ends), {"pixels": np.abs(draw(12, 12, 3)) * 100}
    row = keras.Input((4,), name="row")
    normal = layers.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0, 4.0, 9.0, 2.0])(row)
    yield "normalized", keras.Model(row, layers.Dense(2)(normal)), {"row": draw(4)}
    code = keras.Input((3,), dtype="int32", name="code")
    coded = layers.CategoryEncoding(num_tokens=6, output_mode="multi_hot")(code)
    codes = DRAW.integers(0, 6, (ROWS, 3)).astype(np.int32)
    yield "encoded", keras.Model(code, layers.Dense(2)(coded)), {"code": codes}
    bins = layers.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])(row)
    yield (
        "discretized",
        keras.Model(row, layers.Dense(2)(layers.Flatten()(layers.Embedding(4, 3)(bins)))),
        {"row": draw(4)},
    )
    number = keras.Input((2,), dtype="int64", name="number")
    found = layers.IntegerLookup(vocabulary=[10, 20, 30])(number)
    numbers = DRAW.choice([10, 20, 30, 40], (ROWS, 2)).astype(np.int64)
    looked = keras.Model(number, layers.Dense(2)(layers.Flatten()(layers.Embedding(5, 3)(found))))
    yield "looked-up", looked, {"number": numbers}


def build_mixed() -> Iterator[tuple[str, Any, Json]]:
    """Yield models of mixed precision, whose last layer computes in fp32 as Keras advises."""
    layers = keras.layers
    for policy in ("mixed_float16", "mixed_bfloat16"):
        keras.mixed_precision.set_global_policy(policy)
        image = keras.Input((8, 8, 3), name="image")
        hidden = layers.Flatten()(layers.Conv2D(4, 3, activation="relu")(image))
        last = layers.Dense(3, dtype="float32")(layers.Dense(8)(hidden))
        yield policy.replace("_", "-"), keras.Model(image, last), {"image": draw(8, 8, 3)}
        keras.mixed_precision.set_global_policy("float32")


def build_doubtful() -> Iterator[tuple[str, Any, Json]]:
    """Yield a model that remembers its calls."""
    layers = keras.layers
    steps = keras.Input((7, 4), batch_size=4, name="steps")
    yield "lstm-stateful", keras.Model(steps, layers.LSTM(3, stateful=True)(steps)), {"steps": draw(7, 4)}


class Newton(tf.Module):
    """A square root by a loop whose length depends on the rows, and a branch on their sum."""

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def __call__(self, x: Any) -> Json:
        """Return the root."""
        x = tf.abs(x) + 1.0
        go_on = lambda number, root: (number < 20) & tf.reduce_any(tf.abs(root * root - x) > 1e-6)  # noqa: E731
        _, root = tf.while_loop(go_on, lambda number, root: (number + 1, (root + x / root) / 2), (0, x))
        return {"root": root}

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def branch(self, x: Any) -> Json:
        """Return rows by a branch that depends on how many there are."""
        return {"branched": tf.cond(tf.shape(x)[0] > 0, lambda: x * 2.0, lambda: x - 1.0)}

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="text")])
    def read(self, text: Any) -> Json:
        """Return the lengths of texts."""
        return {"length": tf.strings.length(text)}


class Fold(tf.Module):
    """A loop over steps whose graph does not say how many rows come out."""

    @tf.function(input_signature=[tf.TensorSpec((None, 6, 3), tf.float32, name="x")])
    def __call__(self, x: Any) -> Json:
        """Return the last state."""
        state = tf.zeros_like(x[:, 0])
        for number in tf.range(tf.shape(x)[1]):
            state = tf.tanh(state + x[:, number])
        return {"state": state}


class Counter(tf.Module):
    """A sum to which each call adds."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(0.0, name="calls")

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def __call__(self, x: Any) -> Json:
        """Return the sum and the rows."""
        self.calls.assign_add(1.0)
        return {"sum": x + self.calls}


def save_augmented(folder: Path) -> None:
    """Write layers of augmentation and dropout that are active at inference, each with a generator of Keras's."""
    layers = [keras.Input((4, 4, 1)), keras.layers.RandomFlip(), keras.layers.Dropout(0.5)]
    net = keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(2)])
    archive = keras.export.ExportArchive()
    archive.track(net)
    signature = [tf.TensorSpec((None, 4, 4, 1), tf.float32, name="x")]
    archive.add_endpoint("serve", lambda x: {"score": net(x, training=True)}, input_signature=signature)
    archive.write_out(str(folder / "augmented"), verbose=False)


class Ragged(tf.Module):
    """A sum over rows of different lengths."""

    @tf.function(input_signature=[tf.RaggedTensorSpec((None, None), tf.float32)])
    def __call__(self, x: Any) -> Json:
        """Return the sums."""
        return {"sum": tf.reduce_sum(x, axis=1)}


class Remembered(tf.Module):
    """A product with a variable, and the optimizer with the slots of its training, which are saved with it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(tf.ones((3, 2)), name="weight")
        self.optimizer = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(tf.ones((4, 3)), self.weight))
        self.optimizer.apply_gradients([(tape.gradient(loss, self.weight), self.weight)])

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def __call__(self, x: Any) -> Json:
        """Return the product."""
        return {"product": tf.matmul(x, self.weight)}


def save_modules(folder: Path) -> None:
    """Write SavedModels of TensorFlow's own."""
    x, newton = draw(3), Newton()
    several = {"root": newton.__call__, "branched": newton.branch}
    for name, signatures in (("while", newton.__call__), ("cond", newton.branch), ("signatures", several)):
        tf.saved_model.save(newton, str(folder / name), signatures=signatures)
    np.savez(folder / "while.npz", x=x, due_0=newton(x)["root"].numpy())
    np.savez(folder / "cond.npz", x=x, due_0=newton.branch(x)["branched"].numpy())
    tf.saved_model.save(newton, str(folder / "read-text"), signatures=newton.read)
    steps, fold = draw(6, 3), Fold()
    tf.saved_model.save(fold, str(folder / "fold"), signatures=fold.__call__)
    np.savez(folder / "fold.npz", x=steps, due_0=fold(steps)["state"].numpy())
    for name, module in (
        ("counter", Counter()),
        ("ragged", Ragged()),
        ("optimizer", Remembered()),
    ):
        tf.saved_model.save(module, str(folder / name), signatures=module.__call__)
    np.savez(folder / "optimizer.npz", x=x, due_0=Remembered()(x)["product"].numpy())


class Author(keras.Model):
    """A model of its author's class."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3)

    def call(self, inputs: Any) -> Any:
        """Return the scores."""
        return self.dense(inputs)


def save_first(folder: Path) -> None:
    """Write a SavedModel of TensorFlow 1, with a variable that is a reference."""
    x = draw(3)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        given = tf.compat.v1.placeholder(tf.float32, (None, 3), name="given")
        weight = tf.compat.v1.get_variable("weight", (3, 2), use_resource=False)
        product = tf.matmul(given, weight)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.saved_model.simple_save(session, str(folder / "first"), {"given": given}, {"product": product})
        np.savez(folder / "first.npz", given=x, due_0=session.run(product, {given: x}))


def save_subclassed(folder: Path) -> None:
    """Write a model of a class as a file and, as the refusal of that says, as a SavedModel."""
    model, x = Author(), draw(5)
    due = model(x).numpy()
    model.save(folder / "subclassed.keras")
    model.export(folder / "exported", verbose=False)
    np.savez(folder / "exported.npz", x=x, due_0=due)


def main() -> None:
    """Write all into the folder that is named."""
    folder = Path(sys.argv[1])
    keras.utils.set_random_seed(0)
    makers = (build_sequential, build_recurrent, build_functional, build_activated, build_preprocessing)
    for make in (*makers, build_mixed, build_doubtful):
        for name, model, feeds in make():
            model.save(folder / f"{name}.keras")
            given = feeds if len(feeds) > 1 else next(iter(feeds.values()))
            if len(feeds) > 1 and not isinstance(model.input, dict):
                given = [*feeds.values()]
            rows = 4 if name == "lstm-stateful" else ROWS
            found = model(tf.nest.map_structure(lambda one: one[:rows], given), training=False)  # noqa: B023
            due = [*found.values()] if isinstance(found, dict) else tf.nest.flatten(found)
            np.savez(folder / f"{name}.npz", **feeds, **{f"due_{number}": one for number, one in enumerate(due)})
    keras.Sequential([keras.layers.Dense(2)]).save(folder / "sequential-plain.keras")
    save_modules(folder)
    save_subclassed(folder)
    save_augmented(folder)
    save_first(folder)
    converter = tf.lite.TFLiteConverter.from_keras_model(keras.models.load_model(folder / "rescaled.keras"))
    (folder / "rescaled.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main()
