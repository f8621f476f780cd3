"""The registry of MLflow."""
