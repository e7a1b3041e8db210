// Any bytes as the pattern of a string: compiled within limits of CPU time and memory or refused with a path,
// and what compiles can be followed to an end.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>

#include "test/fuzz/grammar_walk.hpp"
#include "test/fuzz/schema_cost.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const boost::json::object schema{
      {"type", "string"}, {"pattern", boost::json::string({reinterpret_cast<const char*>(data), size})}};
  const auto made = orcd::test::compile_within_limits(schema, {});
  if (made) orcd::test::follow_to_an_end(*made, size);
  return 0;
}
