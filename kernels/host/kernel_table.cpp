#include "kernels/host/kernel_table.hpp"

#include <atomic>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace orcd::kernels::host {

namespace isa_baseline {
extern const kernel_table table;
}
#if defined(ORCD_ISA_V3)
namespace isa_v3 {
extern const kernel_table table;
}
namespace isa_v4 {
extern const kernel_table table;
}
namespace isa_v3_vnni {
void ternary_rows(const matmul_args& args, std::uint32_t row_begin, std::uint32_t row_end);
}
namespace isa_v4_vnni {
void ternary_rows(const matmul_args& args, std::uint32_t row_begin, std::uint32_t row_end);
}
#endif

namespace {

std::atomic<const kernel_table*> in_use{nullptr};

#if defined(ORCD_ISA_V3)
/// Features of x86-64-v3 that __builtin_cpu_supports of clang 14 does not know.
bool has_f16c_movbe_lzcnt() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  const bool f16c = (c & (1U << 29)) != 0;
  const bool movbe = (c & (1U << 22)) != 0;
  if (__get_cpuid(0x80000001U, &a, &b, &c, &d) == 0) return false;
  const bool lzcnt = (c & (1U << 5)) != 0;
  return f16c && movbe && lzcnt;
}

bool processor_has_v3() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && has_f16c_movbe_lzcnt();
}

bool processor_has_v4() noexcept {
  return processor_has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

/// AVX-VNNI, which __builtin_cpu_supports of g++ 12 and clang 14 does not know. The system saves the
/// registers of AVX2, which has_v3 has asked for.
bool has_avx_vnni() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1U << 4)) != 0;
}

/// The table of a level with other products of ternary weights.
kernel_table with_products(kernel_table table, isa_level level,
                           decltype(kernel_table::ternary_rows) products) {
  table.level = level;
  table.ternary_rows = products;
  return table;
}

const kernel_table* v3_vnni() noexcept {
  static const kernel_table table =
      with_products(isa_v3::table, isa_level::v3_vnni, &isa_v3_vnni::ternary_rows);
  return processor_has_v3() && has_avx_vnni() ? &table : nullptr;
}

const kernel_table* v4_vnni() noexcept {
  static const kernel_table table =
      with_products(isa_v4::table, isa_level::v4_vnni, &isa_v4_vnni::ternary_rows);
  return processor_has_v4() && __builtin_cpu_supports("avx512vnni") ? &table : nullptr;
}
#endif

const kernel_table* choose() {
  const char* named = std::getenv("WORKER_ORCD_HOST_ISA");
  const kernel_table* best = nullptr;
  for (const isa_level level :
       {isa_level::v4_vnni, isa_level::v4, isa_level::v3_vnni, isa_level::v3, isa_level::baseline}) {
    const kernel_table* table = kernels_of(level);
    if (table && named && std::string_view(named) == isa_name(level)) return table;
    if (best == nullptr) best = table;
  }
  return best;
}

}  // namespace

const kernel_table* kernels_of(isa_level level) noexcept {
#if defined(ORCD_ISA_V3)
  if (level == isa_level::v4_vnni) return v4_vnni();
  if (level == isa_level::v3_vnni) return v3_vnni();
  if (level == isa_level::v4) return processor_has_v4() ? &isa_v4::table : nullptr;
  if (level == isa_level::v3) return processor_has_v3() ? &isa_v3::table : nullptr;
#endif
  return level == isa_level::baseline ? &isa_baseline::table : nullptr;
}

const kernel_table& kernels() {
  const kernel_table* table = in_use.load(std::memory_order_acquire);
  if (table == nullptr) {
    table = choose();
    in_use.store(table, std::memory_order_release);
  }
  return *table;
}

void use_kernels(const kernel_table& table) noexcept {
  in_use.store(&table, std::memory_order_release);
}

const char* isa_name(isa_level level) noexcept {
  switch (level) {
    case isa_level::v4_vnni: return "v4-vnni";
    case isa_level::v4: return "v4";
    case isa_level::v3_vnni: return "v3-vnni";
    case isa_level::v3: return "v3";
    case isa_level::baseline: break;
  }
  return "baseline";
}

}  // namespace orcd::kernels::host
