"""scikit-learn, XGBoost and LightGBM: estimators logged by MLflow, run unchanged and converted to ONNX."""
