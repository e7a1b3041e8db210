// What compiling a grammar may cost, checked by CPU time and by what the heap really gives: sanitizers and
// coverage make the time some ten times that of the shipped build, where the worst is a tenth of a second.
#pragma once

#include <boost/json/value.hpp>

#include "engine/base/ensure.hpp"
#include "engine/grammar/compile_budget.hpp"
#include "engine/grammar/grammar.hpp"
#include "test/support/counted_memory.hpp"
#include "test/support/thread_time.hpp"

namespace orcd::test {

inline constexpr double compile_ms_max = 2'500;
inline constexpr std::size_t compile_bytes_max = 32U << 20U;
/// Of a matcher, which keeps configurations and masks.
inline constexpr std::size_t matcher_bytes_max = 20U << 20U;

template <class Compile>
auto within_limits(const Compile& compile) {
  const heap_watch heap;
  const double start = cpu_ms();
  auto made = compile();
  ORCD_ENSURE(cpu_ms() - start < compile_ms_max);
  ORCD_ENSURE(heap.peak() < compile_bytes_max);
  const engine::grammar::compile_limits limits;
  ORCD_ENSURE(engine::grammar::compile_budget::last().work <= limits.work);
  if (!made) ORCD_ENSURE(made.error().message.find(": ") != std::string::npos);
  return made;
}

inline auto compile_within_limits(const boost::json::value& schema,
                                  const engine::grammar::schema_options& options) {
  return within_limits([&] { return engine::grammar::compile_json_schema(schema, options); });
}

}  // namespace orcd::test
