// Follows a compiled grammar to an end: each mask within the limits of time, and never nothing to go on with
// before the output may end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/grammar/matcher.hpp"
#include "test/fuzz/schema_cost.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

namespace orcd::test {

inline void follow_to_an_end(const std::shared_ptr<const engine::grammar::program>& program,
                             std::uint64_t seed) {
  static const piece_tokenizer vocabulary(json_pieces());
  static const auto table = engine::grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  const heap_watch heap;
  engine::grammar::matcher m(program, table);
  std::vector<engine::token_id> allowed;
  for (int i = 0; i < 40 && !m.complete(); ++i) {
    const double start = cpu_ms();
    const engine::token_mask mask = m.mask();
    ORCD_ENSURE(cpu_ms() - start < compile_ms_max);
    if (!m.failure().empty()) break;
    allowed.clear();
    for (engine::token_id token = 0; token < vocabulary.end(); ++token) {
      if (engine::allows(mask, token)) allowed.push_back(token);
    }
    if (allowed.empty()) {
      ORCD_ENSURE(m.may_end());
      break;
    }
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    ORCD_ENSURE(m.accept(allowed[(seed >> 33U) % allowed.size()]));
  }
  ORCD_ENSURE(heap.peak() < matcher_bytes_max);
}

}  // namespace orcd::test
