// The one owner of what LoRA adapters there are: which are served, under which names and with which scales,
// and which are being loaded or dropped. io thread only, except that the hooks may answer from any thread.
//
//   load():   name and room are taken --> read() on a thread of its own --> put() --> in the list
//   unload(): out of the list --> drop(), again until no job uses it --> the room is free
//
// Readers get the list as it is: it is replaced, never changed.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/narration.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/worker_state.hpp"
#include "net/models/adapter_list.hpp"

namespace orcd::net {

struct adapter_config {
  std::uint32_t rooms = 0;    ///< adapters that the accelerator has room for
  bool may_load = false;      ///< clients may have adapters loaded and unloaded
  bool fixed_scales = false;  ///< what was given at the start stays: other engines must serve the same
};

using adapter_values = std::shared_ptr<const engine::lora_adapter>;

struct adapter_hooks {
  /// Called on a thread of the registry's own; `stop` when nobody waits for it any more. Errors: forbidden,
  /// not_found, or what is wrong with the file (model_load_failed).
  std::function<engine::result<adapter_values>(const std::string& path, const std::stop_token& stop)> read{};
  std::function<void(std::uint32_t index, adapter_values, std::function<void(engine::result<void>)> done)>
      put{};
  /// `done` gets whether no job uses it any more.
  std::function<void(std::uint32_t index, std::function<void(bool free)> done)> drop{};
};

/// Counts requests as users of adapters for as long as it exists.
class adapter_use {
 public:
  adapter_use() = default;
  explicit adapter_use(std::vector<std::shared_ptr<adapter_traffic>> counts);
  ~adapter_use();
  adapter_use(adapter_use&& other) noexcept = default;
  adapter_use& operator=(adapter_use&&) = delete;

 private:
  std::vector<std::shared_ptr<adapter_traffic>> counts_;
};

class adapter_registry {
 public:
  using answer = std::function<void(engine::result<void>)>;

  adapter_registry(const boost::asio::any_io_executor& executor, adapter_config config, adapter_hooks hooks,
                   const engine::worker_identity& served, engine::narrator& narrator);
  /// Has an adapter that is being read given up, and waits for that.
  ~adapter_registry();
  adapter_registry(const adapter_registry&) = delete;
  adapter_registry& operator=(const adapter_registry&) = delete;

  [[nodiscard]] const shared_adapters& list() const noexcept { return list_; }
  [[nodiscard]] std::uint32_t rooms() const noexcept { return config_.rooms; }

  /// Lists one of the start, which its caller puts at the index returned before anybody is served. Errors:
  /// invalid_request, of a name that the model or another adapter has.
  [[nodiscard]] engine::result<std::uint32_t> add(served_adapter one);
  /// Narrates that the adapter at the index is there.
  void tell_loaded(std::uint32_t index) const;

  /// Sets the scales of requests that say nothing of adapters; what is left out becomes 0. Errors:
  /// invalid_request with param "body", of an unknown adapter or of more than a request can have; forbidden.
  [[nodiscard]] engine::result<void> set_scales(std::span<const adapter_scale> scales);

  /// Errors: forbidden, invalid_request, not_found; conflict while another one is being loaded; that of a
  /// device which has failed.
  void load(std::string name, const std::string& path, answer done);
  /// Errors: forbidden, not_found; conflict while requests use it, or get it without asking.
  void unload(const std::string& name, answer done);

  /// The jobs are users of their adapters.
  [[nodiscard]] adapter_use use(std::span<const engine::job_adapter> adapters) const;
  /// Their names, with commas between.
  [[nodiscard]] std::string names_of(std::span<const engine::job_adapter> adapters) const;

 private:
  /// Through which other threads post to the io thread, as long as there is one.
  struct gate {
    std::mutex mutex;
    std::optional<boost::asio::any_io_executor> executor;
    void post(std::function<void()> task);
  };

  [[nodiscard]] engine::result<void> check_name(std::string_view field, const std::string& name) const;
  [[nodiscard]] engine::result<void> check_load(const std::string& name) const;
  [[nodiscard]] engine::result<const served_adapter*> find_unused(const std::string& name) const;
  [[nodiscard]] const served_adapter* find(const engine::job_adapter& wanted) const;
  void tell_scales() const;
  void tell_refused(std::string_view name, const engine::error& why) const;
  void read(const std::string& path);
  [[nodiscard]] std::optional<std::uint32_t> free_index() const;
  void on_read(const engine::result<adapter_values>& values, const std::string& path);
  void on_put(served_adapter one, const engine::result<void>& put);
  void finish_load(const engine::result<void>& how);
  void drop(std::uint32_t index, const answer& done);
  void on_dropped(std::uint32_t index, bool free);
  void publish(adapter_list list);
  void list_one_more(served_adapter one);

  const adapter_config config_;
  const adapter_hooks hooks_;
  const engine::worker_identity& served_;
  engine::narrator& narrator_;
  std::shared_ptr<gate> gate_;
  boost::asio::steady_timer retry_;
  shared_adapters list_ = std::make_shared<adapter_list>();
  std::vector<bool> taken_;  ///< rooms, by index
  std::uint32_t next_id_ = 0;
  std::string loading_;  ///< the name; empty: nothing is being loaded
  answer loaded_;
  std::vector<std::uint32_t> leaving_;  ///< rooms that were dropped while jobs used them
  std::stop_source stop_reading_;
  std::thread reader_;
};

}  // namespace orcd::net
