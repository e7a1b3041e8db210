#include "net/llama/llama_answer.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "net/http/respond.hpp"
#include "net/http/sse.hpp"
#include "net/json/json_text.hpp"
#include "net/openai/logprob_text.hpp"

namespace orcd::net {
namespace {

/// Answers with more log probabilities than this are made on a background thread: they take some 100 ns each.
constexpr std::uint64_t probabilities_at_once_max = 4'096;

/// What the answers of all jobs have in common.
struct llama_identity {
  std::string model;
  bool stream = false;
  bool token_ids = false;
  bool probabilities = false;
  const engine::tokenizer& vocabulary;
};

/// What one job gave. Of a stream, content and tokens are sent and not kept.
struct llama_result {
  std::uint32_t index = 0;
  std::string settings;
  std::shared_ptr<const prompt_echo> prompt;
  std::string content;
  std::vector<engine::token_id> tokens;
  std::vector<logprob_entry> entries;
  bool has_new_line = false;
  std::string stop;  ///< the stop string that ended it
  engine::finish_reason reason = engine::finish_reason::stop;
  engine::job_stats stats;
};

void append_ids(std::string& out, std::span<const engine::token_id> ids) {
  out += '[';
  for (std::size_t i = 0; i < ids.size(); ++i) out += (i > 0 ? "," : "") + std::to_string(ids[i]);
  out += ']';
}

std::string_view stop_type_of(const llama_result& result) {
  if (!result.stop.empty()) return "word";
  return result.reason == engine::finish_reason::length ? "limit" : "eos";
}

/// "key":TEXT before a closing brace; the text is JSON.
void append_member(std::string& out, std::string_view key, std::string_view value) {
  out += ",\"" + std::string(key) + "\":";
  out += value;
}

std::string render_result(const llama_identity& identity, const llama_result& result) {
  const auto& stats = result.stats;
  std::string out;
  json_object json(out);
  json.integer("index", result.index).text("content", result.content);
  out += ",\"tokens\":";
  append_ids(out, result.tokens);
  json.integer("id_slot", -1)
      .boolean("stop", true)
      .text("model", identity.model)
      .integer("tokens_predicted", stats.tokens_out)
      .integer("tokens_evaluated", stats.tokens_in)
      .integer("tokens_cached", stats.tokens_cached);
  append_member(out, "generation_settings", result.settings);
  json.text("prompt", result.prompt ? std::string_view(result.prompt->text) : std::string_view())
      .boolean("has_new_line", result.has_new_line)
      .boolean("truncated", false)
      .text("stop_type", stop_type_of(result))
      .text("stopping_word", result.stop);
  append_member(out, "timings", timings_of(stats));
  if (identity.probabilities && !identity.stream) {
    append_member(out, "completion_probabilities", render_probabilities(result.entries, identity.vocabulary));
  }
  json.close();
  return out;
}

class llama_output final : public job_output {
 public:
  llama_output(std::shared_ptr<const llama_identity> identity, std::shared_ptr<llama_result> result)
      : identity_(std::move(identity)), result_(std::move(result)) {}

  void started(std::string&, double, std::chrono::system_clock::time_point) override {}

  bool token(std::string& out, const output_token& token) override {
    auto& to = *result_;
    tokens_ = token.index + 1;
    text_bytes_ += token.text.size();
    to.has_new_line = to.has_new_line || token.text.find('\n') != std::string_view::npos;
    if (identity_->token_ids || identity_->stream) to.tokens.push_back(token.id);
    if (!token.logprobs.empty()) keep(token);
    if (token.stopped) {
      to.stop = token.stop;
      std::erase_if(to.entries, [this](const auto& e) { return e.first_byte >= text_bytes_; });
    }
    write(out, token.text);
    return false;
  }

  void tail(std::string& out, std::string_view text, std::uint32_t) override { write(out, text); }

  void ended(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) override {
    auto& to = *result_;
    to.reason = reason;
    to.stats = stats;
    if (!identity_->stream) return;
    if (!to.entries.empty()) write_chunk(out, {});
    to.tokens.clear();
    out += "data: " + render_result(*identity_, to) + "\n\n";
  }

  void failed(std::string& out, const engine::error& failure) override {
    if (identity_->stream) out += "data: " + make_error_reply(failure).body + "\n\n";
  }

  void keep_alive(std::string& out) override {
    if (identity_->stream) append_keep_alive(out);
  }

 private:
  void keep(const output_token& token) {
    result_->entries.push_back({{token.logprobs.begin(), token.logprobs.end()}, token_bytes_, 0});
    scratch_.clear();
    identity_->vocabulary.append_bytes(token.id, scratch_);
    token_bytes_ += scratch_.size();
  }

  void write(std::string& out, std::string_view text) {
    if (text.empty()) return;
    if (!identity_->stream) {
      result_->content += text;
    } else {
      write_chunk(out, text);
    }
  }

