#include "net/execute/execute_output.hpp"

#include "net/http/sse.hpp"
#include "net/jobs/job_execution.hpp"

namespace orcd::net {
namespace {

class execute_output final : public job_output {
 public:
  execute_output(const job_execution_config& config, bool metrics)
      : job_id_(config.job_id),
        model_(config.model),
        seed_(config.seed),
        tokens_in_(config.tokens_in),
        metrics_(metrics) {}

  void started(std::string& out, double queue_ms, std::chrono::system_clock::time_point wall) override {
    started_fields fields;
    fields.job_id = job_id_;
    fields.model = model_;
    fields.started_at = wall;
    fields.seed = seed_;
    fields.tokens_in = tokens_in_;
    fields.queue_ms = queue_ms;
    append_started(out, fields);
  }
  bool token(std::string& out, const output_token& token) override {
    if (!token.text.empty()) append_token(out, token.text, token.index);
    return false;
  }
  void tail(std::string& out, std::string_view text, std::uint32_t index) override {
    append_token(out, text, index);
  }
  void ended(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) override {
    if (metrics_) append_metrics(out, stats);
    append_end(out, reason, stats);
  }
  void failed(std::string& out, const engine::error& failure) override { append_error(out, failure); }
  void keep_alive(std::string& out) override { append_keep_alive(out); }

 private:
  std::string job_id_;
  std::string model_;
  std::uint64_t seed_;
  std::uint32_t tokens_in_;
  bool metrics_;
};

}  // namespace

std::unique_ptr<job_output> make_execute_output(const job_execution_config& config, bool metrics) {
  return std::make_unique<execute_output>(config, metrics);
}

}  // namespace orcd::net
