"""Train the demo's network on scikit-learn's digits and register it, as any data scientist would.

Run as a script, in a separate process: the process that runs the pipelines never imports a toolchain.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import torch
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec
from torch.nn import functional

from hone_runtime.worker.imports import load_file

EPOCHS, BATCH, SEED = 12, 64, 0


def train(images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> torch.nn.Module:
    """Return the network, trained on images (float32, (n, 1, 8, 8), 0..1) and labels (int64, (n,)), for inference."""
    torch.manual_seed(SEED)
    file = Path(__file__).with_name("network.py")
    network: torch.nn.Module = load_file("network", str(file), parts=False).DigitsNet()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    inputs, targets = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(network(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    return network.eval()


def register(network: torch.nn.Module, *, name: str, tracking_uri: str, artifacts: str, accuracy: float) -> None:
    """Log the network to MLflow, and register it; a new experiment's files go to ``artifacts``."""
    mlflow.set_tracking_uri(tracking_uri)
    if mlflow.get_experiment_by_name(name) is None:
        mlflow.create_experiment(name, artifact_location=artifacts)
    mlflow.set_experiment(name)
    image = TensorSpec(np.dtype(np.float32), (-1, 1, 8, 8), "x")
    logits = TensorSpec(np.dtype(np.float32), (-1, 10), "logits")
    with mlflow.start_run():
        info = mlflow.pytorch.log_model(
            network,
            name="model",
            signature=ModelSignature(Schema([image]), Schema([logits])),
            input_example=np.zeros((2, 1, 8, 8), np.float32),
            pip_requirements=["torch==2.13.0"],
        )
        mlflow.log_metric("accuracy", accuracy)
    mlflow.register_model(info.model_uri, name)


def main() -> None:
    """Train and register."""
    parser = argparse.ArgumentParser()
    for option in ("--train", "--test", "--name", "--tracking-uri", "--artifacts"):
        parser.add_argument(option, required=True)
    given = vars(parser.parse_args())
    torch.set_num_threads(2)
    with np.load(given.pop("train")) as rows:
        network = train(rows["images"], rows["labels"])
    with np.load(given.pop("test")) as rows, torch.inference_mode():
        found = network(torch.from_numpy(rows["images"])).argmax(1).numpy()
        register(network, accuracy=float((found == rows["labels"]).mean()), **given)


if __name__ == "__main__":
    main()
