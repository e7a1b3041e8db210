// Numbers of the pipe's protocols as text: exact, without a locale, and with a message that names field,
// value and limit. Pure.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"

namespace orcd::app {

/// What a client may send as a count, because it is an int there.
inline constexpr std::uint64_t pipe_count_max = 2'147'483'647;

/// Wrong arguments or a wrong line (invalid_request): the process ends with exit code 2.
[[nodiscard]] engine::error pipe_error(const std::string& text);

/// A whole number in [least, most]. `field` is its name in the message.
[[nodiscard]] engine::result<std::uint64_t> read_count(std::string_view field, std::string_view text,
                                                       std::uint64_t least, std::uint64_t most);

/// The same without an upper limit: what is above `most` becomes `most`, however many digits it has.
[[nodiscard]] engine::result<std::uint64_t> read_count_up_to(std::string_view field, std::string_view text,
                                                             std::uint64_t most);

/// A number that is not negative; infinity and NaN are numbers here, because a client's JSON may have them.
[[nodiscard]] engine::result<double> read_amount(std::string_view field, std::string_view text);

/// A path of 1 to 4096 bytes.
[[nodiscard]] engine::result<std::string> read_path(std::string_view field, std::string_view text);

/// The shortest text that reads back as the same number, so that numbers that differ have texts that differ.
template <class T>
[[nodiscard]] std::string text_of(T value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

struct real_limits {
  double least = 0.0;
  double most = 0.0;
};
/// A finite number within the limits.
[[nodiscard]] engine::result<double> read_real(std::string_view field, std::string_view text,
                                               const real_limits& limits);

/// Ids below `vocabulary`, with commas between; an empty text has none. After `most` of them ids are still
/// checked and counted in `count`, but not kept.
struct id_list {
  std::vector<engine::token_id> ids;
  std::uint64_t count = 0;
};
[[nodiscard]] engine::result<id_list> read_ids(std::string_view field, std::string_view text,
                                               std::uint32_t vocabulary, std::uint64_t most);

}  // namespace orcd::app
