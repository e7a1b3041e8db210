// Any bytes as a JSON Schema: compiled within limits of CPU time and memory or refused with a path; what
// compiles gives masks that agree with trying each token, and a walk along them never stops before the output
// may end.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/grammar/matcher.hpp"
#include "test/fuzz/schema_cost.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

namespace {

using namespace orcd;
namespace grammar = engine::grammar;

const test::piece_tokenizer& vocabulary() {
  static const test::piece_tokenizer made(test::json_pieces());
  return made;
}

void compare(const std::shared_ptr<const grammar::program>& program, const auto& table,
             const std::vector<engine::token_id>& accepted, engine::token_mask mask) {
  for (engine::token_id token = 0; token < vocabulary().end(); token += 3) {
    grammar::matcher fresh(program, table);
    for (const engine::token_id before : accepted) ORCD_ENSURE(fresh.accept(before));
    ORCD_ENSURE(fresh.accept(token) == engine::allows(mask, token));
  }
}

void walk(const std::shared_ptr<const grammar::program>& program, std::uint64_t seed) {
  static const auto table = grammar::make_token_table(vocabulary(), vocabulary().vocab_size());
  grammar::matcher m(program, table);
  std::vector<engine::token_id> accepted, allowed;
  for (int i = 0; i < 60 && !m.complete(); ++i) {
    const engine::token_mask mask = m.mask();
    if (!m.failure().empty()) return;
    if (i == 5) compare(program, table, accepted, mask);
    allowed.clear();
    for (engine::token_id token = 0; token <= vocabulary().end(); ++token) {
      if (engine::allows(mask, token)) allowed.push_back(token);
    }
    ORCD_ENSURE(!allowed.empty());
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const engine::token_id token = allowed[(seed >> 33U) % allowed.size()];
    if (token == vocabulary().end()) {
      ORCD_ENSURE(m.may_end());
      return;
    }
    ORCD_ENSURE(m.accept(token));
    accepted.push_back(token);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  boost::system::error_code ec;
  const auto schema = boost::json::parse({reinterpret_cast<const char*>(data), size}, ec);
  if (ec) return 0;
  for (const bool strict : {false, true}) {
    grammar::schema_options options;
    options.strict = strict;
    const auto made = test::compile_within_limits(schema, options);
    if (!made) continue;
    walk(*made, size);
    walk(*made, size * 31 + 7);
  }
  return 0;
}
