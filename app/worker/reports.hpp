// What the worker tells others of itself while it serves. Its entry in a store by which they find it: there
// while it serves, gone when it drains; of several engines only the one that serves is listed (source: the
// discovery part of the failover plan). The spans of its requests, to a collector.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "app/options/options.hpp"
#include "engine/base/narration.hpp"
#include "net/discovery/etcd_registrar.hpp"
#include "net/traces/trace_exporter.hpp"

namespace orcd::app {

/// What all spans say of this process; what the operator gives goes before what the worker knows.
[[nodiscard]] net::trace_resource trace_resource_of(const options& opts);

/// Takes the spans of requests to the model that clients call `model`; null: none are kept.
[[nodiscard]] std::unique_ptr<net::trace_exporter> make_trace_exporter(const options& opts,
                                                                       const std::string& model,
                                                                       engine::narrator& narrator);

/// The worker's entry in a store, as its operator asked for; nothing where none was. io thread.
class listing {
 public:
  /// `epoch_known`: of the entry that stands; on a thread of the listing's own.
  listing(const options& opts, engine::narrator& narrator, std::function<void(std::uint64_t)> epoch_known);

  /// The worker serves; an engine may do so again.
  void enter(net::discovery_entry entry);
  void leave() noexcept;
  [[nodiscard]] std::string render_metrics() const;

 private:
  void tell(net::registrar_event event, const std::string& text) const;

  const options& opts_;
  engine::narrator& narrator_;
  const std::function<void(std::uint64_t)> epoch_known_;
  std::unique_ptr<net::etcd_registrar> registrar_;  ///< null: not ready yet, or listed nowhere
};

}  // namespace orcd::app
