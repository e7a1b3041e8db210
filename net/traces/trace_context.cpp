#include "net/traces/trace_context.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "net/json/text.hpp"

namespace orcd::net {
namespace {

constexpr std::size_t trace_digits = 32;
constexpr std::size_t span_digits = 16;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

/// The header's fields, one after the other.
class field_reader {
 public:
  explicit field_reader(std::string_view text) : rest_(text) {}

  /// So many digits; nothing where there are others, or fewer.
  std::string_view digits(std::size_t count) {
    const auto field = rest_.substr(0, count);
    rest_.remove_prefix(field.size());
    return field.size() == count && is_hex(field) ? field : std::string_view();
  }
  bool dash() {
    const bool there = rest_.starts_with('-');
    if (there) rest_.remove_prefix(1);
    return there;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool is_id(std::string_view digits) {
  return digits.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::optional<trace_parent> parse_traceparent(std::string_view text) {
  field_reader fields(text);
  const auto version = fields.digits(2);
  if (version.empty() || version == "ff" || !fields.dash()) return std::nullopt;
  const auto trace = fields.digits(trace_digits);
  if (!is_id(trace) || !fields.dash()) return std::nullopt;
  const auto span = fields.digits(span_digits);
  if (!is_id(span) || !fields.dash()) return std::nullopt;
  const auto flags = fields.digits(2);
  if (flags.empty()) return std::nullopt;
  // Later versions may have more fields behind a dash.
  if (!fields.at_end() && (version == "00" || !fields.dash())) return std::nullopt;
  constexpr std::string_view odd = "13579bdf";
  return trace_parent{std::string(trace), std::string(span), odd.find(flags[1]) != std::string_view::npos};
}

bool is_tracestate(std::string_view text) {
  if (text.empty() || text.size() > tracestate_bytes_max) return false;
  for (;;) {
    const auto end = std::min(text.find(','), text.size());
    const auto member = trimmed(text.substr(0, end));
    if (!std::all_of(member.begin(), member.end(), [](char c) { return c >= ' ' && c <= '~'; })) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

std::optional<double> parse_ratio(std::string_view text) {
  double value = 0;
  const auto* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const bool is_number = parsed.ec == std::errc{} && parsed.ptr == end;
  if (!is_number || !(value >= 0.0 && value <= 1.0)) return std::nullopt;
  return value;
}

std::optional<trace_sampler> parse_sampler(std::string_view name, std::string_view argument) {
  constexpr std::string_view parent_based = "parentbased_";
  if (name.empty()) return trace_sampler{};
  trace_sampler out;
  out.follows_parent = name.starts_with(parent_based);
  if (out.follows_parent) name.remove_prefix(parent_based.size());
  if (name == "always_on") return out;
  if (name == "traceidratio") {
    const auto ratio = argument.empty() ? std::optional<double>(1.0) : parse_ratio(argument);
    if (!ratio) return std::nullopt;
    out.ratio = *ratio;
    return out;
  }
  if (name != "always_off") return std::nullopt;
  out.ratio = 0.0;
  return out;
}

bool is_sampled(const trace_sampler& sampler, std::string_view trace_id,
                const std::optional<trace_parent>& parent) {
  if (sampler.follows_parent && parent) return parent->sampled;
  constexpr double all = 72'057'594'037'927'936.0;  // 2^56
  constexpr std::size_t random_digits = 14;
  std::uint64_t random = 0;
  const auto digits = trace_id.substr(trace_id.size() - std::min(trace_id.size(), random_digits));
  std::from_chars(digits.data(), digits.data() + digits.size(), random, 16);
  return random >= static_cast<std::uint64_t>(std::round((1.0 - sampler.ratio) * all));
}

}  // namespace orcd::net
