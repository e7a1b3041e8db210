#include "net/execute/execute_fields.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "net/json/field_checks.hpp"

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
    "imc_id",
    "lora"};
static_assert(names.size() <= 32, "the fields seen are bits of one word");

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

error execute_fields::refuse(const std::string& what) const {
  return refuse_field(field(), what);
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
  if (auto fits = check_length(field(), value, limits_.prompt_chars_max); !fits) return fits;
  request_.prompt = std::move(value);
  has_prompt_ = true;
  return {};
}

result<void> execute_fields::take_name(std::string&& value, std::string& out) const {
  if (auto fits = check_cache_name(field(), value); !fits) return fits;
  out = std::move(value);
  return {};
}

result<void> execute_fields::take_stop(std::string&& value) {
  return add_stop(field(), std::move(value), stop_strings_max, request_.stop);
}

result<void> execute_fields::on_array() {
  if (current_ == execute_field::stop) return {};
  return refuse("must not be an array");
}

result<void> execute_fields::on_element(std::string&& value) {
  return take_stop(std::move(value));
}

result<void> execute_fields::on_value(const boost::json::value& value) {
  if (value.is_null()) return {};
  auto scales = read_adapter_scales(field(), value);
  if (!scales) return scales.error();
  request_.lora = std::move(*scales);
  return {};
}

result<void> execute_fields::real(const json_scalar& value, const real_range& range, float& out) const {
  const auto number = check_real(field(), value, range);
  if (!number) return number.error();
  out = *number;
  return {};
}

result<void> execute_fields::flag(const json_scalar& value, bool& out) const {
  const auto truth = check_flag(field(), value);
  if (!truth) return truth.error();
  out = *truth;
  return {};
}

result<void> execute_fields::take_integer(const json_scalar& value) {
  std::uint64_t low = 0;
  std::uint64_t high = top_k_max;
  if (current_ == execute_field::max_tokens) low = 1, high = limits_.tokens_out_max;
  if (current_ == execute_field::repeat_last_n) high = repeat_last_n_max;
  if (current_ == execute_field::seed) high = std::numeric_limits<std::uint64_t>::max();
  if (current_ == execute_field::timeout_ms) {
    low = 1;
    high = limits_.timeout_ms_max();
  }
  const auto checked = check_integer(field(), value, low, high);
  if (!checked) return checked.error();
  const std::uint64_t number = *checked;
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
    case execute_field::temperature: return real(value, temperature_range, sampling.temperature);
    case execute_field::top_p: return real(value, top_p_range, sampling.top_p);
    case execute_field::min_p: return real(value, min_p_range, sampling.min_p);
    case execute_field::repetition_penalty:
      return real(value, repetition_penalty_range, sampling.repetition_penalty);
    case execute_field::presence_penalty: return real(value, penalty_range, sampling.presence_penalty);
    case execute_field::frequency_penalty: return real(value, penalty_range, sampling.frequency_penalty);
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
