#include "net/responses/stored_responses.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <utility>

#include "engine/text/utf8.hpp"
#include "net/jobs/background_reply.hpp"
#include "net/jobs/write.hpp"
#include "net/json/field_checks.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::error;
using engine::result;

constexpr std::size_t limit_max = 100;
/// Longer answers are made on a background thread.
constexpr std::size_t made_at_once_bytes_max = 64 * 1024;

using found_response = std::shared_ptr<const kept_response>;

/// An answer before it is made.
struct stored_answer {
  std::size_t bytes = 0;
  std::function<reply()> make;  ///< owns what it needs
};

error no_such(const std::string& id, bool kept) {
  // Escapes in a path may be bytes of no text.
  const bool is_text = engine::utf8::valid_bytes(id) == id.size();
  std::string what = "Response with id '" + (is_text ? shown_name(id) : std::string("?")) + "' not found.";
  if (!kept) what += " This worker keeps no responses; --response-store-mib makes it.";
  return {engine::errc::not_found, std::move(what)};
}

reply answer_deleted(const std::string& id) {
  std::string body;
  json_object json(body);
  json.text("id", id).text("object", "response").boolean("deleted", true);
  json.close();
  return make_json_reply(200, std::move(body));
}

result<stored_answer> plan_response(const http_request& request, const found_response& found) {
  if (query_value(request.target, "stream") == "true") {
    return refuse_field("stream", "must be false: a response that is kept is whole");
  }
  return stored_answer{found->body_bytes(), [found] { return make_json_reply(200, found->body()); }};
}

result<stored_answer> plan_items(const http_request& request, const found_response& found) {
  const auto page = read_page(request.target);
  if (!page) return page.error();
  auto listed = list_items(*found, *page);
  if (!listed) return listed.error();
  const std::size_t bytes = listed->body_bytes();
  return stored_answer{bytes,
                       [found, listed = std::move(*listed)] { return make_json_reply(200, listed.body()); }};
}

}  // namespace

result<item_page> read_page(std::string_view target) {
  item_page page;
  if (const auto limit = query_value(target, "limit")) {
    const auto* const end = limit->data() + limit->size();
    const auto read = std::from_chars(limit->data(), end, page.limit);
    if (read.ec != std::errc() || read.ptr != end || page.limit < 1 || page.limit > limit_max) {
      return refuse_field("limit", "must be an integer, 1 to " + std::to_string(limit_max));
    }
  }
  if (const auto order = query_value(target, "order")) {
    if (*order != "asc" && *order != "desc") {
      return refuse_field("order", "must be 'asc' or 'desc'");
    }
    page.ascending = *order == "asc";
  }
  page.after = query_value(target, "after").value_or("");
  return page;
}

result<listed_items> list_items(const kept_response& response, const item_page& page) {
  std::vector<const kept_item*> all;
  for (const auto& turn : response.turns) {
    for (const kept_item& item : *turn->input) all.push_back(&item);
    if (turn == response.turns.back()) break;
    for (const kept_item& item : turn->output) all.push_back(&item);
  }
  if (!page.ascending) std::reverse(all.begin(), all.end());
  auto first = all.begin();
  if (!page.after.empty()) {
    first = std::find_if(all.begin(), all.end(), [&](const auto* item) { return item->id == page.after; });
    if (first == all.end()) return refuse_field("after", "is no item of this response");
    ++first;
  }
  const auto left = static_cast<std::size_t>(all.end() - first);
  listed_items out;
  out.more = left > page.limit;
  out.items.assign(first, first + static_cast<std::ptrdiff_t>(std::min(left, page.limit)));
  return out;
}

std::string listed_items::body() const {
  std::string data = "[";
  for (const kept_item* item : items) {
    if (data.size() > 1) data += ',';
    data += item->json;
  }
  std::string out;
  json_object json(out);
  json.text("object", "list").raw("data", data + "]");
  if (items.empty()) {
    json.null("first_id").null("last_id");
  } else {
    json.text("first_id", items.front()->id).text("last_id", items.back()->id);
  }
  json.boolean("has_more", more);
  json.close();
  return out;
}

std::size_t listed_items::body_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const kept_item* item : items) bytes += item->json.size();
  return bytes;
}

asio::awaitable<bool> handle_stored_response(service& s, connection& c, const http_request& request,
                                             endpoint target) {
  const std::string id = name_of(request.target);
  const found_response found = s.responses ? s.responses->find(request.owner, id) : nullptr;
  reply response;
  if (!found) {
    response = make_error_reply(no_such(id, s.responses != nullptr));
    co_return co_await write_reply(s, c, request, std::move(response));
  }
  if (request.method == "DELETE") {
    s.responses->erase(request.owner, id);
    response = answer_deleted(id);
    co_return co_await write_reply(s, c, request, std::move(response));
  }
  auto planned =
      target == endpoint::stored_input ? plan_items(request, found) : plan_response(request, found);
  if (planned && planned->bytes > made_at_once_bytes_max) {
    background_plan plan(task_length::brief, "the response could not be written",
                         "the response was not written in time");
    co_return co_await write_from_background(s, c, request, std::move(plan), std::move(planned->make));
  }
  response = planned ? planned->make() : make_error_reply(planned.error());
  co_return co_await write_reply(s, c, request, std::move(response));
}

}  // namespace orcd::net
