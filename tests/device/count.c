/* Takes SAMPLES samples of an exported network and ends, for instructions.sh: what an emulator counts. The votes must
 * be those of the desktop as far as the folder knows them. */
#include "board.h"
#include "intrs.h"
#include "net.h"

#ifndef SAMPLES
#define SAMPLES 8u
#endif

static uint32_t arena[NET_ARENA_BYTES / 4];
static intrs_run run;

int main(void) {
  intrs_net net;
  uint32_t i;
  intrs_status status = intrs_open(&net, net_data, NET_DATA_BYTES, arena, sizeof arena);
  if (status == INTRS_OK) status = intrs_begin_votes(&net, &run, net_vectors.seed, net_vectors.index, 0, SAMPLES);
  if (status == INTRS_OK) status = intrs_next(&net, &run, net_vectors.image, net_vectors.image_bytes, SAMPLES);
  if (status != INTRS_OK) return 1;
  for (i = 0; i < NET_CLASSES && SAMPLES == net_vectors.samples; ++i) {
    if (run.counts[i] != net_vectors.votes[i]) return 2;
  }
  return 0;
}
