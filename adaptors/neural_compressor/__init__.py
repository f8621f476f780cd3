"""neural-compressor 2.6: int8 for ONNX graphs, tuned over the program's metric, and SmoothQuant."""
