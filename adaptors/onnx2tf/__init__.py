"""onnx2tf: from ONNX to LiteRT through TensorFlow's operators."""
