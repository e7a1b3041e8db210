// Everything an operator can set, with its default. app/options/parse_options.hpp fills it.
// Source: M0-W-1100, M0-W-1101, WORK-3010.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/process/narration_format.hpp"
#include "app/process/signal_policy.hpp"
#include "engine/base/narration.hpp"
#include "engine/model/boundary_budget.hpp"
#include "engine/model/kv_type.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/served/sampling_defaults.hpp"
#include "net/jobs/server_config.hpp"
#include "net/traces/trace_context.hpp"

namespace orcd::app {

enum class backend_kind { cuda, host };

/// A GPU by index or, when `uuid` is not empty, by NVML UUID ("GPU-...").
struct gpu_selector {
  std::uint32_t index = 0;
  std::string uuid;
};

/// Whether an engine has its connections from a holder.
enum class holder_use {
  automatic,  ///< if the holder's socket is there when the engine starts
  off,        ///< never: it has a port of its own
  require,    ///< always
};

/// Of an engine that shares its serving port and a lock with others; used where `dir` is set.
struct failover_options {
  std::string dir;        ///< the folder of the lock; empty: the worker is alone
  std::string lock_path;  ///< empty: failover.lock in `dir`
  std::uint32_t engine_id = 0;
  std::uint32_t lock_poll_ms = 0;     ///< 0: it waits in the kernel
  std::optional<std::uint16_t> port;  ///< of the system port; 0 = none; nullopt: 9090 + engine_id
  bool port_given = false;            ///< by the operator; else the next free one does as well
  std::uint32_t waking_timeout_ms = 10'000;
  bool starts_healthy = false;   ///< /health of the system port while the model loads
  bool endpoint_health = false;  ///< /health of the system port follows the serving endpoint alone
  holder_use holder = holder_use::automatic;
  holder_use share_weights = holder_use::off;  ///< with the other engines of the device, by the holder
  std::string weights_dir;                     ///< the folder of the weights' sockets; empty: `dir`
  bool standby_unmaps = false;                 ///< a waiting engine does not map the weights that are shared
  std::uint32_t remap_timeout_ms = 30'000;     ///< for that to be made up for
  std::uint32_t spared_kv_tokens =
      4'096;                  ///< positions of the shared KV cache that are left to the next engine
  std::uint32_t replays = 2;  ///< engines that may end with a request before it is given up; 0: none goes on
};

/// Where the spans of requests are sent.
struct trace_options {
  std::string endpoint;            ///< http:// or https://; empty: nowhere
  bool endpoint_is_whole = false;  ///< it has the path of the traces already
  std::optional<double> ratio;     ///< --trace-ratio; nullopt: as the sampler says
  net::trace_sampler sampler;
  std::string service_name;  ///< empty: the resource's, or worker-orcd
  std::vector<std::pair<std::string, std::string>> resource;
};

struct adapter_option {
  std::string name;
  std::string path;
  float scale = 1.0F;
};

struct adapter_options {
  std::vector<adapter_option> at_start;
  std::uint32_t count = 0;  ///< that there is room for; 0 = as few as can be
  std::uint32_t rank = 0;   ///< the highest; 0 = likewise
  std::string folder;       ///< from which clients may have others loaded; empty: they may not
  bool unapplied = false;   ///< those of the start are applied to requests that ask for them alone
};

struct media_options {
  std::string projector;  ///< path, file: URI or shm:/name; empty: no media are taken
  std::uint32_t image_tokens_max = 4'096;
  std::uint64_t image_bytes_max = 20ULL << 20U;
  std::uint64_t image_pixels_max = 50'000'000;
  std::uint32_t images_max = 16;  ///< or sounds, of a request
  std::uint64_t audio_bytes_max = 20ULL << 20U;
  std::uint32_t audio_seconds_max = 600;
  std::uint32_t cache_mib = 64;  ///< beside what running requests need
  bool limits_given = false;
};

struct options {
  std::string worker_id;                 ///< UUID, lower case; generated when none was given
  std::string model;                     ///< path, file: URI or shm:/name
  std::vector<std::string> model_names;  ///< what clients call it, "*" for any name; empty: as its file
  std::string tokenizer;                 ///< path, or empty for the model's own
  std::string tokenizer_pre;             ///< instead of the file's tokenizer.ggml.pre, or empty
  std::string chat_template;             ///< path, or empty for the model's own
  bool no_default_template = false;      ///< no ChatML for a file without a template
  bool allow_request_template = false;   ///< a chat request may bring its own
  bool parse_special_in_chat = false;    ///< special tokens are recognised in the text of messages
  bool strict_fields = false;            ///< fields that cannot change an answer are refused
  bool no_null_usage = false;            ///< chunks before the last do not say "usage": null
  backend_kind backend = backend_kind::cuda;
  gpu_selector gpu;
  std::uint32_t gpu_wait_sec = 0;          ///< how long a start waits for a GPU to appear
  bool no_pinned = false;                  ///< CUDA backend: load without pinned staging
  bool verify = false;                     ///< check that every scale of the model is finite
  std::uint32_t residency_check_sec = 60;  ///< 0 = off
  std::uint32_t threads = 0;               ///< host backend; 0 = one per core

  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  ///< 0 = any free port
  bool host_given = false;    ///< by the operator; a passed socket must have it then
  bool port_given = false;
  int listener = -1;  ///< a socket that listens already at `host` and `port`; -1: none was passed
  std::string callback_url;
  std::string public_uri;     ///< empty: made from host and port
  std::string discovery_url;  ///< etcd://HOST:PORT; empty: the worker is listed nowhere
  std::string discovery_prefix = "/worker-orcd";
  std::uint32_t max_connections = 1'024;
  std::uint32_t max_connections_per_address = 0;  ///< 0 = any number
  std::uint32_t write_timeout_sec = 15;
  std::uint64_t max_body_bytes = 0;  ///< 0 = see body_bytes_max()
  net::metrics_compat compat = net::metrics_compat::none;
  std::string api_key_file;                         ///< path, or empty: every request is served
  std::vector<std::string> cors_origins;            ///< empty: no page of another origin
  std::vector<net::proxy_network> trusted_proxies;  ///< whose X-Forwarded-For the log believes
  std::vector<std::string> allowed_hosts;  ///< names that a Host field may hold besides the worker's own
  bool no_page = false;                    ///< nothing at GET /
  std::optional<bool> api_ollama;          ///< below /api; nullopt: where no API key is needed

