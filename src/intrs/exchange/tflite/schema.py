"""The schema of TFLite files, as data: tables with their fields, and the enumerations that classifiers use.

A reader and a writer share it. A table is a dictionary from names of fields to `Field`s; names and numbers are those of
TFLite's schema (version 3, identifier TFL3). What is not listed here is not read and not written.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

IDENTIFIER = b"TFL3"  # bytes 4 to 7 of a file
VERSION = 3


class Field(NamedTuple):
    """A field of a table.

    `kind` is a scalar of NumPy ("<i4", "i1", "?" ...), "text", the name of a table, or one of these in brackets: a
    vector. `default` is the value of a scalar that the file leaves out.
    """

    number: int
    kind: str
    default: float = 0


Fields = dict[str, Field]

BYTE, FLAG, INT, UNSIGNED, LONG, FLOAT = "i1", "?", "<i4", "<u4", "<u8", "<f4"

TABLES: dict[str, Fields] = {
    "Model": {
        "version": Field(0, UNSIGNED),
        "operator_codes": Field(1, "[OperatorCode]"),
        "subgraphs": Field(2, "[SubGraph]"),
        "description": Field(3, "text"),
        "buffers": Field(4, "[Buffer]"),
        "metadata": Field(6, "[Metadata]"),
    },
    "OperatorCode": {
        "deprecated_builtin_code": Field(0, BYTE),
        "custom_code": Field(1, "text"),
        "version": Field(2, INT, 1),
        "builtin_code": Field(3, INT),
    },
    "SubGraph": {
        "tensors": Field(0, "[Tensor]"),
        "inputs": Field(1, "[<i4]"),
        "outputs": Field(2, "[<i4]"),
        "operators": Field(3, "[Operator]"),
        "name": Field(4, "text"),
    },
    "Tensor": {
        "shape": Field(0, "[<i4]"),
        "type": Field(1, BYTE),
        "buffer": Field(2, UNSIGNED),
        "name": Field(3, "text"),
        "quantization": Field(4, "QuantizationParameters"),
        "is_variable": Field(5, FLAG),
        "sparsity": Field(6, "SparsityParameters"),
        "shape_signature": Field(7, "[<i4]"),
        "has_rank": Field(8, FLAG),
        "external_buffer": Field(10, UNSIGNED),
    },
    "QuantizationParameters": {
        "min": Field(0, "[<f4]"),
        "max": Field(1, "[<f4]"),
        "scale": Field(2, "[<f4]"),
        "zero_point": Field(3, "[<i8]"),
        "details_type": Field(4, "u1"),
        "quantized_dimension": Field(6, INT),
    },
    "SparsityParameters": {},
    "Operator": {
        "opcode_index": Field(0, UNSIGNED),
        "inputs": Field(1, "[<i4]"),
        "outputs": Field(2, "[<i4]"),
        "builtin_options_type": Field(3, "u1"),
        "builtin_options": Field(4, "options"),  # the table that builtin_options_type names
        "builtin_options_2_type": Field(11, "u1"),
    },
    "Buffer": {
        "data": Field(0, "[u1]"),
        "offset": Field(1, LONG),  # of data that lies behind the flatbuffer, with its size
        "size": Field(2, LONG),
    },
    "Metadata": {"name": Field(0, "text"), "buffer": Field(1, UNSIGNED)},
    "Conv2DOptions": {
        "padding": Field(0, BYTE),
        "stride_w": Field(1, INT),
        "stride_h": Field(2, INT),
        "fused_activation_function": Field(3, BYTE),
        "dilation_w_factor": Field(4, INT, 1),
        "dilation_h_factor": Field(5, INT, 1),
    },
    "DepthwiseConv2DOptions": {
        "padding": Field(0, BYTE),
        "stride_w": Field(1, INT),
        "stride_h": Field(2, INT),
        "depth_multiplier": Field(3, INT),
        "fused_activation_function": Field(4, BYTE),
        "dilation_w_factor": Field(5, INT, 1),
        "dilation_h_factor": Field(6, INT, 1),
    },
    "FullyConnectedOptions": {
        "fused_activation_function": Field(0, BYTE),
        "weights_format": Field(1, BYTE),
        "keep_num_dims": Field(2, FLAG),
        "asymmetric_quantize_inputs": Field(3, FLAG),
    },
    "AddOptions": {"fused_activation_function": Field(0, BYTE), "pot_scale_int16": Field(1, FLAG, 1)},
    "SubOptions": {"fused_activation_function": Field(0, BYTE), "pot_scale_int16": Field(1, FLAG, 1)},
    "MulOptions": {"fused_activation_function": Field(0, BYTE)},
    "Pool2DOptions": {
        "padding": Field(0, BYTE),
        "stride_w": Field(1, INT),
        "stride_h": Field(2, INT),
        "filter_width": Field(3, INT),
        "filter_height": Field(4, INT),
        "fused_activation_function": Field(5, BYTE),
    },
    "ReducerOptions": {"keep_dims": Field(0, FLAG)},
    "ReshapeOptions": {"new_shape": Field(0, "[<i4]")},
    "SqueezeOptions": {"squeeze_dims": Field(0, "[<i4]")},
    "ConcatenationOptions": {"axis": Field(0, INT), "fused_activation_function": Field(1, BYTE)},
    "SoftmaxOptions": {"beta": Field(0, FLOAT)},
    "LeakyReluOptions": {"alpha": Field(0, FLOAT)},
    "GeluOptions": {"approximate": Field(0, FLAG)},
    "StridedSliceOptions": {
        "begin_mask": Field(0, INT),
        "end_mask": Field(1, INT),
        "ellipsis_mask": Field(2, INT),
        "new_axis_mask": Field(3, INT),
        "shrink_axis_mask": Field(4, INT),
        "offset": Field(5, FLAG),
    },
    "PackOptions": {"values_count": Field(0, INT), "axis": Field(1, INT)},
    "GatherOptions": {"axis": Field(0, INT), "batch_dims": Field(1, INT)},
    "ShapeOptions": {"out_type": Field(0, BYTE)},
    "ArgMaxOptions": {"output_type": Field(0, BYTE)},
    "ResizeNearestNeighborOptions": {"align_corners": Field(0, FLAG), "half_pixel_centers": Field(1, FLAG)},
    "SplitOptions": {"num_splits": Field(0, INT)},
    "MirrorPadOptions": {"mode": Field(0, BYTE)},
}

OPTIONS: dict[str, int] = {  # the number of a table of options in `builtin_options_type`
    "Conv2DOptions": 1,
    "DepthwiseConv2DOptions": 2,
    "Pool2DOptions": 5,
    "FullyConnectedOptions": 8,
    "SoftmaxOptions": 9,
    "ConcatenationOptions": 10,
    "AddOptions": 11,
    "ReshapeOptions": 17,
    "MulOptions": 21,
    "GatherOptions": 23,
    "ReducerOptions": 27,
    "SubOptions": 28,
    "SqueezeOptions": 30,
    "StridedSliceOptions": 32,
    "SplitOptions": 35,
    "ArgMaxOptions": 40,
    "ShapeOptions": 55,
    "PackOptions": 59,
    "ResizeNearestNeighborOptions": 74,
    "LeakyReluOptions": 75,
    "MirrorPadOptions": 77,
    "GeluOptions": 116,
}


class TensorType(IntEnum):
    """The type of a tensor's elements."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    INT8 = 9
    FLOAT64 = 10
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    INT2 = 19
    UINT4 = 20


class Activation(IntEnum):
    """An activation that an operator applies itself."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


class Padding(IntEnum):
    """How a window meets the border."""

    SAME = 0
    VALID = 1


BUILTIN_LATER = 127  # in deprecated_builtin_code: the operator's number stands in builtin_code

_NAMES = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE
    STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE
    STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
    STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT
    STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
    STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
    STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""
BUILTINS: tuple[str, ...] = tuple(_NAMES.split())  # the names of operators, by their numbers
BUILTIN: dict[str, int] = {name: number for number, name in enumerate(BUILTINS)}
