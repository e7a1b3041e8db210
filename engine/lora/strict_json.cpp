#include "engine/lora/strict_json.hpp"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_error.hpp"

namespace orcd::engine {
namespace {

namespace json = boost::json;
using json::error_code;
using json::string_view;

constexpr std::size_t deepest = 8;
/// Of one object. Names that a sender has chosen to collide make a table of them slow.
constexpr std::size_t most_names = 4096;

/// Driven by json::basic_parser: looks for names only. The tree itself keeps the last of two members.
struct repeated_names {
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_object_size = max_array_size;
  static constexpr std::size_t max_string_size = max_array_size;
  static constexpr std::size_t max_key_size = max_array_size;

  std::vector<std::vector<std::string>> open;
  std::string name;
  std::optional<std::string> first;
  bool too_many = false;

  static bool on_document_begin(error_code&) { return true; }
  static bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) {
    open.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, error_code&) {
    auto& names = open.back();
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (!first && twice != names.end()) first = *twice;
    open.pop_back();
    return true;
  }
  static bool on_array_begin(error_code&) { return true; }
  static bool on_array_end(std::size_t, error_code&) { return true; }
  bool on_key_part(string_view s, std::size_t, error_code&) {
    name.append(s.data(), s.size());
    return true;
  }
  bool on_key(string_view s, std::size_t, error_code& ec) {
    name.append(s.data(), s.size());
    open.back().push_back(std::exchange(name, {}));
    too_many = open.back().size() > most_names;
    if (too_many) ec = json::make_error_code(json::error::object_too_large);
    return !too_many;
  }
  static bool on_string_part(string_view, std::size_t, error_code&) { return true; }
  static bool on_string(string_view, std::size_t, error_code&) { return true; }
  static bool on_number_part(string_view, error_code&) { return true; }
  static bool on_int64(std::int64_t, string_view, error_code&) { return true; }
  static bool on_uint64(std::uint64_t, string_view, error_code&) { return true; }
  static bool on_double(double, string_view, error_code&) { return true; }
  static bool on_bool(bool, error_code&) { return true; }
  static bool on_null(error_code&) { return true; }
  static bool on_comment_part(string_view, error_code&) { return true; }
  static bool on_comment(string_view, error_code&) { return true; }
};

}  // namespace

result<json::object> read_strict_json(std::string_view text, std::string_view file) {
  json::parse_options options;
  options.max_depth = deepest;
  json::basic_parser<repeated_names> names(options);
  error_code ec;
  const std::size_t used = names.write_some(false, text.data(), text.size(), ec);
  if (!ec && used < text.size()) ec = json::make_error_code(json::error::extra_data);
  if (names.handler().too_many) {
    return adapter_error(file,
                         "has an object of more than " + std::to_string(most_names) + " names, the limit");
  }
  if (ec) {
    return adapter_error(file, "is not valid JSON of at most " + std::to_string(deepest) +
                                   " levels at byte " + std::to_string(used) + " of " +
                                   std::to_string(text.size()) + ": " + ec.message());
  }
  if (const auto& repeated = names.handler().first) {
    return adapter_error(file, "the name " + in_quotes(*repeated) + " occurs twice in one object");
  }
  json::value tree = json::parse({text.data(), text.size()}, ec, {}, options);
  if (ec) return adapter_error(file, "is not valid JSON: " + ec.message());
  if (!tree.is_object()) return adapter_error(file, "must be one JSON object");
  return std::move(tree.get_object());
}

}  // namespace orcd::engine
