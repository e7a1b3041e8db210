#include "net/execute_fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "net/json_text.hpp"
#include "net/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::array<std::string_view, static_cast<std::size_t>(execute_field::count)> names = {
    "job_id",
    "prompt",
    "max_tokens",
    "temperature",
    "seed",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "repeat_last_n",
    "stop",
    "parse_special",
    "ignore_eos",
    "metrics",
    "timeout_ms",
    "cache_prompt",
    "cache_salt",
    "imc_id"};
static_assert(names.size() <= 32, "the fields seen are bits of one word");

/// The values a real field may have.
struct real_range {
  double low;
  double high;
  bool above_low;  ///< the low end itself is not allowed
};

real_range range_of(execute_field field) {
  switch (field) {
    case execute_field::top_p: return {0.0, 1.0, true};
    case execute_field::min_p: return {0.0, 1.0, false};
    case execute_field::repetition_penalty: return {0.0, 2.0, true};
    case execute_field::presence_penalty:
    case execute_field::frequency_penalty: return {-2.0, 2.0, false};
    default: return {0.0, 2.0, false};  // temperature
  }
}

std::string shown(const json_scalar& value) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&value)) return std::to_string(*u);
  if (const auto* d = std::get_if<double>(&value)) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.9g", *d);
    const std::string number = text.data();
    // 1.0 is no integer, and must not be shown as one in the message that says so.
    return number.find_first_not_of("-0123456789") == std::string::npos ? number + ".0" : number;
  }
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  return "null";
}

std::string shown(double value) {
  std::string text;
  append_decimal(text, value);
  return text;
}

}  // namespace

result<void> check_job_id(std::string_view job_id) {
  const auto refuse = [](std::string what) {
    return error(errc::invalid_request, "'job_id' " + what, "job_id");
  };
  if (job_id.empty()) return refuse("must not be empty");
  if (job_id.size() > job_id_bytes_max) {
    return refuse("may have " + std::to_string(job_id_bytes_max) + " bytes, it has " +
                  std::to_string(job_id.size()));
  }
  const bool control = std::any_of(job_id.begin(), job_id.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (control) return refuse("must not hold control characters");
  return {};
}

std::string_view execute_fields::field() const noexcept {
  return current_ == execute_field::count ? std::string_view("body")
                                          : names[static_cast<std::size_t>(current_)];
}

error execute_fields::refuse(std::string what) const {
  std::string name(field());
  return error(errc::invalid_request, "'" + name + "' " + what, name);
}

result<void> execute_fields::on_field(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return unknown_field(name);
  const auto index = static_cast<std::uint32_t>(found - names.begin());
  current_ = static_cast<execute_field>(index);
  if ((seen_ >> index & 1U) != 0) return refuse("is given twice");
  seen_ |= 1U << index;
  return {};
}

result<void> execute_fields::on_string(std::string&& value) {
  switch (current_) {
    case execute_field::job_id:
      if (const auto ok = check_job_id(value); !ok) return ok;
      request_.job_id = std::move(value);
      has_job_id_ = true;
      return {};
    case execute_field::prompt: return take_prompt(std::move(value));
    case execute_field::stop: return take_stop(std::move(value));
    case execute_field::cache_salt: return take_name(std::move(value), request_.cache.salt);
    case execute_field::imc_id: return take_name(std::move(value), request_.cache.session);
    default: return refuse("must not be a string");
  }
}

result<void> execute_fields::take_prompt(std::string&& value) {
  if (value.empty()) return refuse("must not be empty");
  // Bytes are never fewer than code points: most prompts need no count.
  if (value.size() > limits_.prompt_chars_max) {
    const auto count = code_points(value);
    if (count > limits_.prompt_chars_max) {
      return refuse("may have " + std::to_string(limits_.prompt_chars_max) + " characters, it has " +
                    std::to_string(count));
    }
  }
  request_.prompt = std::move(value);
  has_prompt_ = true;
  return {};
}

result<void> execute_fields::take_name(std::string&& value, std::string& out) const {
  if (value.empty() || value.size() > cache_name_bytes_max) {
    return refuse("must have 1 to " + std::to_string(cache_name_bytes_max) + " bytes, it has " +
                  std::to_string(value.size()));
  }
  out = std::move(value);
  return {};
}

result<void> execute_fields::take_stop(std::string&& value) {
  if (request_.stop.size() == stop_strings_max) {
    return refuse("may have " + std::to_string(stop_strings_max) + " strings, it has more");
  }
  if (value.empty()) return refuse("must not hold an empty string");
  if (value.size() > stop_bytes_max) {
    return refuse("strings may have " + std::to_string(stop_bytes_max) + " bytes, one has " +
                  std::to_string(value.size()));
  }
  request_.stop.push_back(std::move(value));
  return {};
}

result<void> execute_fields::on_array() {
  if (current_ == execute_field::stop) return {};
  return refuse("must not be an array");
}

result<void> execute_fields::on_element(std::string&& value) {
  return take_stop(std::move(value));
}

result<void> execute_fields::integer(const json_scalar& value, std::uint64_t low, std::uint64_t high,
                                     std::uint64_t& out) const {
  const std::string must = "must be an integer from " + std::to_string(low) + " to " + std::to_string(high) +
                           ", it is " + shown(value);
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    if (*i < 0) return refuse(must);
    out = static_cast<std::uint64_t>(*i);
  } else if (const auto* u = std::get_if<std::uint64_t>(&value)) {
    out = *u;
  } else {
    return refuse(must);
  }
  if (out < low || out > high) return refuse(must);
  return {};
}

