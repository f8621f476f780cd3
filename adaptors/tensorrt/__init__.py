"""TensorRT: engines for NVIDIA GPUs, of strongly typed networks."""
