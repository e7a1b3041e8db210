// Any bytes as a chat template, rendered with a conversation that has tools or, after a zero byte, with
// variables in JSON: no crash, within the limits, the same bytes twice, and no more CPU time than the work
// that was paid for takes.
#include "engine/jinja/chat_template.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/ensure.hpp"
#include "engine/chat/output_format.hpp"
#include "test/support/thread_time.hpp"

namespace {

using namespace orcd;
using test::cpu_ms;

constexpr std::uint64_t most_work = 2'000'000;
// A unit is about a nanosecond. This build is up to ten times slower, its allocator more; twice is what other
// programs on the same core may cost, as they empty its caches.
constexpr double most_times_the_work = 50;
constexpr double most_ms = most_times_the_work * static_cast<double>(most_work) * 1e-6;

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

boost::json::object variables_of(std::string_view text) {
  static const boost::json::object usual = conversation();
  if (text.empty()) return usual;
  boost::system::error_code failed;
  const boost::json::value parsed = boost::json::parse({text.data(), text.size()}, failed);
  return failed || !parsed.is_object() ? usual : parsed.get_object();
}

/// What `work` gives. It must end in time at one of three attempts: what others do to this core passes.
template <class Work>
auto timed(Work work) {
  double begun = cpu_ms();
  auto out = work();
  double least = cpu_ms() - begun;
  for (int again = 0; least > most_ms && again < 2; ++again) {
    begun = cpu_ms();
    (void)work();
    least = std::min(least, cpu_ms() - begun);
  }
  ORCD_ENSURE(least <= most_ms);
  return out;
}

bool same(const engine::result<std::string>& a, const engine::result<std::string>& b) {
  if (a.has_value() != b.has_value()) return false;
  return a.has_value() ? *a == *b : a.error().message == b.error().message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const std::string_view source = input.substr(0, end);
  const boost::json::object variables = variables_of(input.substr(std::min(end + 1, size)));
  engine::template_limits limits;
  limits.work = most_work;
  limits.quick_work = most_work / 10;
  limits.memory_bytes = 4U << 20U;
  limits.output_bytes = 1U << 16U;
  engine::output_format format;
  const auto compiled = timed([&] {
    format = engine::detect_output_format(source);
    return engine::chat_template::compile(source, limits);
  });
  if (!compiled) {
    ORCD_ENSURE(!compiled.error().message.empty());
    return 0;
  }
  const std::chrono::system_clock::time_point now{};
  const auto first = timed([&] { return compiled->render(variables, now); });
  ORCD_ENSURE(!first || first->size() <= limits.output_bytes);
  if (first) (void)engine::ends_in_reasoning(*first, format);
  // What is quick enough is the same, an error too.
  const auto quick = compiled->render_quickly(variables, now);
  ORCD_ENSURE(same(first, quick ? *quick : compiled->render(variables, now)));
  return 0;
}
