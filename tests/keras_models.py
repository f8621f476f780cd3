"""Models of Keras and TensorFlow, trained and saved in every way that a registry may hold them.

Run by path as a script: TensorFlow is imported from the toolchain's own environment, whose packages come last on the
path, so that MLflow is that of the tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")

import numpy as np


def make_net(x: Any, y: Any) -> Any:
    """Return a convolutional net for scikit-learn's digits, trained on rows (8, 8, 1)."""
    import keras

    keras.utils.set_random_seed(0)
    image = keras.Input((8, 8, 1), name="image")
    hidden = keras.layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    hidden = keras.layers.BatchNormalization()(hidden)
    hidden = keras.layers.Flatten()(keras.layers.MaxPooling2D()(hidden))
    hidden = keras.layers.Dense(64, activation="relu")(keras.layers.Dropout(0.2)(hidden))
    net = keras.Model(image, keras.layers.Dense(10, name="logits")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile("adam", loss)
    net.fit(x, y, epochs=12, batch_size=32, verbose=0)
    return net


def make_named() -> Any:
    """Return a model of two named inputs, one of any length, with a dictionary of outputs."""
    import keras

    one, many = keras.Input((4,), name="one"), keras.Input((None, 3), name="many")
    mean = keras.layers.Dense(4)(keras.layers.GlobalAveragePooling1D()(many))
    return keras.Model({"one": one, "many": many}, {"sum": one + mean, "mean": mean})


def make_listed() -> Any:
    """Return a model of a list of inputs and a list of outputs."""
    import keras

    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    return keras.Model([left, right], [keras.layers.Dense(2)(left), keras.layers.Dense(2)(left + right)])


def make_ids() -> Any:
    """Return a model of whole numbers of 64 bits, which are looked up."""
    import keras

    ids = keras.Input((5,), dtype="int64", name="ids")
    found = keras.layers.Flatten()(keras.layers.Embedding(20, 4)(ids))
    return keras.Model(ids, keras.layers.Dense(3, name="score")(found))


def make_label() -> Any:
    """Return a model whose output, the class, is a whole number of 64 bits.

    ``keras.ops.argmax`` looks at the bits of numbers, which neither LiteRT nor ONNX can.
    """
    import keras

    row = keras.Input((4,), name="row")
    _, best = keras.ops.top_k(keras.layers.Dense(6)(row), 1)
    return keras.Model({"row": row}, {"label": keras.ops.cast(best, "int64")})


def save_argmax(net: Any, folder: Path) -> Any:
    """Save the best class of a model as a SavedModel of TensorFlow's own, and return that."""
    import tensorflow as tf

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        @tf.function(input_signature=[tf.TensorSpec((None, 5), tf.int64, name="ids")])
        def __call__(self, ids: Any) -> Any:
            return {"best": tf.argmax(self.net(ids, training=False), axis=-1)}

    module = Module()
    tf.saved_model.save(module, str(folder), signatures=module.__call__)
    return module


def write_whole(folder: Path, draw: np.random.Generator) -> dict[str, Any]:
    """Write models of whole numbers of 64 bits; return what they take and return."""
    ids, row = draw.integers(0, 20, (6, 5)), draw.random((6, 4), np.float32)
    scored, labelled = make_ids(), make_label()
    scored.save(folder / "ids.keras")
    labelled.save(folder / "label.keras")
    best = save_argmax(scored, folder / "saved-best")(ids)["best"].numpy()
    score = scored.predict(ids, verbose=0)
    return {"ids": ids, "row": row, "score": score, "best": best, **labelled.predict({"row": row}, verbose=0)}


def write_refused(folder: Path) -> None:
    """Write models that are not taken."""
    import keras

    class Halve(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs / 2

    given = keras.Input((4,), name="given")
    keras.Model(given, keras.layers.Lambda(lambda value: value * 2)(given)).save(folder / "lambda.keras")
    keras.Model(given, Halve()(given)).save(folder / "author.keras")
    keras.Sequential([keras.layers.Dense(2)]).save(folder / "unbuilt.keras")
    keras.Model(given, keras.ops.argmax(given, axis=-1)).save(folder / "bits.keras")  # it looks at the bits of numbers
    text = keras.Input((1,), dtype="string", name="text")
    words = keras.layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)(text)
    keras.Model(text, words).save(folder / "text.keras")


def log(net: Any, example: Any, folder: Path) -> None:
    """Write a model as the flavors of MLflow do: ``keras``, ``tensorflow``, and ``tensorflow`` of a module."""
    import mlflow
    import tensorflow as tf
    from mlflow.models import infer_signature

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 1), tf.float32, name="image")])
        def __call__(self, image: Any) -> Any:
            return {"logits": self.net(image, training=False)}

    signature = infer_signature(example, net.predict(example, verbose=0))
    mlflow.keras.save_model(net, str(folder / "flavor-keras"), signature=signature)
    mlflow.tensorflow.save_model(net, str(folder / "flavor-tensorflow"), signature=signature)
    mlflow.tensorflow.save_model(Module(), str(folder / "flavor-module"), signature=signature)


def main() -> None:
    """Write all models, and what they return for some rows, into the folder that is named."""
    packages, rows, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    sys.path.append(packages)
    with np.load(rows) as arrays:
        net = make_net(arrays["x"], arrays["y"])
        example = arrays["x"][:5]
    net.save(folder / "digits.keras")
    net.export(folder / "saved", verbose=False)
    draw = np.random.default_rng(0)
    named = {"one": draw.random((6, 4), np.float32), "many": draw.random((6, 7, 3), np.float32)}
    listed = [draw.random((6, 4), np.float32), draw.random((6, 4), np.float32)]
    told: dict[str, Any] = {"image": example, "logits": net.predict(example, verbose=0)}
    model = make_named()
    model.save(folder / "named.keras")
    told |= named | model.predict(named, verbose=0)
    model = make_listed()
    model.save(folder / "listed.keras")
    first, second = model.predict(listed, verbose=0)
    told |= {"left": listed[0], "right": listed[1], "first": first, "second": second}
    told |= write_whole(folder, draw)
    np.savez(folder / "told.npz", **told)
    write_refused(folder)
    log(net, example, folder)


if __name__ == "__main__":
    main()
