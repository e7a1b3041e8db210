#include "net/routes.hpp"

#include <array>

namespace orcd::net {
namespace {

struct route {
  std::string_view path;
  bool reads;  ///< GET and HEAD; otherwise POST
  endpoint target;
};

constexpr std::array<route, 16> routes = {{
    {"/execute", false, endpoint::execute},
    {"/cancel", false, endpoint::cancel},
    {"/health", true, endpoint::health},
    {"/live", true, endpoint::live},
    {"/ready", true, endpoint::ready},
    {"/metrics", true, endpoint::metrics},
    {"/shutdown", false, endpoint::shutdown},
    {"/v1/chat/completions", false, endpoint::chat_completions},
    {"/v1/completions", false, endpoint::completions},
    {"/v1/embeddings", false, endpoint::embeddings},
    {"/v1/rerank", false, endpoint::rerank},
    {"/rerank", false, endpoint::rerank},
    {"/v1/models", true, endpoint::models},
    {"/tokenize", false, endpoint::tokenize},
    {"/detokenize", false, endpoint::detokenize},
    {"/", true, endpoint::page},
}};

std::string_view path_of(std::string_view target) {
  constexpr std::string_view scheme = "http://";
  if (target.starts_with(scheme)) {
    const auto path = target.find('/', scheme.size());
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  return target.substr(0, target.find('?'));
}

constexpr std::string_view models_prefix = "/v1/models/";
constexpr route one_model{models_prefix, true, endpoint::model};

bool exists(const route& r, bool page) {
  return page || r.target != endpoint::page;
}

const route* find(std::string_view path, bool page) {
  for (const route& r : routes) {
    if (r.path == path && exists(r, page)) return &r;
  }
  return path.size() > models_prefix.size() && path.starts_with(models_prefix) ? &one_model : nullptr;
}

std::string_view methods_of(const route& r) {
  return r.reads ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

reply answer_options(std::string_view allow) {
  reply r = make_json_reply(204, {});
  r.content_type = {};
  r.allow = allow;
  return r;
}

}  // namespace

std::variant<endpoint, reply> find_route(std::string_view method, std::string_view target, bool page) {
  if (target == "*" && method == "OPTIONS") return answer_options("GET, HEAD, POST, OPTIONS");
  const auto path = path_of(target);
  if (const route* const r = find(path, page)) {
    if (r->reads ? method == "GET" || method == "HEAD" : method == "POST") return r->target;
    if (method == "OPTIONS") return answer_options(methods_of(*r));
    reply refused = make_error_reply(engine::error(
        engine::errc::method_not_allowed, std::string(r->path) + " takes " + std::string(methods_of(*r))));
    refused.allow = methods_of(*r);
    return refused;
  }
  std::string known;
  for (const route& r : routes) {
    if (exists(r, page)) known += (known.empty() ? "" : ", ") + std::string(r.path);
  }
  return make_error_reply(engine::error(engine::errc::not_found, "no such path; there are " + known));
}

bool needs_key(endpoint target) noexcept {
  switch (target) {
    case endpoint::health:
    case endpoint::live:
    case endpoint::ready:
    case endpoint::metrics:
    case endpoint::page: return false;
    default: return true;
  }
}

std::string_view model_of(std::string_view target) noexcept {
  return path_of(target).substr(models_prefix.size());
}

std::string_view query_of(std::string_view target) noexcept {
  const auto mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

}  // namespace orcd::net
