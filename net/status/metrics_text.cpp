#include "net/status/metrics_text.hpp"

#include <array>
#include <charconv>

namespace orcd::net {
namespace {

/// The shortest decimal that reads back as the same number: "0.005", "17", "1e+22".
std::string number(double value) {
  std::array<char, 40> text;
  const auto done = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), done.ptr};
}

/// Label values escape backslash, quote and line feed.
void append_label_value(std::string& out, std::string_view value) {
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
}

}  // namespace

metrics_text& metrics_text::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  out_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
  out_.append(name).append(" ").append(type).append("\n");
  return *this;
}

void metrics_text::line(std::string_view suffix, std::initializer_list<label> labels, double value) {
  out_.append(name_).append(suffix);
  char separator = '{';
  for (const auto& [key, text] : labels) {
    out_ += separator;
    out_.append(key).append("=\"");
    append_label_value(out_, text);
    out_ += '"';
    separator = ',';
  }
  if (labels.size() > 0) out_ += '}';
  out_.append(" ").append(number(value)).append("\n");
}

metrics_text& metrics_text::sample(double value, std::initializer_list<label> labels) {
  line({}, labels, value);
  return *this;
}

metrics_text& metrics_text::distribution(std::string_view name, std::string_view help, const histogram& h,
                                         double scale) {
  family(name, "histogram", help);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < h.bounds().size(); ++i) {
    below += h.counts()[i];
    const std::string bound = number(h.bounds()[i] * scale);
    line("_bucket", {{"le", bound}}, static_cast<double>(below));
  }
  line("_bucket", {{"le", "+Inf"}}, static_cast<double>(h.count()));
  line("_sum", {}, h.sum() * scale);
  line("_count", {}, static_cast<double>(h.count()));
  return *this;
}

}  // namespace orcd::net
