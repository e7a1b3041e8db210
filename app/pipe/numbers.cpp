#include "app/pipe/numbers.hpp"

#include <algorithm>
#include <cmath>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_limits.hpp"

namespace orcd::app {
namespace {

using engine::error;
using engine::result;

std::string shown(std::string_view field, std::string_view text) {
  return std::string(field) + " is " + engine::in_quotes(text);
}

}  // namespace

error pipe_error(const std::string& text) {
  return {engine::errc::invalid_request, text};
}

result<std::uint64_t> read_count(std::string_view field, std::string_view text, std::uint64_t least,
                                 std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc{} && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  return pipe_error(shown(field, text) + "; it must be a whole number from " + std::to_string(least) +
                    " to " + std::to_string(most));
}

result<std::uint64_t> read_count_up_to(std::string_view field, std::string_view text, std::uint64_t most) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) {
    return pipe_error(shown(field, text) + "; it must be a whole number that is not negative");
  }
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc{} ? std::min(value, most) : most;
}

result<std::string> read_path(std::string_view field, std::string_view text) {
  constexpr std::size_t most = engine::adapter_limits::path_bytes;
  if (!text.empty() && text.size() <= most) return std::string(text);
  return pipe_error(std::string(field) + " has " + std::to_string(text.size()) +
                    " bytes; it must have 1 to " + std::to_string(most));
}

result<double> read_amount(std::string_view field, std::string_view text) {
  double value = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc{} && end == text.data() + text.size();
  if (whole && !(value < 0.0)) return value;
  return pipe_error(shown(field, text) + "; it must be a number that is not negative");
}

result<double> read_real(std::string_view field, std::string_view text, const real_limits& limits) {
  double value = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
  if (whole && value >= limits.least && value <= limits.most) return value;
  return pipe_error(shown(field, text) + "; it must be a number from " + text_of(limits.least) + " to " +
                    text_of(limits.most));
}

result<id_list> read_ids(std::string_view field, std::string_view text, std::uint32_t vocabulary,
                         std::uint64_t most) {
  id_list out;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto id = read_count(field, text.substr(0, comma), 0, vocabulary - 1);
    if (!id) return id.error();
    if (out.count++ < most) out.ids.push_back(static_cast<engine::token_id>(*id));
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return pipe_error(std::string(field) + " ends with a comma");
  }
  return out;
}

}  // namespace orcd::app
