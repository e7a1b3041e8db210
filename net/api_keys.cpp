#include "net/api_keys.hpp"

#include <algorithm>

#include "engine/sha256.hpp"
#include "net/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

std::string digest_of(std::string_view key) {
  engine::sha256 hash;
  hash.update(key);
  return hash.finish();
}

/// Looks at every character, so that the time tells nothing.
bool same(std::string_view a, std::string_view b) noexcept {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

result<api_keys> api_keys::parse(std::string_view text) {
  api_keys out;
  std::size_t number = 0;
  const auto refuse = [&number](const std::string& what) {
    return error(errc::invalid_request, "line " + std::to_string(number) + " of the API key file " + what,
                 "api-key-file");
  };
  while (!text.empty()) {
    ++number;
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    if (line.size() > bytes_max)
      return refuse("has a key of more than " + std::to_string(bytes_max) + " bytes");
    if (!is_printable(line)) return refuse("has a key with a character that is not printable ASCII");
    if (out.digests_.size() == count_max)
      return refuse("is one key too many, " + std::to_string(count_max) + " fit");
    out.digests_.push_back(digest_of(line));
  }
  if (out.digests_.empty())
    return error(errc::invalid_request, "the API key file has no key", "api-key-file");
  return out;
}

bool api_keys::accepts(std::string_view authorization) const {
  if (digests_.empty()) return true;
  constexpr std::string_view scheme = "bearer ";
  if (!same_ignoring_case(authorization.substr(0, scheme.size()), scheme)) return false;
  const std::string shown = digest_of(trimmed(authorization.substr(scheme.size())));
  bool found = false;
  for (const auto& digest : digests_) found = same(digest, shown) || found;
  return found;
}

}  // namespace orcd::net
