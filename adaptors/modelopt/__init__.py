"""NVIDIA Model Optimizer: int8 and fp16 in ONNX graphs, in the form that TensorRT expects."""
