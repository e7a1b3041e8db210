// The server's configuration, and the parts of the worker that it serves from.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "net/http/current_keys.hpp"
#include "net/http/forwarded.hpp"
#include "net/http/request_gate.hpp"
#include "net/jobs/background_queue.hpp"
#include "net/limits.hpp"

namespace orcd::engine {
class admission;
class chat_format;
class job_service;
class pair_format;
class media_input;
class narrator;
class tokenizer;
class worker_state;
struct memory_counts;
struct worker_identity;
namespace grammar {
class token_table;
}
}  // namespace orcd::engine

namespace orcd::net {

class adapter_registry;
class trace_exporter;

/// The names that /metrics has besides the worker's own: none, or those of vLLM, for scrapers that read
/// these.
enum class metrics_compat { none, vllm };

struct server_config {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0 = any free port
  request_limits execute;  ///< of /execute
  request_limits model;    ///< of all other endpoints: the model's own, unless the operator has set one
  connection_limits connections;
  /// /health and /live say so when a job runs and no step has ended for this long.
  std::chrono::seconds stall_threshold{30};
  metrics_compat compat = metrics_compat::none;
  current_keys keys;                                  ///< empty: every request is served
  std::vector<std::string> cors_origins;              ///< see cors.hpp; empty: no page of another origin
  host_rules hosts;                                   ///< the names that a Host field may hold
  std::vector<proxy_network> trusted_proxies;         ///< whose X-Forwarded-For counts; empty: nobody's
  bool page = true;                                   ///< GET / answers with a page
  bool ollama = true;                                 ///< ollama's API is served
  bool request_template = false;                      ///< a request may bring its own chat template
  boost::json::object template_defaults;              ///< of its variables, where a request sets none
  std::optional<std::uint32_t> reasoning_tokens_max;  ///< of a chat that does not say it; nothing: no limit
  bool parse_special_in_chat = false;    ///< special tokens are recognised in the text of messages
  bool strict_fields = false;            ///< fields that cannot change an answer are refused
  bool null_usage = true;                ///< chunks before the one with the usage say "usage": null
  std::uint32_t system_tokens_min = 1;   ///< the prefix cache keeps no shorter system prompts
  bool slots_endpoint = false;           ///< GET /slots tells which slots work
  std::size_t response_store_bytes = 0;  ///< of responses that are kept; 0 = none are
  bool matryoshka = false;               ///< the first numbers of an embedding are an embedding too
};

/// The parts of the worker that the server uses; all outlive it.
struct server_context {
  engine::job_service& jobs;
  engine::admission& admission;
  engine::worker_state& state;
  const engine::worker_identity& identity;
  const engine::tokenizer& tokenizer;
  engine::narrator& narrator;
  std::function<void()> request_shutdown;           ///< POST /shutdown
  std::function<engine::memory_counts()> memory{};  ///< unset: all 0. Must not wait.
  const engine::chat_format* chat = nullptr;        ///< null: no chat completions
  /// The vocabulary as constrained outputs need it; null: response_format and forced calls are refused.
  std::shared_ptr<const engine::grammar::token_table> tokens{};
  /// Has a background task done (background_threads.hpp). A task posts its result to the io thread and reads
  /// what the server reads, so that the threads must end before the io_context and the server. Unset: tasks
  /// are done on the io thread.
  background_runner background{};
  const engine::pair_format* pairs = nullptr;   ///< of a model that ranks
  const engine::media_input* media = nullptr;   ///< null: none are taken
  std::function<std::string()> more_metrics{};  ///< families that /metrics has besides the server's own
  adapter_registry* adapters = nullptr;         ///< null: there are none
  trace_exporter* traces = nullptr;             ///< takes the spans of requests; null: there are none
};

}  // namespace orcd::net
