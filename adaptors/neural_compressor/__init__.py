"""neural-compressor 2.6: int8 for ONNX graphs, tuned over the recipe's metric, and SmoothQuant."""
