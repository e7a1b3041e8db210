// GET and POST /lora-adapters as llama-server has them, POST /v1/load_lora_adapter and
// /v1/unload_lora_adapter as vLLM has them. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

[[nodiscard]] constexpr bool is_adapter_endpoint(endpoint target) noexcept {
  return target == endpoint::lora_adapters || target == endpoint::load_adapter ||
         target == endpoint::unload_adapter;
}

/// Returns as write_reply does.
asio::awaitable<bool> handle_adapters(service& s, connection& c, const http_request& request,
                                      endpoint target);

}  // namespace orcd::net
