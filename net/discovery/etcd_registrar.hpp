// Keeps a serving worker's entry in etcd: a thread of its own with one request at a time, each bounded in
// time and bytes. A store that is away, hangs or lies costs the worker nothing; it is asked again, ever less
// often.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "net/discovery/etcd_messages.hpp"

namespace orcd::net {

struct registrar_config {
  http_url address;
  std::string key;
  discovery_entry entry;
  registration_times times;
  std::chrono::milliseconds request_timeout{2'000};
  /// For the request that ends the lease when the worker ends.
  std::chrono::milliseconds farewell_timeout{1'000};
};

enum class registrar_event {
  registered,  ///< the entry stands, with an epoch of its own
  superseded,  ///< another worker's entry of a higher epoch stands there
  failing,     ///< a request failed; told once until one succeeds
};

class etcd_registrar {
 public:
  /// `tell` is called on the registrar's thread; its text is for the log and holds nothing secret.
  using listener = std::function<void(registrar_event, const std::string& text)>;

  /// Begins to register at once. May throw std::system_error where there is no thread to be had.
  etcd_registrar(registrar_config config, listener tell);
  /// leave(), and waits for its end: up to `farewell_timeout`, and for a host name that is just being looked
  /// up.
  ~etcd_registrar();
  etcd_registrar(const etcd_registrar&) = delete;
  etcd_registrar& operator=(const etcd_registrar&) = delete;

  /// Gives up what it is doing, ends the lease, and with it the entry, and stops. Any thread; returns at
  /// once.
  void leave() noexcept;

  /// Of any thread.
  [[nodiscard]] std::string render_metrics() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace orcd::net
