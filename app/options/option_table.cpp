#include "app/options/option_table.hpp"

#include <array>
#include <limits>
#include <type_traits>

#include "engine/accelerator.hpp"
#include "engine/base/prompt_tokens.hpp"
#include "engine/text/split/pretokenizer.hpp"
#include "net/discovery/etcd_messages.hpp"
#include "net/http/cors.hpp"
#include "net/http/request_gate.hpp"
#include "net/status/ready_callback.hpp"

namespace orcd::app {
namespace {

using text_view = std::string_view;

/// One object for all rows: temporary ones make g++ 12 warn of what it inlines of their destructors.
const options& defaults() {
  static const options values;
  return values;
}

std::string range_text(std::uint64_t low, std::uint64_t high, bool zero) {
  return (zero && low > 0 ? "0 or " : "") + std::to_string(low) + " to " + std::to_string(high);
}

/// An unsigned integer in [low, high]; also 0 if `zero` says what that means.
template <class T>
option_row integer(std::string name, T options::*member, std::uint64_t low, std::uint64_t high,
                   const std::string& text, const std::string& unit, const std::string& zero = "") {
  static_assert(std::is_unsigned_v<T>);
  const auto range = range_text(low, high, !zero.empty());
  std::string help = text + " (" + (unit.empty() ? "" : unit + ", ") + range + ", default " +
                     std::to_string(defaults().*member) + (zero.empty() ? "" : ", 0 = " + zero) + ")";
  return {"", std::move(name), "N", std::move(help),
          [=, with_zero = !zero.empty()](text_view value, options& out) -> requirement {
            const auto number = parse_unsigned(value);
            const bool fits = number && ((*number >= low && *number <= high) || (with_zero && *number == 0));
            if (!fits) return "must be an integer, " + range + (unit.empty() ? "" : " " + unit);
            out.*member = static_cast<T>(*number);
            return std::nullopt;
          }};
}

/// A flag, false by default; on the command line it needs no value.
option_row flag(std::string name, bool options::*member, const std::string& text) {
  return {"",
          std::move(name),
          "true|false",
          text + " (default false)",
          [=](text_view value, options& out) -> requirement {
            if (value != "true" && value != "false") return "must be true or false";
            out.*member = value == "true";
            return std::nullopt;
          },
          "true"};
}

/// One of a few words.
template <class T, std::size_t N>
option_row choice(std::string name, T options::*member, std::array<std::pair<const char*, T>, N> words,
                  const std::string& text) {
  std::string list;
  std::string standard;
  for (const auto& [word, value] : words) {
    list += (list.empty() ? "" : "|") + std::string(word);
    if (value == defaults().*member) standard = word;
  }
  return {"", std::move(name), list, text + " (default " + standard + ")",
          [=](text_view value, options& out) -> requirement {
            for (const auto& [word, meaning] : words) {
              if (value == word) {
                out.*member = meaning;
                return std::nullopt;
              }
            }
            return "must be one of " + list;
          }};
}

requirement assign_model(text_view value, options& out) {
  constexpr text_view shm = "shm:";
  constexpr std::size_t location_max = 4'096;
  constexpr std::size_t shm_name_max = 255;
  if (value.empty() || value.size() > location_max || value.find('\0') != text_view::npos) {
    return "must be a path, file: URI or shm:/name of 1 to 4096 bytes";
  }
  if (value.substr(0, shm.size()) == shm) {
    const auto name = value.substr(shm.size());
    if (name.size() < 2 || name.size() > shm_name_max || name[0] != '/' ||
        name.find('/', 1) != text_view::npos) {
      return "must name a shared-memory object as shm:/name, with one slash and at most 255 bytes";
    }
  }
  out.model = value;
  return std::nullopt;
}

requirement assign_model_names(text_view value, options& out) {
  auto names = parse_model_names(value);
  if (!names)
    return "must be up to 64 names of 1 to 256 bytes of UTF-8 without control characters, each given once, "
           "with commas between";
  out.model_names = std::move(*names);
  return std::nullopt;
}

requirement assign_api_ollama(text_view value, options& out) {
  if (value != "true" && value != "false") return "must be true or false";
  out.api_ollama = value == "true";
  return std::nullopt;
}

requirement assign_path(text_view value, std::string& out) {
  constexpr std::size_t path_max = 4'096;
  if (value.empty() || value.size() > path_max) return "must be a path of 1 to 4096 bytes";
  out = value;
  return std::nullopt;
}

requirement assign_tokenizer_pre(text_view value, options& out) {
  if (!engine::find_preset(value)) return "must be one of: " + std::string(engine::preset_names());
  out.tokenizer_pre = value;
  return std::nullopt;
}

requirement assign_worker_id(text_view value, options& out) {
  auto id = parse_uuid(value);
  if (!id) return "must be a UUID such as 123e4567-e89b-12d3-a456-426614174000";
  out.worker_id = std::move(*id);
  return std::nullopt;
}

requirement assign_gpu(text_view value, options& out) {
  auto gpu = parse_gpu(value);
  if (!gpu)
    return "must be a device index, 0 to 1023, or a UUID such as GPU-123e4567-e89b-12d3-a456-426614174000";
  out.gpu = std::move(*gpu);
  return std::nullopt;
}

requirement assign_host(text_view value, options& out) {
  auto address = parse_address(value);
  if (!address) return "must be an IPv4 or IPv6 address or localhost";
  out.host = std::move(*address);
  return std::nullopt;
}

requirement assign_callback(text_view value, options& out) {
  const auto checked = net::validate_callback_url(std::string(value));
  if (!checked) return "must be an http:// or https:// URL; " + checked.error().message;
  out.callback_url = value;
  return std::nullopt;
}

requirement assign_discovery_url(text_view value, options& out) {
  const auto checked = net::parse_etcd_url(value);
  if (!checked) return "must be etcd://HOST:PORT; it " + checked.error().message;
  out.discovery_url = value;
  return std::nullopt;
}

requirement assign_discovery_prefix(text_view value, options& out) {
  const auto checked = net::check_etcd_prefix(value);
  if (!checked) return checked.error().message;
  out.discovery_prefix = value;
  return std::nullopt;
}

requirement assign_public_uri(text_view value, options& out) {
  constexpr std::size_t uri_max = 2'048;
  const bool scheme = value.substr(0, 7) == "http://" || value.substr(0, 8) == "https://";
  const bool host = scheme && value.size() > value.find("://") + 3;
  bool clean = true;
  for (const char c : value) clean = clean && c > ' ' && c < 0x7f;
  if (!host || !clean || value.size() > uri_max) {
    return "must be an http:// or https:// URI of at most 2048 printable ASCII characters";
  }
  out.public_uri = value;
  return std::nullopt;
}

requirement assign_origins(text_view value, options& out) {
  auto origins = net::parse_origins(value);
  if (!origins) return origins.error().message;
  out.cors_origins = std::move(*origins);
  return std::nullopt;
}

requirement assign_proxies(text_view value, options& out) {
  auto proxies = net::parse_proxies(value);
  if (!proxies) return proxies.error().message;
  out.trusted_proxies = std::move(*proxies);
  return std::nullopt;
}

requirement assign_hosts(text_view value, options& out) {
  auto names = net::parse_host_names(value);
  if (!names) return names.error().message;
  out.allowed_hosts = std::move(*names);
  return std::nullopt;
}

requirement assign_port(text_view value, options& out) {
  return assign_port_to(out.port, value);
}

std::vector<option_row> identity_rows() {
  return {
      {"", "worker-id", "UUID", "Identifier of this worker (default: a random UUID)", assign_worker_id},
      {"", "model", "LOCATION",
       "GGUF model: the path or file: URI of a file or of its folder, or shm:/name (required)", assign_model},
      {"", "model-name", "NAME",
       "What clients call the model, the first in answers, * for any name; may be repeated or a list with "
       "commas between (default: the file's name in lower case)",
       assign_model_names, "", "", true},
      {"", "tokenizer", "PATH",
       "tokenizer.json to use instead of the model's own (default: the model's, else tokenizer.json beside "
       "it)",
       [](text_view value, options& out) { return assign_path(value, out.tokenizer); }},
      {"", "tokenizer-pre", "NAME",
       "Pre-tokenizer of a BPE vocabulary, as files name it (default: the model's tokenizer.ggml.pre)",
       assign_tokenizer_pre},
      {"", "chat-template", "PATH",
       "Jinja chat template to use instead of the model's own (default: the model's)",
       [](text_view value, options& out) { return assign_path(value, out.chat_template); }},
      flag("no-default-template", &options::no_default_template,
           "Refuse chats with a model without a chat template, which are written as ChatML otherwise"),
  };
}

std::vector<option_row> device_rows() {
  constexpr std::array<std::pair<const char*, backend_kind>, 2> backends{
      {{"cuda", backend_kind::cuda}, {"host", backend_kind::host}}};
  return {
      choice("backend", &options::backend, backends,
             "Where the model computes; host is for development and never chosen by itself"),
      {"", "gpu-device", "GPU", "CUDA device: index (0 to 1023) or UUID (default 0); also --gpu", assign_gpu,
       "", "gpu"},
      integer("gpu-wait-sec", &options::gpu_wait_sec, 1, 3'600,
              "How long a start waits for a GPU that is not there yet", "s", "fail at once"),
      flag("no-pinned", &options::no_pinned,
           "Load without pinned host memory: slower, for hosts that limit it"),
      flag("verify", &options::verify,
           "Refuse a model with a scale or an unquantized value that is NaN or infinite: reads every byte"),
      integer("residency-check-sec", &options::residency_check_sec, 1, 86'400,
              "How often it is checked that the model is still in VRAM", "s", "never"),
      integer("threads", &options::threads, 1, 1'024, "CPU threads of the host backend", "threads",
              "one per core"),
      integer("context", &options::context, 16, 1'048'576, "Positions per slot", "tokens", "the model's own"),
      integer("slots", &options::slots, 1, 256, "Requests computed at the same time", ""),
      integer("kv-cache-size-mb", &options::kv_cache_size_mb, 1, 16'777'216,
              "Upper limit of the KV cache; a plan that needs more is refused", "MiB",
              "what slots and context need"),
      choice("kv-type-k", &options::kv_type_k, engine::kv_type_words,
             "How keys are kept; q8_0 takes 17/32 of the bytes of f16, f32 is of the host backend alone"),
      choice("kv-type-v", &options::kv_type_v, engine::kv_type_words, "How values are kept"),
  };
}

requirement assign_pooling(text_view value, options& out) {
  out.pooling = engine::pooling_named(value);
  if (!out.pooling) return "must be none, mean, cls, last or rank";
  return std::nullopt;
}

requirement assign_ffn_activation(text_view value, options& out) {
  out.ffn_activation = engine::gated_activation_named(value);
  if (!out.ffn_activation) return "must be silu or relu2";
  return std::nullopt;
}

requirement assign_speculate(text_view value, options& out) {
  const auto number = parse_unsigned(value);
  const bool counted = number && *number >= 1 && *number <= engine::drafts_max;
  if (!counted && value != "auto" && value != "off")
    return "must be auto, off or an integer, 1 to " + std::to_string(engine::drafts_max);
  out.speculate = value != "off";
  out.drafts_always = counted ? static_cast<std::uint32_t>(*number) : 0;
  return std::nullopt;
}

requirement assign_prefix_boundaries(text_view value, options& out) {
  const auto budget = engine::parse_boundary_budget(value);
  if (!budget) return std::string(engine::boundary_budget_rule);
  out.prefix_boundaries = *budget;
  return std::nullopt;
}

std::vector<option_row> cache_rows() {
  return {
      integer("kv-tokens", &options::kv_tokens, 16, 268'435'456,
              "Positions of the KV cache, for all slots and for what is kept between requests; at least a "
              "context",
              "tokens", "slots times context"),
      integer("prefill-chunk", &options::prefill_chunk, engine::prompt_tokens_lowest,
              engine::prompt_tokens_limit,
              "Most prompt tokens of a step on a GPU: more save time and delay whoever decodes", "tokens",
              "512, with more than 32 slots 16 a slot up to 2048"),
      flag("no-prefix-cache", &options::no_prefix_cache, "Keep nothing between requests"),
      integer("cache-min-tokens", &options::cache_min_tokens, 1, 1'048'576,
              "Shorter prefixes are computed again", "tokens"),
      {"", "prefix-boundaries", "SHARE%|MIB",
       "Memory for positions at which prefixes can be shared, of models with sliding windows: a share of "
       "what the KV cache would take without windows, or MiB; 0 shares none (default 12.5%)",
       assign_prefix_boundaries},
      {"", "speculate", "auto|off|N",
       "Whether a step checks guesses of the tokens that come next, which changes no output: as many as pay "
       "on a "
       "GPU, never, or N for every request with a guess (1 to 15, default auto)",
       assign_speculate},
      integer("imc-sessions", &options::imc_sessions, 0, 4'096,
              "Sessions (imc_id) whose last state is kept longer than other prefixes", ""),
      integer("system-prompts", &options::system_prompts, 0, 4'096,
              "System prompts that are kept longer than other prefixes", ""),
  };
}

std::vector<option_row> http_rows() {
  constexpr std::array<std::pair<const char*, net::metrics_compat>, 2> compats{
      {{"none", net::metrics_compat::none}, {"vllm", net::metrics_compat::vllm}}};
  return {
      {"", "host", "ADDRESS", "Address to listen on: IPv4, IPv6 or localhost (default 127.0.0.1)",
       assign_host},
      {"", "port", "N", "TCP port (0 or 1024 to 65535, default 8080, 0 = any free port)", assign_port},
      {"", "callback-url", "URL",
       "Pool manager told when the worker listens, at URL/v2/internal/workers/ready (default: nobody)",
       assign_callback},
      {"", "public-uri", "URI", "Where others reach this worker (default: http://HOST:PORT)",
       assign_public_uri},
      {"", "discovery-url", "URL",
       "etcd that lists the worker while it serves, etcd://HOST:PORT (default: none)", assign_discovery_url},
      {"", "discovery-prefix", "KEY", "The worker's entry there is KEY/worker-id (default /worker-orcd)",
       assign_discovery_prefix},
      integer("max-connections", &options::max_connections, 1, 65'536, "Open connections", "connections"),
      integer("max-connections-per-address", &options::max_connections_per_address, 1, 65'536,
              "Of them, from one IPv4 address or one IPv6 /64", "connections", "any number"),
      integer("write-timeout-sec", &options::write_timeout_sec, 1, 3'600,
              "How long a client may leave what was sent to it unread", "s"),
      integer("max-body-bytes", &options::max_body_bytes, 1'024, 67'108'864, "Size of a request body",
              "bytes", "1 MiB, or 32 for each token of the context where that is more"),
      choice("metrics-compat", &options::compat, compats, "Whose metric names /metrics carries as well"),
      {"", "api-key-file", "PATH",
       "File of API keys, \"KEY [NAME] [role=operator]\" a line; all but health, metrics and the page then "
       "need "
       "one, and what concerns all clients an operator's (default: none)",
       [](text_view value, options& out) { return assign_path(value, out.api_key_file); }},
      {"", "cors-origins", "LIST",
       "Origins whose pages may read answers, with commas between; localhost for all of this machine's, or * "
       "(default: none)",
       assign_origins},
      {"", "allow-host", "LIST",
       "Names that requests may ask for beside the worker's own, with commas between; others are refused on "
       "a "
       "loopback address, without API keys, and wherever this is given (default: none)",
       assign_hosts},
      {"", "trusted-proxies", "LIST",
       "Proxies whose X-Forwarded-For says who asked, for the log: addresses or networks, with commas "
       "between "
       "(default: none)",
       assign_proxies},
      flag("no-page", &options::no_page, "Serve no page at /"),
      {"", "api-ollama", "true|false",
       "Serve ollama's API, below /api (default: true without --api-key-file, false with it)",
       assign_api_ollama, "true"},
  };
}

std::vector<option_row> request_rows() {
  constexpr std::array<std::pair<const char*, net::deadline_mode>, 2> deadlines{
      {{"enforce", net::deadline_mode::enforce}, {"log", net::deadline_mode::log}}};
  return {
      integer("max-prompt-chars", &options::max_prompt_chars, 1, 16'777'216, "Length of a prompt",
              "code points", "32768 on /execute, elsewhere what the context holds"),
      integer("max-tokens-in", &options::max_tokens_in, 1, 1'048'576, "Prompt tokens of a request", "tokens",
              "the context"),
      integer("max-tokens-out", &options::max_tokens_out, 1, 1'048'576, "Output tokens of a request",
              "tokens", "2048 on /execute, elsewhere what the context holds"),
      {"", "pooling", "none|mean|cls|last|rank",
       "Serve embeddings, or with rank scores, made in this way, and generate nothing (default: the model's)",
       assign_pooling},
      {"", "ffn-activation", "silu|relu2",
       "The activation of the model's gated feed-forward, where its file does not say the right one "
       "(default: "
       "the model's)",
       assign_ffn_activation},
      flag("matryoshka", &options::matryoshka,
           "The first numbers of an embedding are one themselves: 'dimensions' may be less than all"),
      integer("max-queue", &options::max_queue, 0, 4'096, "Requests that may wait for a slot", "requests"),
      integer("response-store-mib", &options::response_store_mib, 1, 1'048'576,
              "Memory for responses of /v1/responses that later requests may go on from", "MiB",
              "none are kept"),
      integer("inference-timeout-sec", &options::inference_timeout_sec, 1, 86'400, "Longest request", "s"),
      flag("allow-request-template", &options::allow_request_template,
           "Let a chat request bring a chat template of its own"),
      flag("parse-special-in-chat", &options::parse_special_in_chat,
           "Recognise special tokens in the text of messages, not only in what the template writes"),
      flag("slots-endpoint", &options::slots_endpoint, "Serve GET /slots, which tells how many slots work"),
      flag("strict-fields", &options::strict_fields,
           "Refuse request fields that cannot change an answer instead of leaving them"),
      flag("no-null-usage", &options::no_null_usage,
           "Leave out \"usage\": null, which OpenAI's chunks have before the one with the usage"),
      choice("deadline-mode", &options::deadlines, deadlines, "What an X-Deadline header does"),
      integer("drain-timeout", &options::drain_timeout_sec, 0, 3'600,
              "How long running requests may go on after SIGTERM or POST /shutdown", "s"),
  };
}

std::vector<option_row> log_rows() {
  using engine::severity;
  constexpr std::array<std::pair<const char*, log_format>, 2> formats{
      {{"json", log_format::json}, {"console", log_format::console}}};
  constexpr std::array<std::pair<const char*, severity>, 4> levels{{{"debug", severity::debug},
                                                                    {"info", severity::info},
                                                                    {"warning", severity::warning},
                                                                    {"error", severity::error}}};
  return {
      choice("log-format", &options::format, formats, "JSON lines or text for people, on standard error"),
      choice("log-level", &options::log_level, levels, "Least severity that is written"),
  };
}

std::vector<option_row> make_table() {
  std::vector<option_row> table;
  const auto add = [&table](const char* group, std::vector<option_row> rows) {
    for (auto& row : rows) {
      row.group = group;
      table.push_back(std::move(row));
    }
  };
  add("Worker and model", identity_rows());
  add("Device and memory", device_rows());
  add("Prefix cache", cache_rows());
  add("HTTP", http_rows());
  add("Requests", request_rows());
  add("Where a request does not say it", sampling_rows());
  add("LoRA adapters", lora_rows());
  add("Pictures and sounds", media_rows());
  add("RoPE (replaces what the model file says)", rope_rows());
  add("Failover", failover_rows());
  add("Traces", trace_rows());
  add("Logging", log_rows());
  return table;
}

}  // namespace

const std::vector<option_row>& option_table() {
  static const std::vector<option_row> table = make_table();
  return table;
}

}  // namespace orcd::app
