// Sends the spans of requests to a collector, by OTLP over HTTP: a thread of its own with one request at a
// time, each bounded in time and bytes, and a queue that is bounded, too. A collector that is away, hangs or
// lies costs the worker nothing but the spans.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "net/traces/export_backoff.hpp"
#include "net/traces/otlp.hpp"
#include "net/traces/trace_context.hpp"

namespace orcd::net {

struct exporter_config {
  http_url address;
  std::string target;  ///< the path there
  trace_resource resource;
  std::string model;  ///< what clients call it
  trace_sampler sampler;
  backoff_limits backoff;
  std::size_t queue_spans_max = 2'048;
  std::size_t batch_spans_max = 512;
  std::chrono::milliseconds linger{1'000};  ///< the longest time that a span waits for others
  std::chrono::milliseconds request_timeout{10'000};
  /// For what is left when the worker ends.
  std::chrono::milliseconds farewell_timeout{2'000};
};

enum class export_event {
  failing,    ///< spans were not taken; told once until some are
  recovered,  ///< spans are taken again
};

class trace_exporter {
 public:
  /// `tell` is called on the exporter's thread; its text is for the log and holds nothing secret. The metrics
  /// count by then what it is told.
  using listener = std::function<void(export_event, const std::string& text)>;

  /// May throw std::system_error where there is no thread to be had.
  trace_exporter(exporter_config config, listener tell);
  /// leave(), and waits for its end: up to `farewell_timeout`, and for a host name that is just being looked
  /// up.
  ~trace_exporter();
  trace_exporter(const trace_exporter&) = delete;
  trace_exporter& operator=(const trace_exporter&) = delete;

  [[nodiscard]] const trace_sampler& sampler() const noexcept;

  /// Of any thread. Returns at once: where the queue is full, the spans are counted and dropped.
  void offer(request_trace request) noexcept;

  /// Sends what is left, each batch once, and stops. Any thread; returns at once.
  void leave() noexcept;

  /// Of any thread.
  [[nodiscard]] std::string render_metrics() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace orcd::net
