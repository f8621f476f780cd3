"""ONNX graphs for toolchains that read ONNX. Needs NumPy, ONNX and ONNX Runtime."""
