// The LoRA adapters that requests may ask for, and what a request says of them. Pure; any thread may read a
// list, which never changes. Source: llama-server's `lora` and /lora-adapters, vLLM's adapters as models.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::net {

/// Of an adapter. io thread only, unlike the list that has it.
struct adapter_traffic {
  std::uint32_t users = 0;     ///< requests that run with it
  std::uint64_t requests = 0;  ///< that ever did
};

struct served_adapter {
  std::uint32_t id = 0;     ///< in requests; no two adapters of a process ever have the same
  std::string name;         ///< as a request's `model`
  std::string path;         ///< of its file or directory the name alone: where it lies is nobody's business
  std::string digest;       ///< lora_adapter::digest
  float strength = 1.0F;    ///< for requests whose `model` is its name
  float scale = 1.0F;       ///< for requests that say nothing of adapters
  std::uint32_t index = 0;  ///< where the accelerator has it
  std::uint32_t rank = 0;
  std::uint64_t pairs = 0;
  std::uint64_t bytes = 0;   ///< of its values
  std::int64_t created = 0;  ///< seconds since 1970 at which it was loaded
  std::shared_ptr<adapter_traffic> traffic = std::make_shared<adapter_traffic>();
};

using adapter_list = std::vector<served_adapter>;
using shared_adapters = std::shared_ptr<const adapter_list>;

/// What is known of an adapter by its values and where it came from.
[[nodiscard]] served_adapter describe_adapter(std::string name, std::string_view path,
                                              const engine::lora_adapter& values);

/// Null where there is none. Names are compared byte by byte.
[[nodiscard]] const served_adapter* find_adapter(const shared_adapters& list, std::string_view name);

/// An adapter's name: 1 to 256 bytes of UTF-8 without control characters, '=' and ','.
[[nodiscard]] bool is_adapter_name(std::string_view name) noexcept;

/// The strengths that a request or an option may ask for.
inline constexpr float adapter_scale_max = 100.0F;

struct adapter_scale {
  std::uint32_t id = 0;
  float scale = 0.0F;
};

/// [{"id": N, "scale": X}]. Errors: invalid_request that names `field`, or what is wrong within it.
[[nodiscard]] engine::result<std::vector<adapter_scale>> read_adapter_scales(std::string_view field,
                                                                             const boost::json::value& value);

/// Refuses ids that are not in the list. Errors: invalid_request that names `field`.
[[nodiscard]] engine::result<void> check_adapter_ids(std::string_view field,
                                                     std::span<const adapter_scale> scales,
                                                     const adapter_list& list);

/// Refuses more adapters for one request than its sequences can have. Error: invalid_request that names
/// `field`.
[[nodiscard]] engine::result<void> check_applied(std::string_view field, std::size_t applied);

/// What one request says of adapters.
struct adapter_choice {
  const served_adapter* named = nullptr;             ///< its `model`; of the list given to adapters_of()
  std::optional<std::vector<adapter_scale>> scales;  ///< its `lora`: what it leaves out is 0
};

/// The adapters of the request's jobs: the one that is named alone, those of `lora`, or what the list says.
/// Errors: invalid_request with param "lora". What the list says is never too much.
[[nodiscard]] engine::result<std::vector<engine::job_adapter>> adapters_of(const adapter_choice& choice,
                                                                           const shared_adapters& list);

/// The shortest number that is read as this one.
[[nodiscard]] std::string shown_scale(float scale);

/// [{"id", "name", "path", "scale"}]; what is read back of a scale is the scale.
[[nodiscard]] std::string adapters_json(const adapter_list& list);

/// A line for each, of all that decides answers: name, digest, strength, scale. Empty without adapters.
[[nodiscard]] std::string adapters_identity(const adapter_list& list);

}  // namespace orcd::net
