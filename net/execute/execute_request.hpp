// A validated request to /execute. Source: M0-W-1300, 1302.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampling/sampling.hpp"
#include "engine/schedule/job.hpp"
#include "net/models/adapter_list.hpp"

namespace orcd::net {

struct execute_request {
  std::string job_id;
  std::string prompt;  ///< valid UTF-8
  std::optional<std::uint32_t> max_tokens;
  engine::sampling_params sampling;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  bool parse_special = true;  ///< text of control tokens in the prompt is recognised
  bool ignore_eos = false;
  bool metrics = false;  ///< one `metrics` event before `end`
  std::optional<std::chrono::milliseconds> timeout;
  engine::cache_request cache;  ///< cache_prompt, cache_salt, imc_id
  std::optional<std::vector<adapter_scale>> lora{};
};

}  // namespace orcd::net
