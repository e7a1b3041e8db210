// What the worker tells others of itself while it serves. Its entry in a store by which they find it: there
// while it serves, gone when it drains; of several engines only the one that serves is listed (source: the
// discovery part of the failover plan). The spans of its requests, to a collector.
#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/option_table.hpp"
#include "app/version/version.hpp"
#include "app/worker_parts.hpp"
#include "engine/narration.hpp"

namespace orcd::app {

using engine::severity;

namespace {

/// What all spans say of this process; what the operator gives goes before what the worker knows.
net::trace_resource trace_resource_of(const options& opts) {
  net::trace_resource out;
  out.version = version();
  out.attributes = opts.traces.resource;
  const auto given = [&out](std::string_view key) {
    return std::any_of(out.attributes.begin(), out.attributes.end(),
                       [key](const auto& one) { return one.first == key; });
  };
  const auto add = [&](const char* key, const std::string& value) {
    if (!given(key)) out.attributes.emplace_back(key, value);
  };
  if (!opts.traces.service_name.empty()) {
    std::erase_if(out.attributes, [](const auto& one) { return one.first == "service.name"; });
  }
  add("service.name", opts.traces.service_name.empty() ? "worker-orcd" : opts.traces.service_name);
  add("service.version", version());
  add("service.instance.id", opts.worker_id);
  return out;
}

}  // namespace

void worker::start_discovery() {
  if (opts_.discovery_url.empty() || fsm_.ending()) return;
  auto address = net::parse_etcd_url(opts_.discovery_url);
  if (!address) return;  // checked with the options
  net::registrar_config config;
  config.address = std::move(*address);
  config.key = net::etcd_key(opts_.discovery_prefix, opts_.worker_id);
  config.entry = {uri_, identity_.model_name, opts_.failover.engine_id};
  try {
    registrar_ = std::make_unique<net::etcd_registrar>(
        std::move(config),
        [this](net::registrar_event event, const std::string& text) { tell_of_discovery(event, text); });
  } catch (const std::system_error& e) {
    narrator_.narrate(severity::error, "discovery_failing",
                      "The worker is not listed: there is no thread for it: " + e.code().message());
  }
}

/// On the registrar's thread; the log takes lines of any.
void worker::tell_of_discovery(net::registrar_event event, const std::string& text) {
  switch (event) {
    case net::registrar_event::registered:
      if (const auto epoch = parse_unsigned(text); failover_ && epoch) failover_->status.set_epoch(*epoch);
      return narrator_.narrate(severity::info, "discovery_registered",
                               "Listed at " + opts_.discovery_url + " as " + opts_.worker_id,
                               {{"epoch", std::string_view(text)}});
    case net::registrar_event::superseded:
      return narrator_.narrate(severity::warning, "discovery_superseded",
                               "Another worker is listed as " + opts_.worker_id + " since",
                               {{"key", std::string_view(text)}});
    case net::registrar_event::failing:
      return narrator_.narrate(severity::warning, "discovery_failing",
                               "The store " + opts_.discovery_url + " fails and is tried again: " + text);
  }
}

void worker::start_traces() {
  const trace_options& asked = opts_.traces;
  if (asked.endpoint.empty()) return;
  auto address = net::parse_http_url(asked.endpoint);
  if (!address) return;  // checked with the options
  net::exporter_config config;
  config.target = net::otlp_target(*address, asked.endpoint_is_whole);
  config.address = std::move(*address);
  // Its path is left out of the log: some collectors know their senders by it.
  const std::string collector = "The collector " + config.address.origin();
  config.sampler = asked.sampler;
  config.model = identity_.model_name;
  config.resource = trace_resource_of(opts_);
  try {
    traces_ = std::make_unique<net::trace_exporter>(
        std::move(config), [this, collector](net::export_event event, const std::string& text) {
          if (event == net::export_event::recovered) {
            return narrator_.narrate(severity::info, "traces_recovered", collector + " takes spans again");
          }
          narrator_.narrate(severity::warning, "traces_failing",
                            collector + " fails and is tried again: " + text);
        });
  } catch (const std::system_error& e) {
    narrator_.narrate(severity::error, "traces_failing",
                      "No spans are kept: there is no thread for them: " + e.code().message());
  }
}

std::string worker::render_more_metrics() const {
  std::string out = failover_ ? net::render_failover_metrics(failover_->status) : std::string();
  if (registrar_) out += registrar_->render_metrics();
  if (traces_) out += traces_->render_metrics();
  return out;
}

}  // namespace orcd::app
