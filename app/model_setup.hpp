// The model a worker serves, opened and checked, before any weight is loaded: file, tokenizer,
// hyperparameters, memory plan, accelerator. Runs on the main thread at start-up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/options.hpp"
#include "engine/accelerator.hpp"
#include "engine/chat_format.hpp"
#include "engine/served_model.hpp"
#include "engine/worker_state.hpp"
#include "gpu/device_choice.hpp"

namespace orcd::app {

/// Why the worker cannot start; the byte counts where memory is the reason (M0-W-1111).
struct start_failure {
  engine::error why;
  std::optional<std::uint64_t> required_bytes;
  std::optional<std::uint64_t> available_bytes;
};

/// The chat template that --chat-template names, or else the model's own; nothing where neither is.
[[nodiscard]] engine::result<std::optional<engine::chat_format>> read_chat_format(
    const options& opts, const engine::gguf_file& file);

[[nodiscard]] engine::result<engine::served_model> open_model(const options& opts);

/// What the wait for a GPU, with which load() begins, asks and tells, on the thread of load().
struct gpu_wait_hooks {
  std::function<bool()> cancelled = [] { return false; };  ///< true ends the wait
  std::function<void(const gpu::wait_notice&)> waiting{};
};

/// The accelerator that --backend names, nothing loaded. Errors: worker_start_failed.
[[nodiscard]] engine::result<std::unique_ptr<engine::accelerator>> make_accelerator(
    const options& opts, gpu_wait_hooks hooks = {});

/// For the host backend; the other checks its own plan against the GPU. Refuses a plan over
/// --kv-cache-size-mb, or over the memory of the machine, with both numbers.
[[nodiscard]] std::optional<start_failure> check_plan(const engine::memory_plan& plan, const options& opts,
                                                      std::uint64_t physical_bytes);
[[nodiscard]] std::uint64_t physical_memory_bytes() noexcept;

/// "qwen2.5-0.5b-q4_k_m" for "file:///models/Qwen2.5-0.5B-Q4_K_M-00001-of-00002.gguf".
[[nodiscard]] std::string model_name_of(const std::string& location);

/// --public-uri, or http://HOST:PORT; a wildcard address is replaced by `hostname`.
[[nodiscard]] std::string public_uri(const options& opts, std::uint16_t port, const std::string& hostname);

[[nodiscard]] engine::worker_identity make_identity(const options& opts, const engine::served_model& model);

}  // namespace orcd::app
