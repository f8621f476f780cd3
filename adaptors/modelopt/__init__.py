"""NVIDIA Model Optimizer: int8 and fp16 in ONNX graphs, as TensorRT takes them."""
