#include "net/server/adapter_endpoints.hpp"

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "net/http/signal.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/run_jobs.hpp"
#include "net/jobs/write.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::errc;
using engine::error;
using engine::result;

/// Of a body, which is read on the io thread.
constexpr std::size_t body_bytes_max = 16 * 1024;

struct named_adapter {
  std::string name;
  std::string path;  ///< of one that is to be loaded
};

result<void> check_size(const http_request& request) {
  if (request.body.size() <= body_bytes_max) return {};
  return error(errc::payload_too_large, "the body may have " + std::to_string(body_bytes_max) +
                                            " bytes here, it has " + std::to_string(request.body.size()));
}

/// The body is an array, and JSON is read here as an object that has it as its only member.
result<std::vector<adapter_scale>> read_scales(std::string_view body) {
  const auto tree = read_json_tree("{\"lora\":" + std::string(body) + "}");
  if (!tree || tree->size() != 1 || tree->begin()->key() != "lora") {
    return error(errc::invalid_request, "the body must be an array of objects with id and scale", "body");
  }
  return read_adapter_scales("body", tree->begin()->value());
}

result<named_adapter> read_named(std::string_view body, endpoint target) {
  const bool load = target == endpoint::load_adapter;
  constexpr std::array<std::string_view, 2> both{"lora_name", "lora_path"};
  constexpr std::array<std::string_view, 1> of_load{"load_inplace"}, of_unload{"lora_int_id"};
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  const auto known = load ? only_members(*tree, "", both, of_load)
                          : only_members(*tree, "", std::span(both).first<1>(), of_unload);
  if (!known) return known.error();
  const auto in_place = flag_member(*tree, "", "load_inplace");
  if (!in_place) return in_place.error();
  if (*in_place) return refuse_field("load_inplace", "must be false: unload the adapter first");
  const auto name = text_member(*tree, "", "lora_name");
  if (!name) return name.error();
  const json::value* const number = find_member(*tree, "lora_int_id");
  if (number != nullptr && !number->is_null()) {  // what another server calls it
    const auto known_there = as_integer("lora_int_id", *number, 0, std::numeric_limits<std::uint32_t>::max());
    if (!known_there) return known_there.error();
  }
  named_adapter out{std::string(*name), {}};
  if (!load) return out;
  const auto path = text_member(*tree, "", "lora_path");
  if (!path) return path.error();
  out.path = *path;
  return out;
}

/// What the registry will have answered.
struct awaited {
  explicit awaited(const asio::any_io_executor& executor) : woken(executor) {}
  signal woken;
  std::optional<result<void>> answer;
};

/// Loads or unloads; the work goes on if the client leaves.
asio::awaitable<result<void>> change(service& s, connection& c, named_adapter asked, endpoint target) {
  constexpr std::chrono::milliseconds look_every{250};
  const auto told = std::make_shared<awaited>(c.stream.get_executor());
  adapter_registry::answer done = [told](result<void> how) {
    told->answer = std::move(how);
    told->woken.raise();
  };
  if (target == endpoint::load_adapter) {
    s.context.adapters->load(std::move(asked.name), asked.path, std::move(done));
  } else {
    s.context.adapters->unload(asked.name, std::move(done));
  }
  while (!told->answer) {
    const auto until = std::chrono::steady_clock::now() + look_every;
    co_await told->woken.wait_until(until);
    if (!told->answer && (s.stopping || is_lost(c))) co_return error(errc::cancelled, "the client has gone");
  }
  co_return *told->answer;
}

reply make_text_reply(std::string text) {
  reply out = make_json_reply(200, std::move(text));
  out.content_type = "text/plain; charset=utf-8";
  return out;
}

asio::awaitable<reply> answer_change(service& s, connection& c, const http_request& request,
                                     endpoint target) {
  const auto asked = read_named(request.body, target);
  if (!asked) co_return make_error_reply(asked.error());
  named_adapter wanted = *asked;
  const auto how = co_await change(s, c, std::move(wanted), target);
  if (!how) co_return make_error_reply(how.error());
  std::string text = "Success: LoRA adapter '" + asked->name + "' ";
  text += target == endpoint::load_adapter ? "added successfully." : "removed successfully.";
  co_return make_text_reply(std::move(text));
}

reply answer_list(service& s, const http_request& request) {
  if (request.method != "POST") return make_json_reply(200, adapters_json(*s.context.adapters->list()));
  const auto scales = read_scales(request.body);
  if (!scales) return make_error_reply(scales.error());
  if (const auto set = s.context.adapters->set_scales(*scales); !set) return make_error_reply(set.error());
  return make_json_reply(200, "{\"success\":true}");
}

}  // namespace

asio::awaitable<bool> handle_adapters(service& s, connection& c, const http_request& request,
                                      endpoint target) {
  reply response;
  const auto open = check_open(s, c);
  const auto fits = check_size(request);
  if (s.context.adapters == nullptr) {
    response = make_error_reply(
        error(errc::not_found,
              "this worker has no LoRA adapters: it was started without --lora and --allow-lora-load"));
  } else if (!fits) {
    response = make_error_reply(fits.error());
  } else if (target == endpoint::lora_adapters) {
    response = answer_list(s, request);
  } else if (!open) {
    response = make_error_reply(open.error());
  } else {
    response = co_await answer_change(s, c, request, target);
  }
  co_return co_await write_reply(s, c, request, std::move(response));
}

}  // namespace orcd::net
