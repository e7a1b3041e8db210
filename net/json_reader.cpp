#include "net/json_reader.hpp"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>

namespace orcd::net {
namespace {

using boost::json::error_code;
using boost::json::string_view;
using engine::errc;
using engine::error;
using engine::result;

/// The event handler that boost::json::basic_parser drives. It keeps the first error of the sink.
struct handler {
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);

  handler(field_sink& s, std::size_t body_bytes) : sink(s), bytes_max(body_bytes) {}

  field_sink& sink;
  std::size_t bytes_max;  ///< no string is longer than the body
  std::string text;
  bool in_object = false;
  bool in_array = false;
  error failure;

  bool fail(error e, error_code& ec) {
    failure = std::move(e);
    ec = boost::json::make_error_code(boost::json::error::syntax);
    refused = true;
    return false;
  }
  bool refused = false;

  bool take(const result<void>& done, error_code& ec) { return done.has_value() || fail(done.error(), ec); }

  bool not_an_object(error_code& ec) {
    return fail(error(errc::invalid_request, "the body must be one JSON object"), ec);
  }
  bool nested(std::string_view what, error_code& ec) {
    std::string name(sink.field());
    return fail(error(errc::invalid_request, "'" + name + "' may not hold " + std::string(what), name), ec);
  }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code& ec) {
    if (in_object) return nested("an object", ec);
    in_object = true;
    return true;
  }
  bool on_object_end(std::size_t, error_code&) { return true; }

  bool on_array_begin(error_code& ec) {
    if (!in_object) return not_an_object(ec);
    if (in_array) return nested("an array within an array", ec);
    in_array = true;
    return take(sink.on_array(), ec);
  }
  bool on_array_end(std::size_t, error_code&) {
    in_array = false;
    return true;
  }

  bool on_key_part(string_view s, std::size_t, error_code&) {
    text.append(s.data(), s.size());
    return true;
  }
  bool on_key(string_view s, std::size_t, error_code& ec) {
    text.append(s.data(), s.size());
    const auto done = sink.on_field(text);
    text.clear();
    return take(done, ec);
  }

  bool on_string_part(string_view s, std::size_t, error_code& ec) {
    if (!in_object) return not_an_object(ec);
    // A string in parts is one with escapes, most likely the prompt: room for it is made once.
    text.reserve(bytes_max);
    text.append(s.data(), s.size());
    return true;
  }
  bool on_string(string_view s, std::size_t, error_code& ec) {
    if (!in_object) return not_an_object(ec);
    text.append(s.data(), s.size());
    const auto done = in_array ? sink.on_element(std::move(text)) : sink.on_string(std::move(text));
    text = std::string();
    return take(done, ec);
  }

  bool scalar(const json_scalar& value, error_code& ec) {
    if (!in_object) return not_an_object(ec);
    if (in_array) return nested(std::string(kind_name(value)) + " within an array", ec);
    return take(sink.on_scalar(value), ec);
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t i, string_view, error_code& ec) { return scalar(json_scalar(i), ec); }
  bool on_uint64(std::uint64_t u, string_view, error_code& ec) { return scalar(json_scalar(u), ec); }
  bool on_double(double d, string_view, error_code& ec) { return scalar(json_scalar(d), ec); }
  bool on_bool(bool b, error_code& ec) { return scalar(json_scalar(b), ec); }
  bool on_null(error_code& ec) { return scalar(json_scalar(nullptr), ec); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }
};

}  // namespace

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

error unknown_field(std::string_view name) {
  const std::string shown = shown_name(name);
  return {errc::invalid_request, "unknown field '" + shown + "'", shown};
}

result<void> read_json_object(std::string_view body, field_sink& sink) {
  boost::json::parse_options strict;
  strict.max_depth = 8;
  boost::json::basic_parser<handler> parser(strict, sink, body.size());
  error_code ec;
  const std::size_t used = parser.write_some(false, body.data(), body.size(), ec);
  if (!ec && used < body.size()) ec = boost::json::make_error_code(boost::json::error::extra_data);
  if (!ec) return {};
  if (parser.handler().refused) return std::move(parser.handler().failure);
  return error(errc::invalid_request, "the body is not valid JSON at byte " + std::to_string(used) + " of " +
                                          std::to_string(body.size()) + ": " + ec.message());
}

}  // namespace orcd::net
