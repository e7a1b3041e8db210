#include "app/process/narration_format.hpp"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/string_view.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "app/console/one_line.hpp"
#include "engine/text/utf8.hpp"
#include "engine/text/utf8_buffer.hpp"

namespace orcd::app {
namespace {

using engine::severity;

/// What JSON lets through of control characters, as \u009b.
std::string without_controls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [code, size] = engine::utf8::decode(text.data(), text.data() + text.size());
    if (is_control(code)) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(code));
      out += escape.data();
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out;
}

/// Text as a JSON string with its quotes; any bytes in, valid UTF-8 out.
std::string in_quotes(std::string_view text) {
  return without_controls(boost::json::serialize(boost::json::string_view(engine::valid_utf8(text))));
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// Three decimals are plenty for a person; trailing zeros go.
std::string short_number(double value) {
  std::array<char, 64> text{};
  if (!(std::abs(value) < 1e15)) return number(value);
  std::snprintf(text.data(), text.size(), "%.3f", value);
  std::string out(text.data());
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

struct json_value {
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(std::uint64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return number(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return in_quotes(v); }
};

/// Without the quotes where the text needs none.
std::string plain(std::string_view text) {
  auto safe = in_quotes(text);
  const bool simple = safe.size() == text.size() + 2 && safe.compare(1, text.size(), text) == 0;
  return simple && !text.empty() && text.find(' ') == std::string_view::npos ? std::string(text) : safe;
}

struct console_value {
  std::string operator()(double v) const { return short_number(v); }
  std::string operator()(const std::string& v) const { return plain(v); }
  template <class T>
  std::string operator()(const T& v) const {
    return json_value{}(v);
  }
};

std::tm broken_down(std::chrono::system_clock::time_point at, int& milliseconds) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms >= 0 ? ms / 1000 : -((-ms + 999) / 1000));
  milliseconds = static_cast<int>(ms - static_cast<long long>(seconds) * 1000);
  std::tm out{};
  gmtime_r(&seconds, &out);
  return out;
}

std::string timestamp(std::chrono::system_clock::time_point at, const char* format, const char* suffix) {
  int milliseconds = 0;
  const auto tm = broken_down(at, milliseconds);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), format, &tm);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03d", milliseconds);
  return std::string(text.data()) + fraction.data() + suffix;
}

bool has_field(const narration_record& record, std::string_view key) {
  return std::any_of(record.fields.begin(), record.fields.end(),
                     [&](const auto& f) { return f.first == key; });
}

bool is_envelope(std::string_view key) {
  return key == "ts" || key == "level" || key == "event" || key == "message";
}

const char* colour_of(severity level) {
  switch (level) {
    case severity::debug: return "\x1b[2m";
    case severity::info: return "\x1b[32m";
    case severity::warning: return "\x1b[33m";
    case severity::error:
    case severity::critical: return "\x1b[31m";
  }
  return "";
}

}  // namespace

std::string format_json(const narration_record& record, const narration_context& context) {
  std::string out = "{\"ts\":\"" + timestamp(record.at, "%Y-%m-%dT%H:%M:%S", "Z") + "\",\"level\":\"";
  out += to_string(record.level);
  out += "\",\"event\":" + in_quotes(record.event);
  if (!has_field(record, "worker_id")) out += ",\"worker_id\":" + in_quotes(context.worker_id);
  if (!has_field(record, "model_ref")) out += ",\"model_ref\":" + in_quotes(context.model_ref);
  if (!has_field(record, "gpu_device")) out += ",\"gpu_device\":" + std::to_string(context.gpu_device);
  for (auto field = record.fields.begin(); field != record.fields.end(); ++field) {
    const bool written =
        std::any_of(record.fields.begin(), field, [&](const auto& f) { return f.first == field->first; });
    if (written || is_envelope(field->first)) continue;
    out += "," + in_quotes(field->first) + ":" + std::visit(json_value{}, field->second);
  }
  out += ",\"message\":" + in_quotes(record.human) + "}\n";
  return out;
}

std::string format_console(const narration_record& record, bool colour) {
  std::string level(to_string(record.level));
  std::transform(level.begin(), level.end(), level.begin(), [](char c) { return static_cast<char>(c - 32); });
  level.resize(std::max<std::size_t>(level.size(), 8), ' ');
  std::string out = timestamp(record.at, "%H:%M:%S", "") + " ";
  out += colour ? colour_of(record.level) + level + "\x1b[0m" : level;
  out += " " + plain(record.event) + "  " + one_line(record.human);
  const char* gap = "  ";
  for (const auto& [key, value] : record.fields) {
    out += gap + plain(key) + "=" + std::visit(console_value{}, value);
    gap = " ";
  }
  return out + "\n";
}

int syslog_priority(severity level) noexcept {
  switch (level) {
    case severity::debug: return 7;
    case severity::info: return 6;
    case severity::warning: return 4;
    case severity::error: return 3;
    case severity::critical: return 2;
  }
  return 6;
}

std::string_view to_string(severity level) noexcept {
  switch (level) {
    case severity::debug: return "debug";
    case severity::info: return "info";
    case severity::warning: return "warning";
    case severity::error: return "error";
    case severity::critical: return "critical";
  }
  return "info";
}

}  // namespace orcd::app