result<void> execute_fields::real(const json_scalar& value, float& out) const {
  const real_range range = range_of(current_);
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* d = std::get_if<double>(&value)) number = *d;
  if (const auto* i = std::get_if<std::int64_t>(&value)) number = static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&value)) number = static_cast<double>(*u);
  out = static_cast<float>(std::isfinite(number) && std::abs(number) < 1e9 ? number : -1e9);
  // The float is what counts: 1e-60 would pass as a double above 0 and then be 0.
  const bool low_ok = range.above_low ? out > range.low : number >= range.low;
  if (low_ok && number <= range.high) return {};
  return refuse("must be a number " + std::string(range.above_low ? "above " : "from ") + shown(range.low) +
                " to " + shown(range.high) + ", it is " + shown(value));
}

result<void> execute_fields::flag(const json_scalar& value, bool& out) const {
  if (const auto* b = std::get_if<bool>(&value)) {
    out = *b;
    return {};
  }
  return refuse("must be true or false, it is " + std::string(kind_name(value)));
}

result<void> execute_fields::take_integer(const json_scalar& value) {
  constexpr auto unbounded = std::uint64_t{std::numeric_limits<std::int64_t>::max()} / 1'000'000;
  std::uint64_t low = 0;
  std::uint64_t high = top_k_max;
  if (current_ == execute_field::max_tokens) low = 1, high = limits_.tokens_out_max;
  if (current_ == execute_field::repeat_last_n) high = repeat_last_n_max;
  if (current_ == execute_field::seed) high = std::numeric_limits<std::uint64_t>::max();
  if (current_ == execute_field::timeout_ms) {
    low = 1;
    const auto longest = limits_.inference_timeout.count();
    high = longest > 0 ? static_cast<std::uint64_t>(longest) : unbounded;
  }
  std::uint64_t number = 0;
  if (const auto ok = integer(value, low, high, number); !ok) return ok;
  switch (current_) {
    case execute_field::max_tokens: request_.max_tokens = static_cast<std::uint32_t>(number); break;
    case execute_field::repeat_last_n:
      request_.sampling.repeat_last_n = static_cast<std::uint32_t>(number);
      break;
    case execute_field::seed: request_.seed = number; break;
    case execute_field::timeout_ms: request_.timeout = std::chrono::milliseconds(number); break;
    default: request_.sampling.top_k = static_cast<std::uint32_t>(number); break;
  }
  return {};
}

result<void> execute_fields::on_scalar(const json_scalar& value) {
  engine::sampling_params& sampling = request_.sampling;
  const bool required = current_ == execute_field::job_id || current_ == execute_field::prompt;
  if (std::holds_alternative<std::nullptr_t>(value) && !required) return {};
  switch (current_) {
    case execute_field::temperature: return real(value, sampling.temperature);
    case execute_field::top_p: return real(value, sampling.top_p);
    case execute_field::min_p: return real(value, sampling.min_p);
    case execute_field::repetition_penalty: return real(value, sampling.repetition_penalty);
    case execute_field::presence_penalty: return real(value, sampling.presence_penalty);
    case execute_field::frequency_penalty: return real(value, sampling.frequency_penalty);
    case execute_field::parse_special: return flag(value, request_.parse_special);
    case execute_field::ignore_eos: return flag(value, request_.ignore_eos);
    case execute_field::metrics: return flag(value, request_.metrics);
    case execute_field::cache_prompt: return flag(value, request_.cache.enabled);
    case execute_field::max_tokens:
    case execute_field::top_k:
    case execute_field::seed:
    case execute_field::repeat_last_n:
    case execute_field::timeout_ms: return take_integer(value);
    default: return refuse("must be a string, it is " + std::string(kind_name(value)));
  }
}

result<execute_request> execute_fields::finish() && {
  if (!has_job_id_) return error(errc::invalid_request, "'job_id' is missing", "job_id");
  if (!has_prompt_) return error(errc::invalid_request, "'prompt' is missing", "prompt");
  return std::move(request_);
}

}  // namespace orcd::net
