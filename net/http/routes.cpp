#include "net/http/routes.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace orcd::net {
namespace {

/// How a row's path is compared with the one that was asked for.
enum class spelling {
  exact,   ///< byte by byte: a proxy in front may forbid this one path and must not be gone around
  free,    ///< slashes at the end and repeated ones do not count
  prefix,  ///< as `free`, and one name stands behind it
};

/// A row whose path begins with /v1 serves two more paths: without it, for clients whose base URL lacks it,
/// and with it twice, for those that add their own.
struct route {
  std::string_view path;
  bool reads;  ///< GET and HEAD; otherwise POST
  endpoint target;
  spelling form = spelling::free;
};

constexpr std::array routes = {
    route{"/execute", false, endpoint::execute},
    route{"/cancel", false, endpoint::cancel, spelling::exact},
    route{"/health", true, endpoint::health},
    route{"/live", true, endpoint::live},
    route{"/ready", true, endpoint::ready},
    route{"/metrics", true, endpoint::metrics, spelling::exact},
    route{"/shutdown", false, endpoint::shutdown, spelling::exact},
    route{"/v1/chat/completions", false, endpoint::chat_completions},
    route{"/v1/completions", false, endpoint::completions},
    route{"/v1/responses", false, endpoint::responses},
    route{"/v1/embeddings", false, endpoint::embeddings},
    route{"/v1/rerank", false, endpoint::rerank},
    route{"/v1/messages", false, endpoint::messages},
    route{"/v1/messages/count_tokens", false, endpoint::count_tokens},
    route{"/v1/models", true, endpoint::models},
    route{"/v1/models/", true, endpoint::model, spelling::prefix},
    route{"/tokenize", false, endpoint::tokenize},
    route{"/detokenize", false, endpoint::detokenize},
    route{"/apply-template", false, endpoint::apply_template},
    route{"/completion", false, endpoint::llama_completion},
    route{"/infill", false, endpoint::infill},
    route{"/props", true, endpoint::props},
    route{"/slots", true, endpoint::slots},
    route{"/tokenizer_info", true, endpoint::tokenizer_info},
    route{"/", true, endpoint::page},
};

constexpr std::string_view version_prefix = "/v1";

std::string_view path_of(std::string_view target) {
  constexpr std::string_view scheme = "http://";
  if (target.starts_with(scheme)) {
    const auto path = target.find('/', scheme.size());
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  return target.substr(0, target.find('?'));
}

/// Without repeated slashes and one at the end.
std::string freed(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || !out.ends_with('/')) out += c;
  }
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

bool is_versioned(std::string_view path) {
  return path.starts_with("/v1/");
}

/// The path with exactly one /v1 in front.
std::string versioned(std::string path) {
  if (!is_versioned(path)) return std::string(version_prefix) + path;
  if (is_versioned(std::string_view(path).substr(version_prefix.size()))) {
    path.erase(0, version_prefix.size());
  }
  return path;
}

/// What was asked for, in the spellings that rows are compared with.
struct asked_path {
  std::string_view raw;
  std::string free;
  std::string versioned;

  explicit asked_path(std::string_view path)
      : raw(path), free(freed(path)), versioned(net::versioned(free)) {}

  [[nodiscard]] std::string_view for_row(const route& r) const noexcept {
    if (r.form == spelling::exact) return raw;
    return is_versioned(r.path) ? versioned : free;
  }
};

bool serves(const route& r, const asked_path& asked) {
  const auto path = asked.for_row(r);
  if (r.form != spelling::prefix) return path == r.path;
  return path.size() > r.path.size() && path.starts_with(r.path);
}

bool exists(const route& r, bool page) {
  return page || r.target != endpoint::page;
}

const route* find(const asked_path& asked, bool page) {
  for (const route& r : routes) {
    if (serves(r, asked) && exists(r, page)) return &r;
  }
  return nullptr;
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

/// The text with its percent escapes replaced; as it is where one of them is none.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || code != std::errc{} || end != digits.data() + 2) return std::string(text);
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

}  // namespace

std::variant<endpoint, reply> find_route(std::string_view method, std::string_view target, bool page) {
  if (target == "*" && method == "OPTIONS") return answer_options("GET, HEAD, POST, OPTIONS");
  if (const route* const r = find(asked_path(path_of(target)), page)) {
    if (r->reads ? method == "GET" || method == "HEAD" : method == "POST") return r->target;
    if (method == "OPTIONS") return answer_options(methods_of(*r));
    reply refused = make_error_reply(engine::error(
        engine::errc::method_not_allowed, std::string(r->path) + " takes " + std::string(methods_of(*r))));
    refused.allow = methods_of(*r);
    return refused;
  }
  std::string known;
  for (const route& r : routes) {
    if (r.form == spelling::prefix || !exists(r, page)) continue;
    known += (known.empty() ? "" : ", ") + std::string(r.path);
  }
  return make_error_reply(engine::error(engine::errc::not_found, "no such path; there are " + known));
}

bool is_probe(endpoint target) noexcept {
  switch (target) {
    case endpoint::health:
    case endpoint::live:
    case endpoint::ready:
    case endpoint::metrics: return true;
    default: return false;
  }
}

bool needs_key(endpoint target) noexcept {
  return !is_probe(target) && target != endpoint::page;
}

api_words words_of(std::string_view target) {
  const asked_path asked(path_of(target));
  constexpr std::string_view messages = "/v1/messages";
  const std::string_view path = asked.versioned;
  const bool below =
      path.starts_with(messages) && (path.size() == messages.size() || path[messages.size()] == '/');
  if (below) return api_words::anthropic;
  const auto serves_it = [&asked](const route& r) { return is_versioned(r.path) && serves(r, asked); };
  const bool openai = is_versioned(asked.free) || std::any_of(routes.begin(), routes.end(), serves_it);
  return openai ? api_words::openai : api_words::worker;
}

std::string name_of(std::string_view target) {
  const asked_path asked(path_of(target));
  for (const route& r : routes) {
    if (r.form == spelling::prefix && serves(r, asked)) {
      return percent_decoded(asked.for_row(r).substr(r.path.size()));
    }
  }
  return {};
}

std::string_view query_of(std::string_view target) noexcept {
  const auto mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

}  // namespace orcd::net
