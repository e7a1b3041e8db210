// How the worker gets its LoRA adapters: those of --lora are read while it opens the model, and are on the
// device before it is ready; others come through the registry. The main thread at the start, then the io
// thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "app/options/options.hpp"
#include "engine/served/served_model.hpp"
#include "net/models/adapter_registry.hpp"

namespace orcd::app {

/// Room on the device for adapters that were read, the largest of rank `largest`, and for those that clients
/// may have loaded.
[[nodiscard]] engine::adapter_room adapter_room_for(const adapter_options& asked, std::uint32_t largest);

class adapters_role {
 public:
  struct hooks {
    std::function<bool()> stop_asked;  ///< a signal has come: what is being read is not wanted any more
    std::function<void()> reading;     ///< the start has to wait for an adapter
    /// gpu_thread::put_adapter() and drop_adapter().
    std::function<void(std::uint32_t, net::adapter_values, std::function<void(engine::result<void>)>)> put;
    std::function<void(std::uint32_t, std::function<void(bool)>)> drop;
    std::function<bool()> load_cancelled;  ///< any thread
  };

  adapters_role(boost::asio::io_context& io, const adapter_options& asked, hooks does);

  // Start-up, in this order.
  /// Reads those of --lora, and plans the room for all: in `model`, which stays where it is. Errors name the
  /// option; cancelled.
  [[nodiscard]] engine::result<void> read(engine::served_model& model);
  /// Lists what was read, under the indices at which it will be. `fixed_scales`: as adapter_config.
  [[nodiscard]] engine::result<void> list(const engine::worker_identity& served, engine::narrator& narrator,
                                          bool fixed_scales);
  /// Puts the next one on the device and tells how that went, on the io thread; false when all are there.
  [[nodiscard]] bool put_next(std::function<void(const engine::result<void>&)> done);

  /// Null: there are none.
  [[nodiscard]] net::adapter_registry* registry() const noexcept { return registry_.get(); }

 private:
  /// One of --lora that was read.
  struct read_adapter {
    adapter_option asked;
    net::adapter_values values;
  };
  [[nodiscard]] net::adapter_hooks registry_hooks() const;

  boost::asio::io_context& io_;
  const adapter_options& asked_;
  const hooks does_;
  engine::served_model* model_ = nullptr;  ///< since read()
  std::vector<read_adapter> waiting_;      ///< read and not on the device yet
  std::unique_ptr<net::adapter_registry> registry_;
};

}  // namespace orcd::app
