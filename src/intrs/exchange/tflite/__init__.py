"""TFLite files: int8 and legacy uint8 classifiers, in and out."""
