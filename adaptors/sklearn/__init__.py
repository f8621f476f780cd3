"""scikit-learn, XGBoost and LightGBM: estimators of MLflow, run as they are and converted to ONNX."""
