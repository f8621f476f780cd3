"""ONNX Runtime: graph optimization, quantization and the runtime of ONNX models."""
