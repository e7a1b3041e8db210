// The fields of an /execute body, one by one, as the JSON reader meets them. Private to net/.
#pragma once

#include "net/execute/execute_request.hpp"
#include "net/json/field_checks.hpp"
#include "net/json/json_reader.hpp"
#include "net/limits.hpp"

namespace orcd::net {

/// One member per field name; the order is that of the names in execute_fields.cpp.
enum class execute_field : std::uint8_t {
  job_id,
  prompt,
  max_tokens,
  temperature,
  seed,
  top_k,
  top_p,
  min_p,
  repetition_penalty,
  presence_penalty,
  frequency_penalty,
  repeat_last_n,
  stop,
  parse_special,
  ignore_eos,
  metrics,
  timeout_ms,
  cache_prompt,
  cache_salt,
  imc_id,
  lora,
  count
};

class execute_fields final : public field_sink {
 public:
  explicit execute_fields(const request_limits& limits) : limits_(limits) {
    request_.sampling = limits.sampling;
    request_.seed = limits.seed;
  }

  [[nodiscard]] engine::result<void> on_field(std::string_view name) override;
  [[nodiscard]] engine::result<void> on_string(std::string&& value) override;
  [[nodiscard]] engine::result<void> on_scalar(const json_scalar& value) override;
  [[nodiscard]] engine::result<void> on_array() override;
  [[nodiscard]] engine::result<void> on_element(std::string&& value) override;
  [[nodiscard]] bool takes_any() const noexcept override { return current_ == execute_field::lora; }
  [[nodiscard]] engine::result<void> on_value(const boost::json::value& value) override;
  [[nodiscard]] std::string_view field() const noexcept override;

  /// The request, once the whole body was read; refuses missing fields.
  [[nodiscard]] engine::result<execute_request> finish() &&;

 private:
  [[nodiscard]] engine::error refuse(const std::string& what) const;
  [[nodiscard]] engine::result<void> real(const json_scalar& value, const real_range& range,
                                          float& out) const;
  [[nodiscard]] engine::result<void> flag(const json_scalar& value, bool& out) const;
  [[nodiscard]] engine::result<void> take_integer(const json_scalar& value);
  [[nodiscard]] engine::result<void> take_prompt(std::string&& value);
  [[nodiscard]] engine::result<void> take_name(std::string&& value, std::string& out) const;
  [[nodiscard]] engine::result<void> take_stop(std::string&& value);

  const request_limits& limits_;
  execute_request request_;
  execute_field current_ = execute_field::count;
  std::uint32_t seen_ = 0;
  bool has_job_id_ = false;
  bool has_prompt_ = false;
};

/// A job_id of /execute or /cancel: not empty, bounded, no control characters.
[[nodiscard]] engine::result<void> check_job_id(std::string_view job_id);

}  // namespace orcd::net
