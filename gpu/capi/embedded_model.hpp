// A loaded model for a program that embeds it: the worker without sockets, options and log. Computes on a GPU
// thread of its own; every function may be called from any thread, close() once and last. Source: M0-W-1052,
// M0-W-1410.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/served/served_model.hpp"
#include "gpu/capi/inference.hpp"
#include "gpu/owned_engine.hpp"

namespace orcd::gpu {

struct inference_request {
  std::string_view prompt;  ///< UTF-8, rendered
  int max_tokens = 0;
  float temperature = 0;
  std::uint64_t seed = 0;
};

class embedded_model {
 public:
  /// Opens the file and loads it with `device`. The context is the model's own, at most `context_max`.
  [[nodiscard]] static engine::result<std::shared_ptr<embedded_model>> load(
      const std::string& location, std::unique_ptr<engine::accelerator> device, std::uint32_t context_max);
  ~embedded_model() = default;
  embedded_model(const embedded_model&) = delete;
  embedded_model& operator=(const embedded_model&) = delete;

  /// Ends what is running and frees the device's memory, on the thread that allocated it.
  void close() noexcept { engine_.close(); }

  /// One at a time: fails until the previous one was given to end(). Errors: invalid_request and
  /// context_length_exceeded, with limit and value.
  [[nodiscard]] engine::result<std::shared_ptr<inference>> start(const inference_request& request);
  /// Call once for each that was started: cancels it unless it has ended.
  void end(const inference& ended);

  /// One sentence for each allocation that is not in VRAM, between two steps.
  [[nodiscard]] std::vector<std::string> audit();
  [[nodiscard]] std::uint64_t vram_bytes() const noexcept { return vram_bytes_; }

 private:
  embedded_model(engine::served_model model, std::unique_ptr<engine::accelerator> device,
                 engine::scheduler_config schedule);
  [[nodiscard]] engine::result<engine::job_request> prepare(const inference_request& request) const;

  owned_engine engine_;
  std::uint64_t vram_bytes_ = 0;
  std::mutex starting_;
  bool running_ = false;
  std::uint64_t started_ = 0;
};

}  // namespace orcd::gpu
