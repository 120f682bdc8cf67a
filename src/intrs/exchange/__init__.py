"""Files of other programs: quantized ONNX in, TOSA out. `openfile` opens a model of any kind that is known."""
