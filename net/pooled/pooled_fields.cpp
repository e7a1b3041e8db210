#include "net/pooled/pooled_fields.hpp"

#include <limits>

#include "net/json/object_members.hpp"
#include "net/models/model_names.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

}  // namespace

result<std::string> read_pooled_text(std::string_view field, const json::value& value,
                                     const pooled_limits& limits) {
  const auto text = as_text(field, value);
  if (!text) return text.error();
  if (text->empty()) return refuse_field(field, "must not be an empty string");
  if (const auto fits = check_length(field, *text, limits.lengths.prompt_chars_max); !fits)
    return fits.error();
  return std::string(*text);
}

result<void> check_pooled_count(std::string_view field, std::size_t count) {
  if (count == 0) return refuse_field(field, "must not be empty");
  if (count <= pooled_inputs_max) return {};
  return refuse_field(
      field, "may have " + std::to_string(pooled_inputs_max) + " entries, it has " + std::to_string(count));
}

result<bool> pooled_fields::take(std::string_view field, const json::value& value) {
  if (field == "model") {
    const auto name = as_text(field, value);
    if (!name) return name.error();
    if (const auto known = check_model_name(limits_.served, *name); !known) return known.error();
    return true;
  }
  if (field == "user") {
    if (const auto text = as_text(field, value); !text) return text.error();
    return true;
  }
  if (field != "timeout_ms") return take_cut(field, value);
  const auto number = as_integer(field, value, 1, limits_.lengths.timeout_ms_max());
  if (!number) return number.error();
  timeout_ = std::chrono::milliseconds(*number);
  return true;
}

result<bool> pooled_fields::take_cut(std::string_view field, const json::value& value) {
  result<void> taken;
  if (field == "truncate_prompt_tokens") {
    const json::value whole = without_fraction(value);
    if (whole == json::value(-1)) {
      tokens_ = -1;
      return true;
    }
    const auto number = as_integer(field, whole, 1, std::numeric_limits<std::uint32_t>::max());
    if (!number) return number.error();
    tokens_ = static_cast<std::int64_t>(*number);
    return true;
  }
  if (field == "truncation_side" || field == "truncation_direction") {
    taken = take_side(field, value);
  } else if (field == "truncate" || field == "truncation") {
    taken = take_truncate(field, value);
  } else {
    return false;
  }
  if (!taken) return taken.error();
  return true;
}

/// The side from which tokens are taken away: `left` keeps the last ones.
result<void> pooled_fields::take_side(std::string_view field, const json::value& value) {
  const bool left = value == json::value("left") || value == json::value("Left");
  if (!left && value != json::value("right") && value != json::value("Right")) {
    return refuse_field(field, "must be 'left' or 'right'");
  }
  if (keeps_last_.value_or(left) != left) return refuse_field(field, "contradicts another field");
  keeps_last_ = left;
  return {};
}

result<void> pooled_fields::take_truncate(std::string_view field, const json::value& value) {
  std::optional<bool> wanted;
  if (value.is_bool()) wanted = value.get_bool();
  if (value == json::value("NONE")) wanted = false;
  if (value == json::value("END") || value == json::value("START")) {
    wanted = true;
    keeps_last_ = value == json::value("START");
  }
  if (!wanted) return refuse_field(field, "must be true, false, 'NONE', 'START' or 'END'");
  if (whole_context_.value_or(*wanted) != *wanted) return refuse_field(field, "contradicts another field");
  whole_context_ = wanted;
  return {};
}

result<input_cut> pooled_fields::cut() const {
  input_cut out;
  out.keeps_last = keeps_last_.value_or(false);
  out.tokens = tokens_;
  if (!tokens_ && whole_context_.value_or(false)) out.tokens = -1;
  if (tokens_ && whole_context_ == false) {
    return refuse_field("truncate_prompt_tokens", "contradicts 'truncate': false");
  }
  return out;
}

}  // namespace orcd::net
