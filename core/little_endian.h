// Include this wherever bytes are read as words or words as bytes: the network's format, seeds, weights, noise.
#pragma once

static_assert(
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "the core reads bytes as little-endian words; a machine of another byte order needs code of its own there");
