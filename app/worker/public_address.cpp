#include "app/worker/public_address.hpp"

#include <chrono>
#include <utility>

#include "app/options/serving_config.hpp"
#include "net/status/ready_callback.hpp"

namespace orcd::app {

using engine::result;

result<void> public_address::reserve(net::server& server) {
  const auto port = opts_.listener < 0 ? server.bind() : server.take_listener(opts_.listener);
  if (!port) return port.error();
  use(*port);
  return {};
}

void public_address::use(std::uint16_t port) {
  port_ = port;
  uri_ = public_uri(opts_, port_, host_name());
}

void public_address::announce(const std::string& model, std::uint64_t vram_bytes,
                              std::function<void(const result<void>&)> done) {
  if (opts_.callback_url.empty()) return done({});
  net::callback_config config;
  config.url = opts_.callback_url;
  config.on_wait = [this](const std::string& failure, std::chrono::milliseconds wait) {
    const std::string what = "The ready callback is tried again: " + failure;
    service_.waiting(what);
    narrator_.narrate(engine::severity::warning, "callback_waits", what,
                      {{"wait_ms", std::int64_t{wait.count()}}});
  };
  net::post_ready(io_, std::move(config), {opts_.worker_id, model, vram_bytes, uri_}, std::move(done));
}

}  // namespace orcd::app
