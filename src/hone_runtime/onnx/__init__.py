"""ONNX graphs for the toolchains that read them. NumPy, ONNX and ONNX Runtime."""
