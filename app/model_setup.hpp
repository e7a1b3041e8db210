// Opens and checks the model that the worker serves, before any weight is loaded: file, tokenizer,
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
#include "gpu/plan/device_choice.hpp"

namespace orcd::app {

/// Why the worker cannot start; with both byte counts where memory is the reason (M0-W-1111).
struct start_failure {
  engine::error why;
  std::optional<std::uint64_t> required_bytes;
  std::optional<std::uint64_t> available_bytes;
};

/// The chat template that --chat-template names, or else the model's own; nullopt where there is neither.
[[nodiscard]] engine::result<std::optional<engine::chat_format>> read_chat_format(
    const options& opts, const engine::gguf_file& file);

[[nodiscard]] engine::result<engine::served_model> open_model(const options& opts);
/// The same without a tokenizer, for tokens that end at `ends`.
[[nodiscard]] engine::result<engine::served_model> open_token_model(const options& opts,
                                                                    std::vector<engine::token_id> ends);
/// Pages of the KV cache that jobs leave to the engine that takes over; 0 where the cache is this engine's
/// own.
[[nodiscard]] std::uint32_t spared_pages(const options& opts) noexcept;

/// Hooks for the wait for a GPU at the beginning of load(); called on the thread of load().
struct gpu_wait_hooks {
  std::function<bool()> cancelled = [] { return false; };  ///< true ends the wait
  std::function<void(const gpu::wait_notice&)> waiting{};
};

/// The accelerator that --backend names; nothing is loaded yet. The host backend, which computes from the
/// mapped file, calls `check_weights` after each step. Errors: worker_start_failed.
[[nodiscard]] engine::result<std::unique_ptr<engine::accelerator>> make_accelerator(
    const options& opts, gpu_wait_hooks hooks = {}, std::function<engine::result<void>()> check_weights = {});

/// The device that the engine will use, as the holder's socket is named after it: a GPU's UUID, which it
/// waits for as the accelerator does, or net::host_device. An index would not do: CUDA's and nvidia-smi's
/// differ. Errors: worker_start_failed.
[[nodiscard]] engine::result<std::string> find_device(const options& opts, gpu_wait_hooks hooks);

/// For the host backend; the CUDA backend checks its own plan against the GPU. Refuses a plan that exceeds
/// --kv-cache-size-mb or the machine's memory, with both numbers.
[[nodiscard]] std::optional<start_failure> check_plan(const engine::memory_plan& plan, const options& opts,
                                                      std::uint64_t physical_bytes);
[[nodiscard]] std::uint64_t physical_memory_bytes() noexcept;

/// "Qwen2.5-0.5B-Q4_K_M" for "file:///models/Qwen2.5-0.5B-Q4_K_M-00001-of-00002.gguf".
[[nodiscard]] std::string model_file_of(const std::string& location);

/// What answers, log and callback call the model: the first --model-name that is not *, else its file's name
/// in lower case.
[[nodiscard]] std::string model_name_of(const options& opts);

/// What requests to /execute may ask for, and what all others.
[[nodiscard]] net::request_limits execute_limits(const options& opts, std::uint32_t context_tokens);
[[nodiscard]] net::request_limits model_limits(const options& opts, std::uint32_t context_tokens);

/// How long a request's body may be: long enough for a prompt that fills the context, also of a script whose
/// letters are escaped in JSON.
[[nodiscard]] std::uint64_t body_bytes_max(const options& opts, std::uint32_t context_tokens) noexcept;

/// --public-uri, or http://HOST:PORT; a wildcard address is replaced by `hostname`.
[[nodiscard]] std::string public_uri(const options& opts, std::uint16_t port, const std::string& hostname);

[[nodiscard]] engine::worker_identity make_identity(const options& opts, const engine::served_model& model);

}  // namespace orcd::app
