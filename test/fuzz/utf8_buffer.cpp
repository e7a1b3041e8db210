// The first byte chooses how the rest is cut. Any cut gives the same text, the text is valid UTF-8,
// valid input comes back unchanged, and no more than 3 bytes are ever held. The same for stop strings.
#include "engine/text/utf8_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/ensure.hpp"
#include "engine/text/stop_matcher.hpp"
#include "engine/text/utf8.hpp"

using namespace orcd::engine;

namespace {

bool is_valid(std::string_view text) {
  while (!text.empty()) {
    const utf8::sequence s = utf8::inspect(text);
    if (s.needed == 0 || s.present != s.needed) return false;
    text.remove_prefix(s.needed);
  }
  return true;
}

std::string feed(std::string_view bytes, std::size_t step) {
  utf8_buffer buffer;
  std::string out;
  while (!bytes.empty()) {
    const std::size_t n = std::min(step, bytes.size());
    out += buffer.push(bytes.substr(0, n));
    ORCD_ENSURE(is_valid(out));
    bytes.remove_prefix(n);
  }
  const std::string rest = buffer.finish();
  ORCD_ENSURE(rest.empty() || rest == utf8::replacement);
  return out + rest;
}

std::string match(const std::vector<std::string>& stops, std::string_view text, std::size_t step) {
  stop_matcher m(stops);
  std::string out;
  while (!text.empty()) {
    const std::size_t n = std::min(step, text.size());
    const auto piece = m.push(text.substr(0, n));
    out += piece.text;
    if (piece.stopped) {
      ORCD_ENSURE(m.finish().empty());
      return out;
    }
    text.remove_prefix(n);
  }
  out += m.finish();
  for (const std::string& s : stops) ORCD_ENSURE(s.empty() || out.find(s) == std::string::npos);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = 1 + data[0] % 7;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = feed(bytes, bytes.size() + 1);
  ORCD_ENSURE(is_valid(whole));
  ORCD_ENSURE(feed(bytes, step) == whole);
  if (is_valid(bytes)) ORCD_ENSURE(whole == bytes);
  std::vector<std::string> stops;
  for (std::size_t at = 0, n = data[0] % 5 + 1u; at < bytes.size() && stops.size() < 3; at += n) {
    stops.emplace_back(bytes.substr(at, n));
  }
  const std::string_view text = bytes.substr(std::min<std::size_t>(bytes.size(), 8));
  ORCD_ENSURE(match(stops, text, step) == match(stops, text, text.size() + 1));
  return 0;
}
