// Opens what the worker serves, and owns it: device, model, chat template, and what clients are told that it
// is. Everything that can fail before a weight is read fails here. The main thread, which takes no signal
// while it opens things; it looks for one between them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/identity/answer_parts.hpp"
#include "app/media/decoder_process.hpp"
#include "app/model/model_setup.hpp"
#include "app/options/options.hpp"
#include "engine/base/narration.hpp"
#include "engine/conversation/chat_format.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/served/media_input.hpp"
#include "engine/served/served_model.hpp"
#include "engine/worker_state.hpp"
#include "net/http/current_keys.hpp"
#include "net/journal/answer_identity.hpp"

namespace orcd::app {

class start_up {
 public:
  struct hooks {
    std::function<bool()> stop_asked;  ///< a signal has come
    gpu_wait_hooks wait;               ///< for a GPU, when weights are loaded
  };

  start_up(const options& opts, engine::narrator& narrator, hooks asked);

  // In this order; each is a failure of the start.
  /// The system port, which asks for them, is there before the model is.
  [[nodiscard]] std::optional<start_failure> read_first_keys(net::current_keys& keys);
  /// Device and model.
  [[nodiscard]] std::optional<start_failure> open();
  /// What clients are told, and how chats are written. After the room for adapters is planned. `engine`: the
  /// number of one of several.
  [[nodiscard]] std::optional<start_failure> describe(std::optional<std::uint32_t> engine);
  /// `adapters`: what of them decides an answer.
  void identify(const std::string& adapters);

  /// What other engines compare, without the weights' digest, which comes later; and what pages of a shared
  /// KV cache hold the same by.
  [[nodiscard]] net::answer_identity answers() const;
  [[nodiscard]] std::string cache() const;
  /// Without what is called when something fails.
  [[nodiscard]] engine::scheduler_config schedule() const;
  [[nodiscard]] net::server_config serving(net::current_keys keys) const;

  /// Of parts that this object owns, and of those given; the caller adds what is not opened here.
  [[nodiscard]] net::server_context context(engine::job_service& jobs, engine::admission& admission,
                                            engine::worker_state& state) const;
  /// The model is on the device, after `load_ms`: published, and said. No session reads the identity yet.
  void note_loaded(const engine::memory_plan& plan, double load_ms, engine::worker_state& state);

  [[nodiscard]] bool stop_asked() const { return asked_.stop_asked(); }
  [[nodiscard]] engine::served_model& model() noexcept { return *model_; }
  [[nodiscard]] const engine::chat_format* chat() const noexcept { return chat_ ? &*chat_ : nullptr; }
  [[nodiscard]] engine::accelerator& device() noexcept { return *device_; }
  /// Read on the io thread only, where sessions are.
  [[nodiscard]] engine::worker_identity& identity() noexcept { return identity_; }
  /// Families of /metrics; empty without a projector. Any thread.
  [[nodiscard]] std::string media_metrics(const engine::media_state& media) const;
  /// Frees the device's memory; on the thread that allocated it.
  void end_device() noexcept { device_.reset(); }

 private:
  [[nodiscard]] engine::result<void> read_chat();
  [[nodiscard]] engine::result<void> take_media();
  void narrate_projector(std::uint64_t bytes);
  [[nodiscard]] answer_facts facts() const;

  const options& opts_;
  engine::narrator& narrator_;
  const hooks asked_;
  engine::worker_identity identity_;
  std::optional<engine::served_model> model_;
  std::optional<engine::chat_format> chat_;
  std::unique_ptr<engine::accelerator> device_;
  std::optional<decoder_process> decoder_;  ///< with a projector
  std::optional<engine::media_input> media_;
  std::string header_;  ///< header_digest() of the model's file
  text_digests texts_;
};

}  // namespace orcd::app
