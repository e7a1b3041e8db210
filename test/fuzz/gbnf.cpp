// Any bytes as a grammar, in GBNF or in Lark's form: compiled within limits of CPU time and memory or refused
// with a place, and what compiles can be followed to an end.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "test/fuzz/grammar_walk.hpp"
#include "test/fuzz/schema_cost.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto made = orcd::test::within_limits([&] { return orcd::engine::grammar::compile_grammar(text); });
  if (made) orcd::test::follow_to_an_end(*made, size);
  return 0;
}
