#include "net/jobs/reading_plan.hpp"

namespace orcd::net {

namespace {

/// A ranking tokenizes its query once for each document, so that its cost does not follow from its size.
bool ranks(endpoint target) noexcept {
  return target == endpoint::rerank || target == endpoint::score;
}

/// Whether a printable character of ASCII is written as \u00XX, as JSON allows and hardly any client does.
bool escapes_ascii(std::string_view body) noexcept {
  constexpr std::string_view escape = "\\u00";
  for (auto at = body.find(escape); at != std::string_view::npos; at = body.find(escape, at + 1)) {
    const std::size_t digit = at + escape.size();
    if (digit < body.size() && body[digit] >= '2' && body[digit] <= '7') return true;
  }
  return false;
}

}  // namespace

bool is_read_at_once(endpoint target, std::size_t body_bytes) noexcept {
  if (ranks(target)) return false;
  // Rendering is all that it does, and it may take long.
  if (target == endpoint::apply_template) return false;
  return body_bytes <= read_at_once_bytes_max;
}

task_length reading_length(endpoint target, std::size_t body_bytes) noexcept {
  const auto most = ranks(target) ? ranked_briefly_bytes_max : read_briefly_bytes_max;
  return body_bytes <= most ? task_length::brief : task_length::lengthy;
}

bool may_have_media(std::string_view body) noexcept {
  const auto has = [&](std::string_view text) { return body.find(text) != std::string_view::npos; };
  return has("base64") || has("input_audio") || escapes_ascii(body);
}

}  // namespace orcd::net
