// Requests as the Trillim SDK sends them, line by line, in two protocols (docs/pipe.md). Pure: a request is
// read without a pipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/pipe/numbers.hpp"
#include "engine/sampling/sampling.hpp"

namespace orcd::app {

/// lines: eight numbers, then the ids, one a line. blocks: a line with a count, then as many key=value lines.
enum class pipe_protocol { lines, blocks };

struct pipe_request {
  bool quit = false;                  ///< and nothing else counts
  std::optional<std::uint64_t> keep;  ///< tokens of the context that stay; nullopt = all
  id_list tokens;                     ///< what follows them; `count` of them were sent
  engine::sampling_params sampling;
  std::uint32_t max_tokens = 0;  ///< 0 = any number
};

class request_reader {
 public:
  /// Ids are below `vocabulary`; of more than `room` of them the rest is checked and counted, not kept.
  request_reader(pipe_protocol protocol, std::uint32_t vocabulary, std::uint32_t room)
      : protocol_(protocol), vocabulary_(vocabulary), room_(room) {}

  /// What the next line is, for messages, and how many bytes it may have.
  [[nodiscard]] std::string field() const;
  [[nodiscard]] std::size_t line_max() const noexcept;
  /// A request when this line ends it. Errors name the field, its value and the limit; nothing may be read
  /// after one.
  [[nodiscard]] engine::result<std::optional<pipe_request>> take(std::string_view line);
  /// No line of the next request was taken.
  [[nodiscard]] bool between() const noexcept { return at_ == 0; }

 private:
  [[nodiscard]] engine::result<void> take_line(std::string_view line);
  [[nodiscard]] engine::result<void> take_pair(std::string_view line);
  [[nodiscard]] engine::result<void> take_id(std::string_view line);
  [[nodiscard]] engine::result<void> check_block() const;

  pipe_protocol protocol_;
  std::uint32_t vocabulary_;
  std::uint32_t room_;
  pipe_request request_;
  std::uint64_t at_ = 0;     ///< lines of the request that were taken
  std::uint64_t lines_ = 0;  ///< that it has, known from its first line on
  std::vector<std::string> keys_;
};

/// The lines that a block has at most, and the bytes of one of its lines.
inline constexpr std::uint64_t block_lines_max = 256;
inline constexpr std::size_t block_line_max = std::size_t{16} << 20U;
/// The bytes of a line with one number: Python writes integers of up to 4,300 digits.
inline constexpr std::size_t number_line_max = 4'400;

/// A line of a block, cut at its first '='.
struct key_and_value {
  std::string_view key;
  std::string_view value;
};
[[nodiscard]] engine::result<key_and_value> read_pair(std::string_view line);

}  // namespace orcd::app
