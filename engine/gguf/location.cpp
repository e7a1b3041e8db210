#include "engine/gguf/location.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "engine/gguf/byte_cursor.hpp"

namespace orcd::engine {
namespace {

constexpr std::size_t longest_path = 4096;   // PATH_MAX
constexpr std::size_t longest_object = 255;  // NAME_MAX, the '/' included

error bad_location(std::string_view text, std::string_view why) {
  return {errc::model_load_failed, "model location " + in_quotes(text) + ": " + std::string(why), "model"};
}

result<std::string> percent_decode(std::string_view text, std::string_view whole) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '?' || text[i] == '#') {
      return bad_location(whole, "a file: URI has no query or fragment; write ? as %3F and # as %23");
    }
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || code != std::errc{} || end != digits.data() + 2) {
      return bad_location(whole, "'%' must be followed by two hexadecimal digits");
    }
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

result<model_location> checked(model_location location, std::string_view text, std::size_t limit) {
  if (location.name.find('\0') != std::string::npos) return bad_location(text, "contains a NUL byte");
  if (location.name.size() > limit) {
    return bad_location(text, "is " + std::to_string(location.name.size()) + " bytes long; the limit is " +
                                  std::to_string(limit));
  }
  return location;
}

result<model_location> parse_file_uri(std::string_view rest, std::string_view text) {
  if (rest.starts_with("//")) {
    rest.remove_prefix(2);
    if (rest.starts_with("localhost/")) rest.remove_prefix(9);
    if (!rest.starts_with('/')) return bad_location(text, "a file: URI may name no host but localhost");
  }
  if (!rest.starts_with('/')) return bad_location(text, "a file: URI needs an absolute path");
  auto path = percent_decode(rest, text);
  if (!path) return path.error();
  return checked({model_location::kind::path, std::move(*path)}, text, longest_path);
}

std::optional<std::uint32_t> five_digits(std::string_view text) {
  std::uint32_t value = 0;
  if (text.size() != 5 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

result<model_location> parse_location(std::string_view text) {
  if (text.empty()) return bad_location(text, "is empty");
  if (text.starts_with("file:")) return parse_file_uri(text.substr(5), text);
  if (text.starts_with("shm:")) {
    const std::string_view name = text.substr(4);
    if (name.size() < 2 || name.front() != '/' || name.find('/', 1) != std::string_view::npos) {
      return bad_location(text, "a shared-memory object is written shm:/name, with one slash");
    }
    return checked({model_location::kind::shared_memory, std::string(name)}, text, longest_object);
  }
  const auto scheme = text.substr(0, text.find("://"));
  if (scheme.size() < text.size() && scheme.find('/') == std::string_view::npos) {
    return bad_location(text, "models are loaded from a path, file:/path or shm:/name only");
  }
  return checked({model_location::kind::path, std::string(text)}, text, longest_path);
}

std::optional<split_name> parse_split_name(std::string_view path) {
  constexpr std::string_view ending = ".gguf";
  constexpr std::size_t tail = 20;  // "-00001-of-00003.gguf"
  if (path.size() <= tail || !path.ends_with(ending)) return std::nullopt;
  const std::string_view part = path.substr(path.size() - tail);
  const auto index = five_digits(part.substr(1, 5));
  const auto count = five_digits(part.substr(10, 5));
  if (part[0] != '-' || part.substr(6, 4) != "-of-" || !index || !count) return std::nullopt;
  return split_name{std::string(path.substr(0, path.size() - tail)), *index, *count};
}

std::string split_path(const split_name& name, std::uint32_t index) {
  std::array<char, 32> tail{};
  std::snprintf(tail.data(), tail.size(), "-%05u-of-%05u.gguf", index, name.count);
  return name.prefix + tail.data();
}

}  // namespace orcd::engine
