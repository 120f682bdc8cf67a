/* Certifies one image with libintrs: certify NETWORK NOISE TABLE IMAGE SEED [INDEX [THREADS [KERNELS]]]
 *
 * NETWORK, NOISE and TABLE are files that docs/library-c.md shows how to write, IMAGE holds raw pixels (height, width,
 * channels), SEED is a hexadecimal number of at most 256 bits. Without INDEX (or -) the pixels address the noise. */
#include <inttypes.h>
#include <libintrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint8_t* bytes;
  size_t size;
} file;

static file read_file(const char* path) {
  file f = {NULL, 0};
  FILE* in = fopen(path, "rb");
  if (in != NULL && fseek(in, 0, SEEK_END) == 0) {
    const long size = ftell(in);
    f.bytes = malloc(size > 0 ? (size_t)size : 1);
    rewind(in);
    if (f.bytes != NULL && size > 0) f.size = fread(f.bytes, 1, (size_t)size, in);
  }
  if (in != NULL) fclose(in);
  if (f.size == 0) {
    fprintf(stderr, "%s: cannot read this file\n", path);
    exit(2);
  }
  return f;
}

static void check(libintrs_status status, const char* what) {
  if (status == LIBINTRS_OK) return;
  fprintf(stderr, "%s: %s (%s)\n", what, libintrs_message(status), libintrs_last_error());
  exit(2);
}

/* The last digit is the lowest. */
static void parse_seed(const char* text, uint8_t seed[32]) {
  size_t digits = strspn(text, "0123456789abcdef"), i;
  memset(seed, 0, 32);
  if (digits == 0 || digits > 64 || text[digits] != 0) {
    fprintf(stderr, "%s: a seed has 1 to 64 hexadecimal digits\n", text);
    exit(2);
  }
  for (i = 0; i < digits; ++i) {
    const char c = text[digits - 1 - i];
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    seed[i / 2] = (uint8_t)(seed[i / 2] | digit << (i % 2 * 4));
  }
}

static void print_votes(const libintrs_network* network, const libintrs_noise* noise, file image,
                        const libintrs_settings* settings) {
  const uint32_t classes = libintrs_classes(network);
  uint64_t* counts = calloc(classes, sizeof *counts);
  uint32_t c;
  if (counts == NULL) exit(2);
  check(libintrs_votes(network, noise, image.bytes, image.size, settings, LIBINTRS_SELECTION, settings->n0, counts,
                       classes),
        "votes");
  printf("selection");
  for (c = 0; c < classes; ++c) printf(" %" PRIu64, counts[c]);
  printf("\n");
  free(counts);
}

int main(int argc, char** argv) {
  libintrs_settings settings = {{0}, 0, 0, 100, NULL, NULL};
  libintrs_network* network;
  libintrs_noise* noise;
  libintrs_rule* rule;
  libintrs_answer answer;
  file files[4];
  uint8_t identity[32];
  int i;
  if (argc < 6) {
    fprintf(stderr, "usage: certify NETWORK NOISE TABLE IMAGE SEED [INDEX [THREADS [KERNELS]]]\n");
    return 2;
  }
  for (i = 0; i < 4; ++i) files[i] = read_file(argv[1 + i]);
  parse_seed(argv[5], settings.seed);
  check(libintrs_open(files[0].bytes, files[0].size, argc > 8 ? argv[8] : "", &network), argv[1]);
  check(libintrs_open_noise(files[1].bytes, files[1].size, &noise), argv[2]);
  check(libintrs_open_rule(files[2].bytes, files[2].size, &rule), argv[3]);
  check(libintrs_content_index(network, files[3].bytes, files[3].size, &settings.index), argv[4]);
  if (argc > 6 && strcmp(argv[6], "-") != 0) settings.index = (uint32_t)strtoul(argv[6], NULL, 10);
  if (argc > 7) settings.threads = (uint32_t)strtoul(argv[7], NULL, 10);

  libintrs_identity(network, identity);
  printf("network ");
  for (i = 0; i < 32; ++i) printf("%02x", identity[i]);
  printf("\nkernels %s\n", libintrs_kernels(network));
  print_votes(network, noise, files[3], &settings);
  check(libintrs_certify(network, noise, rule, files[3].bytes, files[3].size, &settings, &answer), "certify");
  printf("votes %" PRIu64 " of %" PRIu64 "\n", answer.votes, answer.samples);
  if (answer.decided) {
    printf("class %" PRIu32 " within radius_sq %" PRIu64 "\n", answer.label, answer.radius_sq);
  } else {
    printf("abstains\n");
  }

  libintrs_close_rule(rule);
  libintrs_close_noise(noise);
  libintrs_close(network);
  for (i = 0; i < 4; ++i) free(files[i].bytes);
  return 0;
}
