// Everything an operator can set, read once and checked: command line, then environment
// (WORKER_ORCD_<OPTION>), then the file named by --config, then defaults. No other code reads argv or
// the environment. Source: M0-W-1100, M0-W-1101, WORK-3010; RoPE options: seed 002.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/model/kv_type.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/narration.hpp"
#include "net/server.hpp"

namespace orcd::app {

enum class backend_kind { cuda, host };
enum class log_format { json, console };

/// A GPU by index or, when `uuid` is not empty, by NVML UUID ("GPU-...").
struct gpu_selector {
  std::uint32_t index = 0;
  std::string uuid;
};

struct options {
  std::string worker_id;                ///< UUID, lower case; generated when none was given
  std::string model;                    ///< path, file: URI or shm:/name
  std::string tokenizer;                ///< path, or empty for the model's own
  std::string chat_template;            ///< path, or empty for the model's own
  bool allow_request_template = false;  ///< a chat request may bring its own
  backend_kind backend = backend_kind::cuda;
  gpu_selector gpu;
  bool no_pinned = false;                  ///< CUDA backend: load without pinned staging
  bool verify = false;                     ///< look at every scale of the model while it loads
  std::uint32_t residency_check_sec = 60;  ///< 0 = off
  std::uint32_t threads = 0;               ///< host backend; 0 = one per core

  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  ///< 0 = any free port
  std::string callback_url;
  std::string public_uri;  ///< empty: made from host and port
  std::uint32_t max_connections = 1'024;
  std::uint64_t max_body_bytes = 1'048'576;
  net::metrics_compat compat = net::metrics_compat::none;
  std::string api_key_file;               ///< path, or empty: everybody may
  std::vector<std::string> cors_origins;  ///< empty: no page of another origin
  bool no_page = false;                   ///< nothing at GET /

  std::uint32_t max_tokens_in = 0;  ///< 0 = the context
  std::uint32_t max_tokens_out = 2'048;
  std::uint32_t max_prompt_chars = 32'768;
  std::uint32_t inference_timeout_sec = 300;
  net::deadline_mode deadlines = net::deadline_mode::enforce;
  std::uint32_t drain_timeout_sec = 30;
  std::uint32_t slots = 1;
  std::uint32_t max_queue = 8;
  std::uint32_t context = 0;           ///< tokens per slot; 0 = the model's
  std::uint32_t kv_cache_size_mb = 0;  ///< MiB; 0 = whatever slots * context needs
  std::uint32_t kv_tokens = 0;         ///< positions of the KV cache; 0 = slots * context
  bool no_prefix_cache = false;
  std::uint32_t cache_min_tokens = 100;
  std::uint32_t imc_sessions = 1;
  std::uint32_t system_prompts = 4;
  engine::kv_type kv_type_k = engine::kv_type::f16;
  engine::kv_type kv_type_v = engine::kv_type::f16;
  engine::rope_overrides rope;
  std::optional<engine::pooling_kind> pooling;  ///< none: the model's own
  bool matryoshka = false;                      ///< `dimensions` may be less than the model's

  log_format format = log_format::json;
  engine::severity log_level = engine::severity::info;

  std::string journal_stream;         ///< systemd's JOURNAL_STREAM, "device:inode"
  std::vector<std::string> warnings;  ///< to be narrated once, when the worker starts
};

using environment = std::vector<std::pair<std::string, std::string>>;
/// Returns a config file's text or says why it cannot be read.
using file_reader = std::function<engine::result<std::string>(const std::string& path)>;

/// What the command line asks for.
struct command {
  enum class kind { run, print };
  kind what = kind::run;
  options opts;      ///< run
  std::string text;  ///< print: the answer to --help or --version
};

/// Reads and checks all sources; `args` is without the program's name. An error (invalid_request) is
/// one sentence that names the option, where the value came from, the value and the range; `param`
/// is the option.
[[nodiscard]] engine::result<command> parse_options(std::span<const std::string> args, const environment& env,
                                                    const file_reader& read);

/// The process environment.
[[nodiscard]] environment current_environment();
/// Reads a file of at most 1 MiB.
[[nodiscard]] engine::result<std::string> read_config_file(const std::string& path);

[[nodiscard]] std::string help_text();
[[nodiscard]] std::string version_text();
[[nodiscard]] const char* version() noexcept;  ///< "0.1.0"
[[nodiscard]] const char* to_string(backend_kind kind) noexcept;

}  // namespace orcd::app