  std::uint32_t max_tokens_in = 0;     ///< 0 = the context
  std::uint32_t max_tokens_out = 0;    ///< 0 = 2,048 on /execute, elsewhere what fits
  std::uint32_t max_prompt_chars = 0;  ///< 0 = 32,768 on /execute, elsewhere what fits
  std::uint32_t inference_timeout_sec = 300;
  net::deadline_mode deadlines = net::deadline_mode::enforce;
  std::uint32_t drain_timeout_sec = drain_default.count();
  std::uint32_t slots = 1;
  std::uint32_t max_queue = 8;
  std::uint32_t context = 0;           ///< tokens per slot; 0 = the model's
  std::uint32_t kv_cache_size_mb = 0;  ///< MiB; 0 = whatever slots * context needs
  std::uint32_t kv_tokens = 0;         ///< positions of the KV cache; 0 = slots * context
  engine::boundary_budget prefix_boundaries{};
  std::uint32_t prefill_chunk = 0;  ///< prompt tokens of a step; 0 = by the model
  bool no_prefix_cache = false;
  bool speculate = true;            ///< steps check drafts of the next tokens where that pays
  std::uint32_t drafts_always = 0;  ///< so many, whatever they cost; 0 = as many as pay
  std::uint32_t cache_min_tokens = 100;
  std::uint32_t imc_sessions = 1;
  std::uint32_t system_prompts = 4;
  engine::kv_type kv_type_k = engine::kv_type::f16;
  engine::kv_type kv_type_v = engine::kv_type::f16;
  engine::rope_overrides rope;
  engine::sampling_values sampling;   ///< of requests that do not say it; else as the file has it
  std::optional<std::uint64_t> seed;  ///< likewise; nullopt: another one for each request
  std::string template_kwargs;        ///< variables of the chat template, a JSON object; empty: none
  std::optional<std::uint32_t> reasoning_budget;  ///< tokens of such a chat's reasoning; nullopt: no limit
  std::optional<bool> reasoning;                ///< what such a request tells the template; nullopt: nothing
  std::optional<engine::pooling_kind> pooling;  ///< nullopt: the model's own
  std::optional<engine::ffn_activation> ffn_activation;  ///< likewise
  std::uint32_t response_store_mib = 0;                  ///< of kept responses; 0 = none are
  bool slots_endpoint = false;                           ///< GET /slots
  bool matryoshka = false;                               ///< `dimensions` may be less than the model's

  adapter_options adapters;
  media_options media;
  failover_options failover;
  trace_options traces;

  log_format format = log_format::json;
  engine::severity log_level = engine::severity::info;

  std::string journal_stream;         ///< systemd's JOURNAL_STREAM, "device:inode"
  std::vector<std::string> warnings;  ///< to be narrated once, when the worker starts
};

[[nodiscard]] const char* to_string(backend_kind kind) noexcept;

}  // namespace orcd::app
