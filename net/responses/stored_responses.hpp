// GET and DELETE /v1/responses/{id}, GET /v1/responses/{id}/input_items: what the worker keeps of earlier
// responses. io thread only. Private to net/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/service.hpp"
#include "net/store/response_store.hpp"

namespace orcd::net {

/// `target`: stored_response or stored_input. Returns as write_reply does.
asio::awaitable<bool> handle_stored_response(service& s, connection& c, const http_request& request,
                                             endpoint target);

/// Which items of an input are asked for.
struct item_page {
  std::size_t limit = 20;
  bool ascending = false;
  std::string after{};  ///< the item before the first one; empty: from the beginning
};

/// The page that a target asks for: limit, order and after; what else there is in a query says nothing here.
/// Errors: invalid_request with the parameter as param.
[[nodiscard]] engine::result<item_page> read_page(std::string_view target);

/// The items that went into a response, those of the responses that it went on from before its own; pointers
/// into `response`. Errors: invalid_request where there is no item `after`.
struct listed_items {
  std::vector<const kept_item*> items;
  bool more = false;
  [[nodiscard]] std::string body() const;
  [[nodiscard]] std::size_t body_bytes() const noexcept;
};
[[nodiscard]] engine::result<listed_items> list_items(const kept_response& response, const item_page& page);

}  // namespace orcd::net
