#include "engine/text/utf8_buffer.hpp"

#include <algorithm>
#include <utility>

#include "engine/text/utf8.hpp"

namespace orcd::engine {

std::string utf8_buffer::push(std::string_view bytes) {
  std::string joined;
  if (!pending_.empty()) {
    joined = std::exchange(pending_, {});
    joined.append(bytes);
    bytes = joined;
  }
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const utf8::sequence s = utf8::inspect(bytes);
    if (s.needed != 0 && s.present < s.needed && s.present == bytes.size()) {
      pending_.assign(bytes);
      break;
    }
    const std::size_t taken = std::max<std::size_t>(s.present, 1);
    out.append(s.needed == s.present && s.needed != 0 ? bytes.substr(0, taken) : utf8::replacement);
    bytes.remove_prefix(taken);
  }
  return out;
}

std::string utf8_buffer::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(utf8::replacement);
}

std::string valid_utf8(std::string_view bytes) {
  utf8_buffer buffer;
  std::string out = buffer.push(bytes);
  return out += buffer.finish();
}

}  // namespace orcd::engine
