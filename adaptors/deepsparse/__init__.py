"""DeepSparse 1.8.0, the last release: sparse and int8 ONNX on a CPU, for evaluation only."""
