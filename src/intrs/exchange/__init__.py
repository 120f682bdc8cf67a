"""Exchange with other formats: ONNX in, TOSA out."""
