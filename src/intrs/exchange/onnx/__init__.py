"""ONNX files: `read.read_onnx` opens one, `read.lower` makes integers of it."""
