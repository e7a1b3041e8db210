#include "net/json/json_value.hpp"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>

#include "net/json/json_keys.hpp"

namespace orcd::net {
namespace {

using boost::json::error_code;
using boost::json::string_view;
using engine::errc;
using engine::error;
using engine::result;

/// The event handler that boost::json::basic_parser drives: builds the tree, and remembers the keys of the
/// objects that are open.
struct tree_handler {
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_object_size = json_members_max;
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();

  boost::json::value_stack stack;
  open_keys keys;
  std::string key;
  std::string field;  ///< the member of the body that is being read

  bool on_document_begin(error_code&) {
    stack.reset();
    return true;
  }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) {
    keys.open();
    return true;
  }
  bool on_object_end(std::size_t n, error_code& ec) {
    if (!keys.close()) {
      ec = boost::json::make_error_code(boost::json::error::syntax);
      return false;
    }
    stack.push_object(n);
    return true;
  }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t n, error_code&) {
    stack.push_array(n);
    return true;
  }
  bool on_key_part(string_view s, std::size_t, error_code&) {
    key.append(s.data(), s.size());
    return true;
  }
  bool on_key(string_view s, std::size_t, error_code&) {
    key.append(s.data(), s.size());
    stack.push_key(key);
    keys.add(key);
    if (keys.depth() == 1) field = shown_name(key);
    key.clear();
    return true;
  }
  bool on_string_part(string_view s, std::size_t, error_code&) {
    stack.push_chars(s);
    return true;
  }
  bool on_string(string_view s, std::size_t, error_code&) {
    stack.push_string(s);
    return true;
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t i, string_view, error_code&) {
    stack.push_int64(i);
    return true;
  }
  bool on_uint64(std::uint64_t u, string_view, error_code&) {
    stack.push_uint64(u);
    return true;
  }
  /// The parser's own reading of more than sixteen digits can be the neighbour of what is written.
  bool on_double(double read, string_view text, error_code&) {
    double exact = read;
    const char* const end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, exact);
    stack.push_double(stop == end && failed == std::errc() ? exact : read);
    return true;
  }
  bool on_bool(bool b, error_code&) {
    stack.push_bool(b);
    return true;
  }
  bool on_null(error_code&) {
    stack.push_null();
    return true;
  }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }
};

}  // namespace

result<boost::json::object> read_json_tree(std::string_view body) {
  // RFC 8259 8.1: a byte-order mark may be left out instead of being an error.
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  const std::size_t skipped = body.starts_with(mark) ? mark.size() : 0;
  body.remove_prefix(skipped);
  boost::json::parse_options strict;
  strict.max_depth = json_depth_max;
  boost::json::basic_parser<tree_handler> parser(strict);
  error_code ec;
  const std::size_t used = parser.write_some(false, body.data(), body.size(), ec);
  if (!ec && used < body.size()) ec = boost::json::make_error_code(boost::json::error::extra_data);
  auto& handler = parser.handler();
  if (ec) {
    // If a key was repeated before the JSON went wrong, the error names that key.
    if (const auto repeated = handler.keys.first_repeated()) {
      const std::string name = shown_name(*repeated);
      return error(errc::invalid_request, "'" + name + "' is given twice", name);
    }
  }
  if (ec == boost::json::error::object_too_large) {
    const std::string what = "an object may have " + std::to_string(json_members_max) + " members";
    if (handler.keys.depth() == 1) return error(errc::invalid_request, what + ", the body has more");
    return error(errc::invalid_request, what + ", one in '" + handler.field + "' has more", handler.field);
  }
  if (ec) {
    return error(errc::invalid_request, "the body is not valid JSON at byte " +
                                            std::to_string(skipped + used) + " of " +
                                            std::to_string(skipped + body.size()) + ": " + ec.message());
  }
  auto tree = handler.stack.release();
  if (!tree.is_object()) return error(errc::invalid_request, "the body must be one JSON object");
  return std::move(tree.get_object());
}

std::optional<json_scalar> scalar_of(const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::null: return json_scalar(nullptr);
    case boost::json::kind::bool_: return json_scalar(value.get_bool());
    case boost::json::kind::int64: return json_scalar(value.get_int64());
    case boost::json::kind::uint64: return json_scalar(value.get_uint64());
    case boost::json::kind::double_: return json_scalar(value.get_double());
    default: return std::nullopt;
  }
}

std::string_view kind_name(const boost::json::value& value) noexcept {
  switch (value.kind()) {
    case boost::json::kind::string: return "a string";
    case boost::json::kind::array: return "an array";
    case boost::json::kind::object: return "an object";
    case boost::json::kind::bool_: return "a boolean";
    case boost::json::kind::null: return "null";
    default: return "a number";
  }
}

std::string_view kind_name(const json_scalar& value) noexcept {
  switch (value.index()) {
    case 0: return "null";
    case 1: return "a boolean";
    default: return "a number";
  }
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t shown_bytes = 64;
  std::size_t end = std::min(name.size(), shown_bytes);
  while (end < name.size() && end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  std::string shown(name.substr(0, end));
  if (end < name.size()) shown += "...";
  return shown;
}

}  // namespace orcd::net
