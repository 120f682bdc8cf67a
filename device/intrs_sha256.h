/* SHA-256 (FIPS 180-4) of bytes in memory: it guards constants and saved runs, names networks and tables, and addresses
 * the noise of images. The one definition, for the device runtime and for libintrs. */
#ifndef INTRS_SHA256_H
#define INTRS_SHA256_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint64_t count; /* bytes so far */
  uint32_t state[8];
  uint8_t block[64];
} intrs_sha256_state;

void intrs_sha256_begin(intrs_sha256_state* sha);
void intrs_sha256_add(intrs_sha256_state* sha, const uint8_t* bytes, size_t count);
void intrs_sha256_end(intrs_sha256_state* sha, uint8_t digest[32]); /* nothing may be added afterwards */
void intrs_sha256(const uint8_t* bytes, size_t count, uint8_t digest[32]);

#ifdef __cplusplus
}
#endif

#endif
