// What clients ask and engines answer in the test of kills: every byte of an answer follows from the whole
// request, so that a byte that is lost, doubled or changed in either direction is seen. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orcd::kills {

struct question {
  std::uint64_t id = 0;
  std::uint32_t tokens = 0;  ///< of the answer, at least one
  bool close = false;        ///< the connection ends with the answer
  std::string body{};
};

/// An engine's view of a request: where it ends, and what its answer is made from.
struct asked {
  std::uint64_t id = 0;
  std::uint32_t tokens = 0;
  bool close = false;
  std::uint64_t digest = 0;  ///< of head and body
  std::size_t bytes = 0;     ///< of the request
};

[[nodiscard]] std::string encode(const question& what);
/// Nothing while it is not whole. A request that is none has 0 tokens.
[[nodiscard]] std::optional<asked> decode(std::string_view input);
/// Of a whole request's bytes.
[[nodiscard]] std::uint64_t digest_of(std::string_view request) noexcept;
/// The text of one token: mostly some bytes, at times more than a block of the journal.
[[nodiscard]] std::string token_text(std::uint64_t digest, std::uint32_t index);
/// What stands for it in the journal.
[[nodiscard]] std::int32_t token_id(std::uint64_t digest, std::uint32_t index) noexcept;

}  // namespace orcd::kills
