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
  prefix,  ///< as `free`, and a name stands behind it, which may have slashes
  id,      ///< as `free`, and a name without slashes stands behind it, and then what the row says
};

/// The methods that a row takes, beside OPTIONS.
enum class methods { post, get, get_or_delete, get_or_post };

/// A row whose path begins with /v1 serves two more paths: without it, for clients whose base URL lacks it,
/// and with it twice, for those that add their own.
struct route {
  std::string_view path;
  methods takes;
  endpoint target;
  spelling form = spelling::free;
  std::string_view after{};  ///< behind the id
};

constexpr std::array routes = {
    route{"/execute", methods::post, endpoint::execute},
    route{"/cancel", methods::post, endpoint::cancel, spelling::exact},
    route{"/health", methods::get, endpoint::health},
    route{"/live", methods::get, endpoint::live},
    route{"/ready", methods::get, endpoint::ready},
    route{"/metrics", methods::get, endpoint::metrics, spelling::exact},
    route{"/shutdown", methods::post, endpoint::shutdown, spelling::exact},
    route{"/v1/chat/completions", methods::post, endpoint::chat_completions},
    route{"/v1/completions", methods::post, endpoint::completions},
    route{"/v1/chat/completions/input_tokens", methods::post, endpoint::chat_input_tokens},
    route{"/v1/responses", methods::post, endpoint::responses},
    route{"/v1/responses/input_tokens", methods::post, endpoint::response_input_tokens},
    route{"/v1/responses/", methods::get_or_delete, endpoint::stored_response, spelling::id},
    route{"/v1/responses/", methods::get, endpoint::stored_input, spelling::id, "/input_items"},
    route{"/v1/embeddings", methods::post, endpoint::embeddings},
    route{"/embedding", methods::post, endpoint::llama_embedding},
    route{"/embed", methods::post, endpoint::tei_embed},
    route{"/pooling", methods::post, endpoint::pooling},
    route{"/v1/rerank", methods::post, endpoint::rerank},
    route{"/v1/reranking", methods::post, endpoint::rerank},
    route{"/v2/rerank", methods::post, endpoint::rerank},
    route{"/v1/score", methods::post, endpoint::score},
    route{"/v1/messages", methods::post, endpoint::messages},
    route{"/v1/messages/count_tokens", methods::post, endpoint::count_tokens},
    route{"/v1/models", methods::get, endpoint::models},
    route{"/v1/models/", methods::get, endpoint::model, spelling::prefix},
    route{"/tokenize", methods::post, endpoint::tokenize},
    route{"/detokenize", methods::post, endpoint::detokenize},
    route{"/apply-template", methods::post, endpoint::apply_template},
    route{"/completion", methods::post, endpoint::llama_completion},
    route{"/infill", methods::post, endpoint::infill},
    route{"/props", methods::get, endpoint::props},
    route{"/slots", methods::get, endpoint::slots},
    route{"/lora-adapters", methods::get_or_post, endpoint::lora_adapters, spelling::exact},
    route{"/v1/load_lora_adapter", methods::post, endpoint::load_adapter, spelling::exact},
    route{"/v1/unload_lora_adapter", methods::post, endpoint::unload_adapter, spelling::exact},
    route{"/tokenizer_info", methods::get, endpoint::tokenizer_info},
    route{"/api/version", methods::get, endpoint::ollama_version},
    route{"/api/tags", methods::get, endpoint::ollama_tags},
    route{"/api/ps", methods::get, endpoint::ollama_ps},
    route{"/api/show", methods::post, endpoint::ollama_show},
    route{"/api/chat", methods::post, endpoint::ollama_chat},
    route{"/api/generate", methods::post, endpoint::ollama_generate},
    route{"/api/embed", methods::post, endpoint::ollama_embed},
    route{"/api/embeddings", methods::post, endpoint::ollama_embeddings},
    route{"/version", methods::get, endpoint::version},
    route{"/load", methods::get, endpoint::load},
    route{"/ping", methods::get_or_post, endpoint::health},
    // Exact, so that /health itself stays a path of no API.
    route{"/v1/health", methods::get, endpoint::health, spelling::exact},
    route{"/", methods::get, endpoint::page},
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

bool has_name(const route& r) noexcept {
  return r.form == spelling::prefix || r.form == spelling::id;
}

/// What stands for the name in a path that the row serves.
std::string_view name_in(const route& r, std::string_view path) {
  path.remove_prefix(r.path.size());
  path.remove_suffix(r.after.size());
  return path;
}

bool serves(const route& r, const asked_path& asked) {
  const auto path = asked.for_row(r);
  if (!has_name(r)) return path == r.path;
  const bool fits =
      path.size() > r.path.size() + r.after.size() && path.starts_with(r.path) && path.ends_with(r.after);
  return fits && (r.form == spelling::prefix || name_in(r, path).find('/') == std::string_view::npos);
}

/// Whether a path is this one or begins with it and a slash.
bool is_below(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

bool takes(const route& r, std::string_view method) {
  switch (r.takes) {
    case methods::post: return method == "POST";
    case methods::get: break;
    case methods::get_or_delete:
      if (method == "DELETE") return true;
      break;
    case methods::get_or_post:
      if (method == "POST") return true;
  }
  return method == "GET" || method == "HEAD";
}

bool exists(const route& r, optional_paths paths) {
  if (r.target == endpoint::page) return paths.page;
  return paths.ollama || !is_ollama(r.target);
}

const route* find(const asked_path& asked, optional_paths paths) {
  for (const route& r : routes) {
    if (serves(r, asked) && exists(r, paths)) return &r;
  }
  return nullptr;
}

std::string_view methods_of(const route& r) {
  switch (r.takes) {
    case methods::post: return "POST, OPTIONS";
    case methods::get: break;
    case methods::get_or_delete: return "GET, HEAD, DELETE, OPTIONS";
    case methods::get_or_post: return "GET, HEAD, POST, OPTIONS";
  }
  return "GET, HEAD, OPTIONS";
}

reply answer_options(std::string_view allow) {
  reply r = make_json_reply(204, {});
  r.content_type = {};
  r.allow = allow;
  return r;
}

}  // namespace

std::variant<endpoint, reply> find_route(std::string_view method, std::string_view target,
                                         optional_paths paths) {
  if (target == "*" && method == "OPTIONS") return answer_options("GET, HEAD, POST, DELETE, OPTIONS");
  if (const route* const r = find(asked_path(path_of(target)), paths)) {
    if (takes(*r, method)) return r->target;
    if (method == "OPTIONS") return answer_options(methods_of(*r));
    reply refused = make_error_reply(engine::error(
        engine::errc::method_not_allowed, std::string(r->path) + " takes " + std::string(methods_of(*r))));
    refused.allow = methods_of(*r);
    return refused;
  }
  std::string known;
  for (const route& r : routes) {
    if (has_name(r) || !exists(r, paths)) continue;
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

bool is_ollama(endpoint target) noexcept {
  switch (target) {
    case endpoint::ollama_version:
    case endpoint::ollama_tags:
    case endpoint::ollama_ps:
    case endpoint::ollama_show:
    case endpoint::ollama_chat:
    case endpoint::ollama_generate:
    case endpoint::ollama_embed:
    case endpoint::ollama_embeddings: return true;
    default: return false;
  }
}

std::string_view pattern_of(endpoint target) noexcept {
  switch (target) {
    case endpoint::stored_response: return "/v1/responses/{id}";
    case endpoint::stored_input: return "/v1/responses/{id}/input_items";
    case endpoint::model: return "/v1/models/{id}";
    default: break;
  }
  const auto* const row =
      std::find_if(routes.begin(), routes.end(), [target](const route& r) { return r.target == target; });
  return row == routes.end() ? std::string_view() : row->path;
}

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

bool needs_key(endpoint target) noexcept {
  return !is_probe(target) && target != endpoint::page;
}

api_words words_of(std::string_view target) {
  const asked_path asked(path_of(target));
  if (is_below(asked.versioned, "/v1/messages")) return api_words::anthropic;
  if (is_below(asked.free, "/api")) return api_words::ollama;
  const auto serves_it = [&asked](const route& r) { return is_versioned(r.path) && serves(r, asked); };
  const bool openai = is_versioned(asked.free) || std::any_of(routes.begin(), routes.end(), serves_it);
  return openai ? api_words::openai : api_words::worker;
}

std::string name_of(std::string_view target) {
  const asked_path asked(path_of(target));
  for (const route& r : routes) {
    if (has_name(r) && serves(r, asked)) return percent_decoded(name_in(r, asked.for_row(r)));
  }
  return {};
}

std::string_view query_of(std::string_view target) noexcept {
  const auto mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

std::optional<std::string> query_value(std::string_view target, std::string_view name) {
  std::string_view rest = query_of(target);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const auto pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const auto mark = pair.find('=');
    if (percent_decoded(pair.substr(0, mark)) != name) continue;
    return mark == std::string_view::npos ? std::string() : percent_decoded(pair.substr(mark + 1));
  }
  return std::nullopt;
}

}  // namespace orcd::net
