/* A plugin of QEMU that counts the instructions which the emulated program runs, and prints their number at its end.
 * The declarations are those of QEMU's qemu-plugin.h, which Debian's package does not have; see instructions.sh. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb; /* a block of translated instructions */
enum { NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block, void (*ran)(unsigned, void*), int flags,
                                          void* data);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void*), void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);

static uint64_t total;

static void ran(unsigned cpu, void* instructions) {
  (void)cpu;
  __atomic_fetch_add(&total, (uint64_t)(uintptr_t)instructions, __ATOMIC_RELAXED);
}

static void translated(plugin_id id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_cb(block, ran, NO_REGISTERS, (void*)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void ended(plugin_id id, void* data) {
  (void)id, (void)data;
  fprintf(stderr, "instructions %llu\n", (unsigned long long)total);
}

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_VERSION;

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void* info, int argc, char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
