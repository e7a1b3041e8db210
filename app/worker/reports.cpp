#include "app/worker/reports.hpp"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/options/option_table.hpp"
#include "app/version/version.hpp"

namespace orcd::app {

using engine::severity;

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

std::unique_ptr<net::trace_exporter> make_trace_exporter(const options& opts, const std::string& model,
                                                         engine::narrator& narrator) {
  const trace_options& asked = opts.traces;
  if (asked.endpoint.empty()) return nullptr;
  auto address = net::parse_http_url(asked.endpoint);
  if (!address) return nullptr;  // checked with the options
  net::exporter_config config;
  config.target = net::otlp_target(*address, asked.endpoint_is_whole);
  config.address = std::move(*address);
  // Its path is left out of the log: some collectors know their senders by it.
  const std::string collector = "The collector " + config.address.origin();
  config.sampler = asked.sampler;
  config.model = model;
  config.resource = trace_resource_of(opts);
  try {
    return std::make_unique<net::trace_exporter>(
        std::move(config), [&narrator, collector](net::export_event event, const std::string& text) {
          if (event == net::export_event::recovered) {
            return narrator.narrate(severity::info, "traces_recovered", collector + " takes spans again");
          }
          narrator.narrate(severity::warning, "traces_failing",
                           collector + " fails and is tried again: " + text);
        });
  } catch (const std::system_error& e) {
    narrator.narrate(severity::error, "traces_failing",
                     "No spans are kept: there is no thread for them: " + e.code().message());
    return nullptr;
  }
}

listing::listing(const options& opts, engine::narrator& narrator,
                 std::function<void(std::uint64_t)> epoch_known)
    : opts_(opts), narrator_(narrator), epoch_known_(std::move(epoch_known)) {}

void listing::enter(net::discovery_entry entry) {
  if (opts_.discovery_url.empty()) return;
  auto address = net::parse_etcd_url(opts_.discovery_url);
  if (!address) return;  // checked with the options
  net::registrar_config config;
  config.address = std::move(*address);
  config.key = net::etcd_key(opts_.discovery_prefix, opts_.worker_id);
  config.entry = std::move(entry);
  try {
    registrar_ = std::make_unique<net::etcd_registrar>(
        std::move(config),
        [this](net::registrar_event event, const std::string& text) { tell(event, text); });
  } catch (const std::system_error& e) {
    narrator_.narrate(severity::error, "discovery_failing",
                      "The worker is not listed: there is no thread for it: " + e.code().message());
  }
}

/// On the registrar's thread; the log takes lines of any.
void listing::tell(net::registrar_event event, const std::string& text) const {
  switch (event) {
    case net::registrar_event::registered:
      if (const auto epoch = parse_unsigned(text)) epoch_known_(*epoch);
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

void listing::leave() noexcept {
  if (registrar_) registrar_->leave();
}

std::string listing::render_metrics() const {
  return registrar_ ? registrar_->render_metrics() : std::string();
}

}  // namespace orcd::app
