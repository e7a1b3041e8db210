#include "engine/conversation/argument_text.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>

namespace orcd::engine {
namespace {

namespace json = boost::json;

void append_real(std::string& out, double real) {
  // Python's repr(): an exponent below 1e-4 and from 1e16 on.
  const double size = std::fabs(real);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 32> buffer{};
  const auto form = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), real, form);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  out += text;
  if (plain && text.find('.') == std::string_view::npos) out += ".0";
}

class text_writer {
 public:
  text_writer(std::string& out, json_spacing spacing)
      : out_(out), space_(spacing == json_spacing::usual ? " " : "") {}

  // A tree of a request has a bounded depth.
  void write(const json::value& value) {  // NOLINT(misc-no-recursion)
    if (const auto* object = value.if_object()) {
      char before = '{';
      for (const auto& member : *object) {
        begin(before, '{');
        out_ += json::serialize(json::string(member.key()));
        out_ += ':';
        out_ += space_;
        write(member.value());
        before = ',';
      }
      out_ += object->empty() ? "{}" : "}";
    } else if (const auto* array = value.if_array()) {
      char before = '[';
      for (const json::value& item : *array) {
        begin(before, '[');
        write(item);
        before = ',';
      }
      out_ += array->empty() ? "[]" : "]";
    } else if (const auto* real = value.if_double()) {
      append_real(out_, *real);
    } else {
      out_ += json::serialize(value);
    }
  }

 private:
  void begin(char before, char first) {
    out_ += before;
    if (before != first) out_ += space_;
  }

  std::string& out_;
  std::string_view space_;
};

/// Calls visit(c, in_string) for each byte.
template <class Visit>
void for_bytes(std::string_view text, Visit visit) {
  bool in_string = false;
  bool escaped = false;
  for (const char c : text) {
    visit(c, in_string);
    if (!escaped && c == '"') in_string = !in_string;
    escaped = in_string && !escaped && c == '\\';
  }
}

}  // namespace

std::string argument_text(const json::value& arguments, json_spacing spacing) {
  std::string out;
  text_writer(out, spacing).write(arguments);
  return out;
}

std::string with_usual_spacing(std::string_view text) {
  bool spaced = false;
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for_bytes(text, [&](char c, bool in_string) {
    spaced = spaced || (!in_string && (c == ' ' || c == '\n' || c == '\t' || c == '\r'));
    out += c;
    if (!in_string && (c == ',' || c == ':')) out += ' ';
  });
  return spaced ? std::string(text) : out;
}

}  // namespace orcd::engine
