// The location of a model as users write it: a path, a file: URI, or a shared-memory object (WORK-3030).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::engine {

struct model_location {
  enum class kind { path, shared_memory };
  kind where = kind::path;
  std::string name;  ///< the path, or the object's name with its leading '/'
};

/// Accepts `PATH`, `file:/PATH`, `file:///PATH`, `file://localhost/PATH` (percent-decoded, RFC 8089) and
/// `shm:/NAME`. Anything else with `scheme://` is refused.
[[nodiscard]] result<model_location> parse_location(std::string_view text);

/// The parts of "<prefix>-00001-of-00003.gguf".
struct split_name {
  std::string prefix;
  std::uint32_t index = 0;  ///< from 1
  std::uint32_t count = 0;
};

/// Nullopt when the name does not have that form.
[[nodiscard]] std::optional<split_name> parse_split_name(std::string_view path);

/// The path of part `index` (from 1) beside its siblings.
[[nodiscard]] std::string split_path(const split_name& name, std::uint32_t index);

}  // namespace orcd::engine
