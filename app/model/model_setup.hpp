// Opens and checks the model that the worker serves, before any weight is loaded: file, tokenizer,
// hyperparameters, memory plan, accelerator. Runs on the main thread at start-up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/options/options.hpp"
#include "engine/accelerator.hpp"
#include "engine/conversation/chat_format.hpp"
#include "engine/served/sampling_defaults.hpp"
#include "engine/served/served_model.hpp"
#include "engine/worker_state.hpp"
#include "gpu/plan/device_choice.hpp"

namespace orcd::app {

/// Why the worker cannot start; with both byte counts where memory is the reason (M0-W-1111).
struct start_failure {
  // NOLINTNEXTLINE(google-explicit-constructor): most failures are an error alone.
  start_failure(engine::error reason) : why(std::move(reason)) {}
  start_failure(engine::error reason, std::uint64_t required, std::uint64_t available)
      : why(std::move(reason)), required_bytes(required), available_bytes(available) {}

  engine::error why;
  std::optional<std::uint64_t> required_bytes;
  std::optional<std::uint64_t> available_bytes;
};

/// The chat template that --chat-template names, or else the model's own; else ChatML for a model that
/// generates, unless --no-default-template says otherwise, and nullopt for others.
[[nodiscard]] engine::result<std::optional<engine::chat_format>> read_chat_format(
    const options& opts, const engine::served_model& model);

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

[[nodiscard]] engine::worker_identity make_identity(const options& opts, const engine::served_model& model);

}  // namespace orcd::app
