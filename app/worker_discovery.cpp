// The worker's entry in a store by which others find it: there while it serves, gone when it drains. Of
// several engines only the one that serves is listed. Source: the discovery part of the failover plan.
#include <system_error>
#include <utility>

#include "app/worker_parts.hpp"
#include "engine/narration.hpp"

namespace orcd::app {

using engine::severity;

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

std::string worker::render_more_metrics() const {
  std::string out = failover_ ? net::render_failover_metrics(failover_->status) : std::string();
  if (registrar_) out += registrar_->render_metrics();
  return out;
}

}  // namespace orcd::app
