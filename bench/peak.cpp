// How many multiply-adds a second can this machine do, from registers alone?
//
//   peak THREADS SECONDS
//
// prints one line of JSON: multiply-adds a second over all threads, by instruction. Loops keep twelve sums in flight,
// more than the latency of any of these instructions needs, and are assembly, so that no compiler takes them apart.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kSums = 12, kTurns = 1000;

#define SUMS(F) F("4") F("5") F("6") F("7") F("8") F("9") F("10") F("11") F("12") F("13") F("14") F("15")
#define CLOBBERED                                                                                                     \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"
#define LOOP(name, step)                         \
  void name() {                                  \
    __asm__ volatile("vzeroall" ::: CLOBBERED);  \
    for (int turn = 0; turn < kTurns; ++turn) {  \
      __asm__ volatile(SUMS(step)::: CLOBBERED); \
    }                                            \
  }

#define MADDUBSW(r) "vpmaddubsw %%ymm0, %%ymm1, %%ymm2\n vpaddw %%ymm2, %%ymm" r ", %%ymm" r "\n"
#define MADDWD(r) "vpmaddwd %%ymm0, %%ymm1, %%ymm2\n vpaddd %%ymm2, %%ymm" r ", %%ymm" r "\n"
#define DPBUSD_AVX(r) "%{vex%} vpdpbusd %%ymm0, %%ymm1, %%ymm" r "\n"
#define DPBUSD_512(r) "vpdpbusd %%zmm0, %%zmm1, %%zmm" r "\n"
#define FMA(r) "vfmadd231ps %%ymm0, %%ymm1, %%ymm" r "\n"

LOOP(maddubsw, MADDUBSW)
LOOP(maddwd, MADDWD)
LOOP(dpbusd_avx, DPBUSD_AVX)
LOOP(dpbusd_512, DPBUSD_512)
LOOP(fma, FMA)

bool has_avx_vnni() {
  unsigned a = 7, b = 0, c = 1, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a >> 4 & 1;
}

struct Way {
  const char* name;
  void (*loop)();
  int products;  // of one step
  bool usable;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double rate(const Way& way, unsigned threads, double seconds) {
  std::atomic<uint64_t> loops{0};
  const auto start = std::chrono::steady_clock::now();
  const auto work = [&] {
    uint64_t mine = 0;
    for (; seconds_since(start) < seconds; ++mine) way.loop();
    loops += mine;
  };
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i) running.emplace_back(work);
  for (std::thread& thread : running) thread.join();
  return double(loops) * kTurns * kSums * way.products / seconds_since(start);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool avx2 = __builtin_cpu_supports("avx2");
  const Way ways[] = {
      {"vfmadd231ps ymm", fma, 8, avx2 && __builtin_cpu_supports("fma")},
      {"vpmaddwd+vpaddd ymm", maddwd, 16, avx2},
      {"vpmaddubsw+vpaddw ymm", maddubsw, 32, avx2},
      {"vpdpbusd ymm", dpbusd_avx, 32, avx2 && has_avx_vnni()},
      {"vpdpbusd zmm", dpbusd_512, 64, __builtin_cpu_supports("avx512vnni") != 0},
  };
  const char* comma = "{";
  for (const Way& way : ways) {
    if (!way.usable) continue;
    std::printf("%s\"%s\": %.6g", comma, way.name, rate(way, unsigned(std::atoi(argv[1])), std::atof(argv[2])));
    comma = ", ";
  }
  std::puts("}");
}
