#include "app/options/serving_config.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <chrono>
#include <filesystem>
#include <limits>
#include <system_error>

#include "engine/gguf/location.hpp"
#include "engine/text/utf8_buffer.hpp"
#include "net/json/text.hpp"

namespace orcd::app {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), net::to_lower);
  return text;
}

}  // namespace

std::string model_file_of(const std::string& location) {
  const auto where = engine::parse_location(location);
  auto name = where ? where->name : location;
  if (auto split = engine::parse_split_name(name)) name = std::move(split->prefix);
  while (name.size() > 1 && name.back() == '/') name.pop_back();  // of a folder
  if (const auto last = std::filesystem::path(name).filename(); last == "." || last == "..") {
    std::error_code failed;  // then the name stays
    if (auto folder = std::filesystem::canonical(name, failed); !failed) name = folder.string();
  }
  name = engine::valid_utf8(name.substr(name.find_last_of('/') + 1));
  constexpr std::string_view suffix = ".gguf";
  if (name.size() <= suffix.size()) return name;
  const auto stem = name.size() - suffix.size();
  if (lower_case(name.substr(stem)) == suffix) name.resize(stem);
  return name;
}

std::string model_name_of(const options& opts) {
  for (const auto& name : opts.model_names) {
    if (name != any_model_name) return name;
  }
  return lower_case(model_file_of(opts.model));
}

net::request_limits execute_limits(const options& opts, std::uint32_t context_tokens) {
  net::request_limits out;
  if (opts.max_prompt_chars > 0) out.prompt_chars_max = opts.max_prompt_chars;
  if (opts.max_tokens_out > 0) out.tokens_out_max = opts.max_tokens_out;
  out.tokens_in_max = opts.max_tokens_in;
  out.context_tokens = context_tokens;
  out.inference_timeout = std::chrono::seconds(opts.inference_timeout_sec);
  out.deadlines = opts.deadlines;
  out.sampling = engine::settle_sampling({}, opts.sampling).params;
  out.seed = opts.seed;
  return out;
}

net::request_limits model_limits(const options& opts, std::uint32_t context_tokens,
                                 const engine::sampling_defaults& sampling) {
  auto out = execute_limits(opts, context_tokens);
  out.sampling = sampling.params;
  if (opts.max_prompt_chars == 0) out.prompt_chars_max = std::numeric_limits<std::uint32_t>::max();
  if (opts.max_tokens_out == 0) out.tokens_out_max = context_tokens;
  out.tokens_out_is_bound = true;
  return out;
}

std::uint64_t body_bytes_max(const options& opts, std::uint32_t context_tokens) noexcept {
  constexpr std::uint64_t mebibyte = 1ULL << 20U;
  constexpr std::uint64_t bytes_per_token = 32;
  if (opts.max_body_bytes > 0) return opts.max_body_bytes;
  const std::uint64_t least = opts.media.projector.empty() ? mebibyte : 32 * mebibyte;
  return std::clamp(bytes_per_token * context_tokens, least, 64 * mebibyte);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

net::host_rules serving_hosts(const options& opts) {
  return net::make_host_rules(
      {opts.host, host_name(), opts.public_uri, opts.allowed_hosts, !opts.api_key_file.empty()});
}

std::string public_uri(const options& opts, std::uint16_t port, const std::string& hostname) {
  if (!opts.public_uri.empty()) return opts.public_uri;
  const bool wildcard = opts.host == "0.0.0.0" || opts.host == "::";
  auto host = wildcard ? hostname : opts.host;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return "http://" + host + ":" + std::to_string(port);
}

boost::json::object template_defaults(const options& opts) {
  boost::json::object out;
  if (!opts.template_kwargs.empty()) out = boost::json::parse(opts.template_kwargs).as_object();
  if (!opts.reasoning) return out;
  // The two names that templates have for it.
  for (const auto* name : {"enable_thinking", "thinking"}) out.emplace(name, *opts.reasoning);
  return out;
}

net::server_config serving_config(const options& opts, std::uint32_t context_tokens,
                                  const engine::sampling_defaults& sampling) {
  net::server_config out;
  out.address = opts.host;
  out.port = opts.port;
  out.execute = execute_limits(opts, context_tokens);
  out.model = model_limits(opts, context_tokens, sampling);
  out.template_defaults = template_defaults(opts);
  out.reasoning_tokens_max = opts.reasoning_budget;
  out.compat = opts.compat;
  out.cors_origins = opts.cors_origins;
  out.trusted_proxies = opts.trusted_proxies;
  out.page = !opts.no_page;
  out.ollama = opts.api_ollama.value_or(opts.api_key_file.empty());
  out.request_template = opts.allow_request_template;
  out.parse_special_in_chat = opts.parse_special_in_chat;
  out.strict_fields = opts.strict_fields;
  out.null_usage = !opts.no_null_usage;
  out.system_tokens_min = opts.cache_min_tokens;
  out.slots_endpoint = opts.slots_endpoint;
  out.matryoshka = opts.matryoshka;
  out.response_store_bytes = std::size_t{opts.response_store_mib} << 20U;
  out.connections.connections_max = opts.max_connections;
  out.connections.connections_per_address = opts.max_connections_per_address;
  out.connections.write_timeout = std::chrono::seconds(opts.write_timeout_sec);
  out.connections.body_bytes_max = body_bytes_max(opts, context_tokens);
  return out;
}

}  // namespace orcd::app