  /// A chunk with the tokens whose text it completes.
  void write_chunk(std::string& out, std::string_view text) {
    auto& to = *result_;
    out += "data: ";
    json_object json(out);
    json.integer("index", to.index).text("content", text);
    out += ",\"tokens\":";
    append_ids(out, to.tokens);
    json.boolean("stop", false)
        .integer("id_slot", -1)
        .integer("tokens_predicted", tokens_)
        .integer("tokens_evaluated", to.stats.tokens_in);
    if (identity_->probabilities) {
      append_member(out, "completion_probabilities", render_probabilities(to.entries, identity_->vocabulary));
    }
    json.close();
    out += "\n\n";
    to.tokens.clear();
    to.entries.clear();
  }

  std::shared_ptr<const llama_identity> identity_;
  std::shared_ptr<llama_result> result_;
  std::uint32_t tokens_ = 0;     ///< so far
  std::size_t text_bytes_ = 0;   ///< bytes of all text so far
  std::size_t token_bytes_ = 0;  ///< bytes of all tokens so far
  std::string scratch_;
};

std::string render_all(const llama_identity& identity,
                       const std::vector<std::shared_ptr<llama_result>>& results) {
  if (results.size() == 1) return render_result(identity, *results.front());
  std::string out = "[";
  for (const auto& result : results) {
    if (out.size() > 1) out += ',';
    out += render_result(identity, *result);
  }
  return out + "]";
}

double per(double amount, double of) {
  return of > 0 ? amount / of : 0.0;
}

}  // namespace

std::string timings_of(const engine::job_stats& stats) {
  const double prompt = stats.tokens_in - stats.tokens_cached;
  std::string out;
  json_object json(out);
  json.integer("cache_n", stats.tokens_cached)
      .integer("prompt_n", stats.tokens_in - stats.tokens_cached)
      .number("prompt_ms", stats.prefill_ms)
      .number("prompt_per_token_ms", per(stats.prefill_ms, prompt))
      .number("prompt_per_second", per(prompt * 1e3, stats.prefill_ms))
      .integer("predicted_n", stats.tokens_out)
      .number("predicted_ms", stats.decode_ms)
      .number("predicted_per_token_ms", per(stats.decode_ms, stats.tokens_out))
      .number("predicted_per_second", per(stats.tokens_out * 1e3, stats.decode_ms));
  json.close();
  return out;
}

std::string generation_settings(const engine::job_request& job, const completion_request& asked) {
  const auto& sampling = job.sampling;
  std::string out;
  json_object json(out);
  json.integer("n_predict", job.max_tokens)
      .integer("max_tokens", job.max_tokens)
      .integer("seed", job.seed)
      .number("temperature", sampling.temperature, 6)
      .integer("top_k", sampling.top_k)
      .number("top_p", sampling.top_p, 6)
      .number("min_p", sampling.min_p, 6)
      .number("repeat_penalty", sampling.repetition_penalty, 6)
      .number("presence_penalty", sampling.presence_penalty, 6)
      .number("frequency_penalty", sampling.frequency_penalty, 6)
      .integer("repeat_last_n", sampling.repeat_last_n)
      .integer("n_probs", asked.logprobs ? asked.top_logprobs : 0U)
      .boolean("ignore_eos", job.ignore_eos)
      .boolean("stream", asked.stream);
  out += ",\"stop\":[";
  for (const auto& stop : asked.stop) {
    if (out.back() != '[') out += ',';
    append_json_string(out, stop);
  }
  out += ']';
  json.close();
  return out;
}

written_answer make_llama_answer(const prepared_completion& prepared, std::string model,
                                 const engine::tokenizer& vocabulary) {
  const auto& asked = prepared.asked;
  const auto identity = std::make_shared<const llama_identity>(
      llama_identity{std::move(model), asked.stream, asked.token_ids, asked.logprobs, vocabulary});
  std::vector<std::shared_ptr<llama_result>> results;
  written_answer out;
  std::uint64_t probabilities = 0;
  for (std::uint32_t i = 0; i < prepared.jobs.size(); ++i) {
    const auto& job = prepared.jobs[i];
    auto result = std::make_shared<llama_result>();
    result->index = i;
    result->settings = generation_settings(job, asked);
    result->prompt = prepared.echoes.at(i / asked.choices);
    result->stats.tokens_in = job.tokens_in();
    out.outputs.push_back(std::make_unique<llama_output>(identity, result));
    results.push_back(std::move(result));
    probabilities += asked.logprobs ? std::uint64_t{job.max_tokens} * (1 + asked.top_logprobs) : 0;
  }
  out.plan.streams = asked.stream;
  out.plan.body = [identity, results] { return render_all(*identity, results); };
  out.plan.body_in_background = probabilities > probabilities_at_once_max;
  return out;
}

}  // namespace orcd::net
