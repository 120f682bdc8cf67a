/* From votes to a decision, by comparing integers with the tables that the exporter proved. */
#include "intrs_data.h"

static uint32_t ones(uint32_t word) {
  uint32_t count = 0;
  for (; word != 0; word &= word - 1) ++count;
  return count;
}

/* Theorem 8: does the winner beat the runner-up by more than a fair coin would? */
int intrs_predict_passes(const uint8_t* data, uint32_t winner, uint32_t runner_up) {
  const intrs_predict* table = (const intrs_predict*)(const void*)(data + intrs_header_of(data)->predict_at);
  const uint32_t* bits = intrs_words(data, table->bits_at);
  const uint32_t m = winner + runner_up; /* at most n */
  uint32_t i, least = 1;
  for (i = 0; i < m / 32; ++i) least += ones(bits[i]);
  least += ones(bits[m / 32] & (0xffffffffu >> (31 - m % 32)));
  return winner > runner_up && winner >= least;
}

/* `width` bits from this bit on; the array has a word more than they need. */
static uint32_t bits_at(const uint32_t* words, uint32_t bit, uint32_t width) {
  const uint64_t two = (uint64_t)words[bit / 32] | (uint64_t)words[bit / 32 + 1] << 32;
  return (uint32_t)(two >> bit % 32) & (((uint32_t)1 << width) - 1);
}

int intrs_certified(const uint8_t* data, uint32_t votes, uint32_t* radius_sq) {
  const intrs_certify* table = (const intrs_certify*)(const void*)(data + intrs_header_of(data)->certify_at);
  const intrs_block* block;
  uint32_t i, width;
  int64_t curve;
  if (votes < table->start) return 0;
  *radius_sq = table->least_sq;
  if (table->blocks == 0) return 1;
  i = votes - table->start;
  block = (const intrs_block*)(const void*)(data + table->blocks_at) + (i >> table->block_bits);
  i &= ((uint32_t)1 << table->block_bits) - 1;
  width = block->width_bits & 31u;
  curve = ((int64_t)block->slope * i + (int64_t)block->bend * i * i) >> 16;
  *radius_sq = (uint32_t)block->base + (uint32_t)curve +
               bits_at(intrs_words(data, table->residuals_at), (block->width_bits >> 5) + i * width, width);
  return 1;
}

static const intrs_adaptive* adaptive_of(const uint8_t* data) {
  return (const intrs_adaptive*)(const void*)(data + intrs_header_of(data)->adaptive_at);
}

static int accepted(const uint8_t* data, const intrs_adaptive* rule, uint32_t radius, uint32_t look, uint32_t votes) {
  const uint32_t place = radius * rule->looks + look, samples = intrs_words(data, rule->looks_at)[look];
  const uint32_t spare = rule->accept_wide ? intrs_words(data, rule->accept_at)[place]
                                           : ((const uint16_t*)(const void*)(data + rule->accept_at))[place];
  return votes + spare > samples;
}

/* Every radius that is asked for is accepted or given up. */
int intrs_adaptive_stops(const uint8_t* data, uint32_t look, uint32_t votes) {
  const intrs_adaptive* rule = adaptive_of(data);
  uint32_t i;
  if (look + 1 == rule->looks) return 1;
  for (i = 0; i < rule->asked; ++i) {
    const uint32_t radius = intrs_words(data, rule->asked_at)[i];
    if (radius < rule->radii && accepted(data, rule, radius, look, votes)) continue;
    if (votes >= intrs_words(data, rule->given_up_at)[i * rule->looks + look]) return 0;
  }
  return 1;
}

/* The largest radius that is accepted with all below it. */
int intrs_adaptive_certified(const uint8_t* data, uint32_t look, uint32_t votes, uint32_t* radius_sq) {
  const intrs_adaptive* rule = adaptive_of(data);
  uint32_t i = 0;
  while (i < rule->radii && accepted(data, rule, i, look, votes)) ++i;
  if (i == 0) return 0;
  *radius_sq = intrs_words(data, rule->radii_sq_at)[i - 1];
  return 1;
}
