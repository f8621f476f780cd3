"""Models and data as a person has them before the first run of ``kedro hone optimize``; trained, with labels.

``python first_models.py FOLDER`` registers ``churn`` and ``net`` in ``FOLDER/mlflow.db``. It writes ``net.onnx`` and
``bert/``, and as data ``customers.csv``, ``rows.npz``, ``features.npy`` and ``reviews.jsonl``. With ``churn`` as a
second argument it registers that one only, and writes its customers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 1_600
FITTED = 600  # the first rows; a model's accuracy on them says nothing here, as every candidate is compared with it


def write_estimator(draw: np.random.Generator) -> None:
    """Register a pipeline over numbers and text with missing values, and write its customers."""
    import mlflow
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    age, income = draw.integers(18, 90, ROWS).astype(float), np.round(draw.normal(40_000, 9_000, ROWS), 2)
    plan, city = draw.choice(["basic", "plus", "pro"], ROWS), draw.choice(["Oslo", "Rome", "Łódź"], ROWS)
    churned = np.where(((age > 45) & (plan != "pro")) | (income > 52_000), "yes", "no")
    table = pd.DataFrame({"customer_id": np.arange(ROWS), "age": age, "income": income, "plan": plan, "city": city})
    table.loc[draw.random(ROWS) < 0.05, "age"] = np.nan
    table.loc[draw.random(ROWS) < 0.03, "city"] = np.nan
    table.assign(churned=churned).to_csv("customers.csv", index=False)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer((numbers, ["age", "income"]), (texts, ["plan", "city"]))
    rows = table[["age", "income", "plan", "city"]]
    model = make_pipeline(columns, GradientBoostingClassifier(random_state=0)).fit(rows[:FITTED], churned[:FITTED])
    signature = mlflow.models.infer_signature(rows.dropna()[:5], model.predict(rows[:5]))
    mlflow.sklearn.log_model(
        model,
        name="m",
        registered_model_name="churn",
        signature=signature,
        serialization_format="cloudpickle",
        pip_requirements=["scikit-learn"],
    )


def write_network(draw: np.random.Generator) -> None:
    """Register a network of PyTorch, write it as ONNX too, and write its rows."""
    import mlflow
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(20, 256), *(torch.nn.Linear(256, 256) for _ in range(5)), torch.nn.Linear(256, 4)]
    net = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))[:-1]
    rows = draw.normal(size=(ROWS, 20)).astype(np.float32)
    labels = (rows @ draw.normal(size=(20, 4))).argmax(axis=1)
    inputs, targets = torch.from_numpy(rows[:FITTED]), torch.from_numpy(labels[:FITTED])
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), targets).backward()
        optimizer.step()
    net.eval()
    np.savez("rows.npz", x=rows, label=labels)
    np.save("features.npy", rows)
    signature = mlflow.models.infer_signature(rows[:2], net(inputs[:2]).detach().numpy())
    mlflow.pytorch.log_model(
        net,
        name="m",
        registered_model_name="net",
        signature=signature,
        input_example=rows[:4],
        pip_requirements=["torch"],
    )
    named: dict[str, Any] = {"input_names": ["features"], "output_names": ["logits"]}
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(net, (inputs[:4],), "net.onnx", dynamo=True, dynamic_shapes=dynamic, external_data=False, **named)


def write_text_classifier(draw: np.random.Generator) -> None:
    """Write a small classifier of texts with its tokenizer, and its reviews."""
    import torch
    import transformers
    from text_models import WORDS, save_tokenizer

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    labels = {"id2label": {0: "neg", 1: "pos"}, "label2id": {"neg": 0, "pos": 1}}
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=64, **sizes, **labels)
    model = transformers.BertForSequenceClassification(config)
    folder = Path("bert")
    folder.mkdir()
    save_tokenizer(folder, WORDS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [list(draw.choice(WORDS[5:], draw.integers(5, 24))) for _ in range(ROWS)]
    good = [words.count("good") + words.count("great") >= words.count("bad") + words.count("dull") for words in texts]
    rows = [{"text": " ".join(words), "label": "pos" if one else "neg"} for words, one in zip(texts, good, strict=True)]
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(40):
        chosen = draw.integers(0, FITTED, 64)
        fed = tokenizer([rows[one]["text"] for one in chosen], padding=True, return_tensors="pt")
        loss = model(**fed, labels=torch.tensor([int(good[one]) for one in chosen])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval().save_pretrained(folder)
    Path("reviews.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def main(folder: str, only: str = "") -> None:
    """Write all of them, or only ``churn``, into an empty folder."""
    os.chdir(folder)
    os.environ |= {"MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db", "HF_HUB_OFFLINE": "1"}
    draw = np.random.default_rng(0)
    for write in (write_estimator,) if only else (write_estimator, write_network, write_text_classifier):
        write(draw)


if __name__ == "__main__":
    main(*sys.argv[1:])
