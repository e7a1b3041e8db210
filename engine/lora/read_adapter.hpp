// Reads a LoRA adapter for a model, whatever kind of adapter lies at a path:
//   a GGUF adapter file;
//   a directory as PEFT writes it: adapter_config.json and adapter_model.safetensors;
//   a TRLA file: a header of 256 bytes, then a GGUF adapter.
// What would change the arithmetic and is not supported is refused by name, never ignored. Everything is
// copied: the files may go away afterwards. Safe from any thread; the model must stay as long as a call.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/lora/adapter_limits.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::engine {

/// How the files of an adapter that somebody else has named are read.
struct adapter_access {
  std::string name{};  ///< stands for the path in messages; empty: the path itself
  /// Asked of each file once it is open and before anything of it is looked at, so that it does not matter
  /// what its name leads to later; an error ends the reading. Unset: every file may be read.
  std::function<result<void>(int descriptor)> allowed{};
  std::stop_token stop{};  ///< ends the reading with `cancelled`
};

/// Errors are one line, "PATH: ...", with what is wrong, the value and the limit: not_found when nothing is
/// at the path, else model_load_failed. Values that are not finite are refused. Takes time in proportion to
/// the file, and memory for all of its values in f32, for the largest half of a pair twice.
[[nodiscard]] result<lora_adapter> read_adapter(const std::string& path, const model& base,
                                                const adapter_limits& limits = {},
                                                const adapter_access& access = {});

/// A GGUF adapter or a TRLA file in memory. `name` stands for the path.
[[nodiscard]] result<lora_adapter> read_adapter_image(std::span<const std::byte> image, std::string_view name,
                                                      const model& base, const adapter_limits& limits = {});

/// The two files of a PEFT directory in memory. `name` stands for the directory.
[[nodiscard]] result<lora_adapter> read_peft_adapter(std::string_view config,
                                                     std::span<const std::byte> weights,
                                                     std::string_view name, const model& base,
                                                     const adapter_limits& limits = {},
                                                     std::stop_token stop = {});

}  // namespace orcd::engine
