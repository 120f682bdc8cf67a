/* Checks this device against the desktop, and certifies one image: what the exporter wrote beside the network. */
#include "board.h"
#include "intrs.h"
#include "net.h"

static uint32_t arena[NET_ARENA_BYTES / 4];
static intrs_run run;

static void write_number(uint32_t number) {
  char text[12];
  int at = 11;
  text[at] = 0;
  do {
    text[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  board_write(text + at);
}

static void write_pair(const char* before, uint32_t number, const char* after) {
  board_write(before);
  write_number(number);
  board_write(after);
}

static int fail(intrs_status status) {
  board_write("error: ");
  board_write(intrs_message(status));
  board_write("\n");
  return 1;
}

static int show_progress(void* context, uint32_t done, uint32_t most) {
  (void)context;
  (void)most;
  if (done % 50 == 0) board_write(".");
  return 0;
}

static const char* name_of(intrs_mode mode) {
  return mode == INTRS_PREDICT ? "predict" : mode == INTRS_CERTIFY ? "certify" : "adaptive";
}

/* The largest whole number whose square is not larger. */
static uint32_t root_of(uint32_t square) {
  uint32_t root = 0, bit;
  for (bit = (uint32_t)1 << 15; bit != 0; bit >>= 1) {
    if ((root + bit) * (root + bit) <= square) root += bit;
  }
  return root;
}

static void write_answer(const intrs_answer* answer, intrs_mode mode) {
  if (answer->decided) {
    write_pair("\n  class ", answer->label, "");
  } else {
    board_write("\n  abstained");
  }
  write_pair(", ", answer->votes, " of ");
  write_pair("", answer->samples, " votes");
  if (answer->decided && mode != INTRS_PREDICT) {
    write_pair(", certified within ", root_of(answer->radius_sq), " pixel levels of 255");
    write_pair(" (squared radius ", answer->radius_sq, ")");
  }
  board_write("\n");
}

static int same(const intrs_answer* a, const intrs_answer* b) {
  if (a->decided != b->decided || a->votes != b->votes || a->samples != b->samples) return 0;
  return !a->decided || (a->label == b->label && a->radius_sq == b->radius_sq);
}

/* One answer, compared with the desktop's. */
static int check_answer(const intrs_net* net, const intrs_expected* expected) {
  intrs_answer answer;
  intrs_status status = intrs_begin(net, &run, expected->mode, net_vectors.seed, net_vectors.index);
  if (status != INTRS_OK) return fail(status);
  board_write(name_of(expected->mode));
  board_write(" ");
  status = intrs_finish(net, &run, net_vectors.image, net_vectors.image_bytes, show_progress, 0);
  if (status == INTRS_OK) status = intrs_result(net, &run, &answer);
  if (status != INTRS_OK) return fail(status);
  write_answer(&answer, expected->mode);
  return same(&answer, &expected->answer) ? 0 : fail(INTRS_DIFFERENT);
}

int main(void) {
  intrs_net net;
  uint32_t i;
  int failed = 0;
  intrs_status status = intrs_open(&net, net_data, NET_DATA_BYTES, arena, sizeof arena);
  if (status != INTRS_OK) return fail(status);
  board_write("network " NET_IDENTITY "\n");
  write_pair("constants ", NET_DATA_BYTES, " bytes, ");
  write_pair("arena ", NET_ARENA_BYTES, " bytes\n");
  status = intrs_self_check(&net, &net_vectors, &run);
  if (status != INTRS_OK) return fail(status);
  write_pair("the scores and votes of ", net_vectors.samples, " samples equal the desktop's\n");
  for (i = 0; i < net_vectors.answers; ++i) failed |= check_answer(&net, &net_vectors.expected[i]);
  if (!failed) board_write("all answers equal the desktop's\n");
  return failed;
}
