// Votes on one thread, for counting instructions: count_votes NETWORK NOISE KERNELS SAMPLES
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "libintrs.h"

namespace {

using Bytes = std::vector<uint8_t>;

Bytes read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void check(libintrs_status status) {
  if (status == LIBINTRS_OK) return;
  std::fprintf(stderr, "%s\n", libintrs_last_error());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const Bytes network_bytes = read(argv[1]), noise_bytes = read(argv[2]);
  libintrs_network* network = nullptr;
  libintrs_noise* noise = nullptr;
  check(libintrs_open(network_bytes.data(), network_bytes.size(), argv[3], &network));
  check(libintrs_open_noise(noise_bytes.data(), noise_bytes.size(), &noise));
  Bytes image(libintrs_image_bytes(network));
  for (size_t i = 0; i < image.size(); ++i) image[i] = uint8_t(37 * i);
  libintrs_settings settings = {};
  settings.threads = 1;
  std::vector<uint64_t> counts(libintrs_classes(network));
  check(libintrs_votes(network, noise, image.data(), image.size(), &settings, 0, uint64_t(std::atol(argv[4])),
                       counts.data(), counts.size()));
  for (uint64_t count : counts) std::printf("%llu ", static_cast<unsigned long long>(count));
  std::printf("\n");
  libintrs_close_noise(noise);
  libintrs_close(network);
}
