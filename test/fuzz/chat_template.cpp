// Any bytes as a chat template, rendered with a conversation that has tools: no crash, within the limits, and
// the same bytes twice.
#include "engine/chat/chat_template.hpp"

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/ensure.hpp"

namespace {

using namespace orcd;

boost::json::object conversation() {
  constexpr std::string_view text = R"({"messages": [
    {"role": "system", "content": "Be terse."},
    {"role": "user", "content": "na\u00efve \u72d0 <b>"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1.5, "y": [1, 2]}}}]},
    {"role": "tool", "content": [{"type": "text", "text": "ok"}], "tool_call_id": "a"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
      "properties": {"x": {"type": "number", "default": 18446744073709551615}}, "required": ["x"]}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "documents": null, "empty": {},
    "n": -9223372036854775808})";
  return boost::json::parse({text.data(), text.size()}).as_object();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const boost::json::object variables = conversation();
  engine::template_limits limits;
  limits.steps = 50'000;
  limits.memory_bytes = 4U << 20U;
  limits.output_bytes = 1U << 16U;
  limits.time = std::chrono::seconds(20);  // steps are what bounds a rendering here
  const auto compiled = engine::chat_template::compile({reinterpret_cast<const char*>(data), size}, limits);
  if (!compiled) {
    ORCD_ENSURE(!compiled.error().message.empty());
    return 0;
  }
  const std::chrono::system_clock::time_point now{};
  const auto first = compiled->render(variables, now);
  const auto second = compiled->render(variables, now);
  ORCD_ENSURE(first.has_value() == second.has_value());
  if (first) {
    ORCD_ENSURE(first->size() <= limits.output_bytes && *first == *second);
  }
  return 0;
}
