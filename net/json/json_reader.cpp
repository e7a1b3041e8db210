#include "net/json/json_reader.hpp"

#include <boost/json/array.hpp>

#include "net/json/read_body.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

error nested(const field_sink& sink, const std::string& what) {
  const std::string name(sink.field());
  return {errc::invalid_request, "'" + name + "' may not hold " + what, name};
}

std::string text_of(const boost::json::string& text) {
  return {text.data(), text.size()};
}

result<void> take_array(const boost::json::array& elements, field_sink& sink) {
  if (const auto taken = sink.on_array(); !taken) return taken;
  for (const auto& element : elements) {
    if (!element.is_string()) return nested(sink, std::string(kind_name(element)) + " within an array");
    if (const auto taken = sink.on_element(text_of(element.get_string())); !taken) return taken;
  }
  return {};
}

result<void> take_value(const boost::json::value& value, field_sink& sink) {
  if (sink.takes_any()) return sink.on_value(value);
  if (value.is_string()) return sink.on_string(text_of(value.get_string()));
  if (value.is_array()) return take_array(value.get_array(), sink);
  if (value.is_object()) return nested(sink, "an object");
  return sink.on_scalar(*scalar_of(value));
}

}  // namespace

result<void> read_json_object(std::string_view body, field_sink& sink) {
  return read_body(body, [&sink](std::string_view name, const boost::json::value& value) {
    auto known = sink.on_field(name);
    return known ? take_value(value, sink) : known;
  });
}

}  // namespace orcd::net
