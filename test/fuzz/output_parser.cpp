// Any bytes as a model's output: the same result however they are cut, and arguments that are JSON objects.
#include "engine/chat/output_parser.hpp"

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/ensure.hpp"

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

parted read(std::uint8_t choice, std::string_view text, std::size_t stride) {
  const engine::output_format format{static_cast<engine::call_format>(choice % 5), (choice & 8U) != 0};
  engine::output_parser parser(format, {(choice & 16U) == 0, (choice & 32U) != 0});
  parted out;
  for (std::size_t at = 0; at < text.size(); at += stride) add(out, parser.push(text.substr(at, stride)));
  add(out, parser.finish());
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
  const parted whole = read(data[0], text, text.size() + 1);
  ORCD_ENSURE(read(data[0], text, 1 + data[1] % 9) == whole);
  for (const auto& [name, arguments] : whole.calls) {
    boost::system::error_code ec;
    boost::json::parse_options deep;
    deep.max_depth = 200;
    const auto value = boost::json::parse(arguments, ec, {}, deep);
    ORCD_ENSURE(!ec && value.is_object());
  }
  return 0;
}
