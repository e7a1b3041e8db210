#include "test/kills/exchange.hpp"

#include <charconv>

namespace orcd::kills {

namespace {

constexpr std::size_t head_bytes_max = 100;

std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// Takes the number in front of a space or the end; false where there is none.
template <class Number>
bool take(std::string_view& from, Number& out) {
  const auto [end, failed] = std::from_chars(from.data(), from.data() + from.size(), out);
  if (failed != std::errc{}) return false;
  from.remove_prefix(static_cast<std::size_t>(end - from.data()));
  if (!from.empty()) from.remove_prefix(1);
  return true;
}

}  // namespace

std::string encode(const question& what) {
  return "ask " + std::to_string(what.id) + ' ' + std::to_string(what.tokens) + ' ' +
         std::to_string(what.body.size()) + (what.close ? " 1\n" : " 0\n") + what.body;
}

std::optional<asked> decode(std::string_view input) {
  const auto end = input.find('\n');
  if (end == std::string_view::npos) {
    return input.size() > head_bytes_max ? std::optional<asked>(asked{}) : std::nullopt;
  }
  std::string_view head = input.substr(0, end);
  asked out;
  std::size_t body = 0;
  unsigned close = 0;
  if (!head.starts_with("ask ")) return asked{};
  head.remove_prefix(4);
  if (!take(head, out.id) || !take(head, out.tokens) || !take(head, body) || !take(head, close)) {
    return asked{};
  }
  if (body > (1U << 20U)) return asked{};
  out.bytes = end + 1 + body;
  if (input.size() < out.bytes) return std::nullopt;
  out.close = close != 0;
  out.digest = digest_of(input.substr(0, out.bytes));
  return out;
}

std::uint64_t digest_of(std::string_view request) noexcept {
  std::uint64_t out = 0xCBF29CE484222325U;
  for (const char c : request) out = (out ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return mix(out);
}

std::string token_text(std::uint64_t digest, std::uint32_t index) {
  const std::uint64_t kind = mix(digest + index);
  const std::size_t bytes = kind % 50 == 0 ? 20'000 + kind % 30'011 : 1 + kind % 601;
  std::string out(bytes, ' ');
  std::uint64_t state = kind;
  for (std::size_t at = 0; at < bytes; ++at) {
    if (at % 8 == 0) state = mix(state);
    out[at] = static_cast<char>('!' + ((state >> (at % 8 * 8)) & 0x3FU));
  }
  return out;
}

std::int32_t token_id(std::uint64_t digest, std::uint32_t index) noexcept {
  return static_cast<std::int32_t>(mix(digest ^ (std::uint64_t{index} << 32U)) & 0x7FFF'FFFFU);
}

}  // namespace orcd::kills
