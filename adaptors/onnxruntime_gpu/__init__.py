"""ONNX Runtime with its providers for NVIDIA GPUs: CUDA and TensorRT."""
