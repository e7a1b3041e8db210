// Any bytes as a model's output, whole or cut off: the same result in whatever pieces they come, and calls
// with a name and the beginning of an object.
#include "engine/chat/output_parser.hpp"

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/ensure.hpp"
#include "engine/chat/argument_types.hpp"

namespace {

using namespace orcd;
using kind = engine::output_delta::kind;

struct parted {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const parted&) const = default;
};

void add(parted& to, const engine::output_deltas& deltas) {
  for (const auto& d : deltas) {
    switch (d.what) {
      case kind::content: to.content += d.text; break;
      case kind::reasoning: to.reasoning += d.text; break;
      case kind::call: to.calls.emplace_back(d.name, ""); break;
      case kind::arguments:
        ORCD_ENSURE(d.index + 1 == to.calls.size());
        to.calls.back().second += d.text;
        break;
    }
  }
}

/// Functions with arguments of every type.
std::shared_ptr<const engine::argument_types> types() {
  static const auto made = engine::argument_types::of(boost::json::parse(R"([
    {"function": {"name": "f", "parameters": {"properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"}, "l": {"type": "array"},
      "o": {"type": "object"}, "m": {"type": ["string", "null"]}, "u": {"type": ["number", "null"]}}}}},
    {"function": {"name": "g"}}])")
                                                          .as_array());
  return made;
}

/// The first byte: the format, whether there are no tools, an open reasoning, marks of reasoning and of
/// answers, a text that ends the output; the second: the marks, whether the output was cut off, the pieces.
/// The last of the formats stands for three, by the second byte's marks.
engine::output_format format_of(std::uint8_t first, std::uint8_t second) {
  using engine::call_format;
  static_assert(engine::call_formats == 18 && static_cast<int>(call_format::gemma4) == 15);
  const std::uint8_t marks = second >> 6U;
  auto calls = static_cast<call_format>(first & 15U);
  auto style = static_cast<engine::reasoning_style>(marks);
  if (calls == call_format::gemma4 && marks == 3) {
    style = engine::reasoning_style::channel;
  } else if (calls == call_format::gemma4) {
    calls = marks == 2 ? call_format::lfm2 : call_format::generic;
    if (marks == 2) style = engine::reasoning_style::think;
  }
  return {calls, (first & 64U) != 0, style,
          static_cast<engine::answer_style>((first & 128U) == 0 ? 0 : 1 + (second >> 7U)),
          (first & 128U) != 0};
}

parted read(const std::uint8_t* head, std::string_view text, std::size_t stride) {
  engine::output_parser parser(format_of(head[0], head[1]),
                               {(head[0] & 16U) == 0, (head[0] & 32U) != 0, types(), (head[1] & 16U) == 0,
                                (head[1] & 128U) != 0, (head[1] & 64U) != 0});
  parted out;
  for (std::size_t at = 0; at < text.size(); at += stride) add(out, parser.push(text.substr(at, stride)));
  add(out, parser.finish((head[1] & 32U) != 0 ? engine::output_end::cut : engine::output_end::whole));
  return out;
}

// Bytes that are no UTF-8 are passed on in strings; a parser of JSON would refuse them.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string text = printable({reinterpret_cast<const char*>(data) + 2, size - 2});
  const parted whole = read(data, text, text.size() + 1);
  ORCD_ENSURE(read(data, text, 1 + data[1] % 64 % 9) == whole);
  for (const auto& [name, arguments] : whole.calls) {
    const std::size_t first = arguments.find_first_not_of(" \n\t\r");
    ORCD_ENSURE(!name.empty() && first != std::string::npos && arguments[first] == '{');
  }
  return 0;
}
