#include "net/llama/llama_answer.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/sampling/sampler_order.hpp"
#include "engine/served/breaker_tokens.hpp"
#include "net/completion/logprob_text.hpp"
#include "net/http/sse.hpp"
#include "net/json/json_text.hpp"
#include "net/llama/llama_request.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

/// Answers with more log probabilities than this are made on a background thread: they take some 100 ns each.
constexpr std::uint64_t probabilities_at_once_max = 4'096;

/// What the answers of all jobs have in common.
struct llama_identity {
  std::string model;
  bool stream = false;
  bool token_ids = false;
  bool probabilities = false;
  bool timings = false;               ///< in every chunk
  bool progress = false;              ///< chunks that tell how much of the prompt is computed
  std::vector<std::string> fields{};  ///< see llama_notes
  probability_kind kind = probability_kind::logprob;
  running_timing::clock now{};
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

std::string_view stop_type_of(const llama_result& result) {
  if (!result.stop.empty()) return "word";
  return result.reason == engine::finish_reason::length ? "limit" : "eos";
}

/// A member of an answer; its value is JSON.
struct member {
  std::string_view name;
  std::string value;
};

std::string in_quotes(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

/// [1,2,3]
std::string list_of(std::span<const engine::token_id> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) out += (i > 0 ? "," : "") + std::to_string(ids[i]);
  return out + "]";
}

std::vector<member> members_of(const llama_identity& identity, const llama_result& result) {
  const auto& stats = result.stats;
  std::vector<member> out{
      {"index", std::to_string(result.index)},
      {"content", in_quotes(result.content)},
      {"tokens", list_of(result.tokens)},
      {"id_slot", "-1"},
      {"stop", "true"},
      {"model", in_quotes(identity.model)},
      {"tokens_predicted", std::to_string(stats.tokens_out)},
      {"tokens_evaluated", std::to_string(stats.tokens_in)},
      {"tokens_cached", std::to_string(stats.tokens_cached)},
      {"generation_settings", result.settings},
      {"prompt", in_quotes(result.prompt ? std::string_view(result.prompt->text) : std::string_view())},
      {"has_new_line", result.has_new_line ? "true" : "false"},
      {"truncated", "false"},
      {"stop_type", in_quotes(stop_type_of(result))},
      {"stopping_word", in_quotes(result.stop)},
      {"timings", render_timings(timing_of(stats))}};
  if (identity.probabilities && !identity.stream) {
    out.push_back({"completion_probabilities",
                   render_probabilities(result.entries, identity.vocabulary, identity.kind)});
  }
  return out;
}

/// The value at a path such as "generation_settings/n_predict"; nothing where there is none.
std::optional<std::string> value_at(const std::vector<member>& members, std::string_view path) {
  const auto slash = path.find('/');
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& one) { return one.name == path.substr(0, slash); });
  if (found == members.end()) return std::nullopt;
  if (slash == std::string_view::npos) return found->value;
  if (!found->value.starts_with('{')) return std::nullopt;
  const auto tree = json::parse(found->value);
  const json::value* at = &tree;
  for (std::string_view rest = path.substr(slash);;) {
    const auto end = rest.find('/', 1);
    const auto* object = at->if_object();
    at = object == nullptr ? nullptr : object->if_contains(rest.substr(1, end - 1));
    if (at == nullptr) return std::nullopt;
    if (end == std::string_view::npos) return json::serialize(*at);
    rest.remove_prefix(end);
  }
}

/// The answer, or the members of it that the request wants.
std::string render_result(const llama_identity& identity, const llama_result& result) {
  const auto members = members_of(identity, result);
  std::string out = "{";
  const auto add = [&out](std::string_view name, std::string_view value) {
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
    out += ':';
    out += value;
  };
  for (const member& one : members) {
    if (identity.fields.empty()) add(one.name, one.value);
  }
  for (const std::string& path : identity.fields) {
    if (const auto value = value_at(members, path)) add(path, *value);
  }
  return out + "}";
}

class llama_output final : public job_output {
 public:
  llama_output(std::shared_ptr<const llama_identity> identity, std::shared_ptr<llama_result> result)
      : identity_(std::move(identity)),
        result_(std::move(result)),
        timing_(identity_->now, result_->stats.tokens_in) {}

  void started(std::string&, double, std::chrono::system_clock::time_point) override { timing_.started(); }

  void progress(std::string& out, const prompt_progress& progress) override {
    timing_.progress(progress);
    if (!identity_->stream || !identity_->progress) return;
    std::string more;
    append_progress(more, result_->stats.tokens_in, progress);
    write_chunk(out, {}, more);
  }

  bool token(std::string& out, const output_token& token) override {
    auto& to = *result_;
    tokens_ = token.index + 1;
    timing_.note_output();
    text_bytes_ += token.text.size();
    to.has_new_line = to.has_new_line || token.text.find('\n') != std::string_view::npos;
    if (identity_->token_ids || identity_->stream) to.tokens.push_back(token.id);
    if (!token.logprobs.empty()) keep(token);
    if (token.stopped) {
      to.stop = token.stop;
      cut_ = true;
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
    if (identity_->stream) append_error_object(out, failure);
  }

  [[nodiscard]] std::size_t unwritten_values() const noexcept override {
    return identity_->stream && !cut_ ? result_->entries.size() : job_output::unwritten_values();
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

  /// A chunk with the tokens whose text it completes; `more`: further members.
  void write_chunk(std::string& out, std::string_view text, std::string_view more = {}) {
    auto& to = *result_;
    out += "data: ";
    json_object json(out);
    json.integer("index", to.index).text("content", text);
    append_ids(out, "tokens", to.tokens);
    json.boolean("stop", false)
        .integer("id_slot", -1)
        .integer("tokens_predicted", tokens_)
        .integer("tokens_evaluated", to.stats.tokens_in);
    if (identity_->probabilities) {
      json.raw("completion_probabilities",
               render_probabilities(to.entries, identity_->vocabulary, identity_->kind));
    }
    if (const auto timing = timing_.at(tokens_); timing && identity_->timings) append_timings(out, *timing);
    out += more;
    json.close();
    out += "\n\n";
    to.tokens.clear();
    to.entries.clear();
  }

  std::shared_ptr<const llama_identity> identity_;
  std::shared_ptr<llama_result> result_;
  running_timing timing_;
  bool cut_ = false;             ///< the last tokens are no part of the answer
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

}  // namespace

namespace {

/// A member that is a list of texts.
void add_texts(std::string& out, std::string_view name, const std::vector<std::string>& texts) {
  out += ",\"" + std::string(name) + "\":[";
  for (const auto& text : texts) {
    if (out.back() != '[') out += ',';
    append_json_string(out, text);
  }
  out += ']';
}

std::vector<std::string> breakers_of(const engine::job_request& job, const completion_request& asked) {
  if (asked.dry_breakers) return *asked.dry_breakers;
  if (job.sampling.breakers) return job.sampling.breakers->texts;
  return {engine::usual_breakers.begin(), engine::usual_breakers.end()};
}

/// In the order in which they are applied.
std::vector<std::string> samplers_of(const engine::sampling_params& sampling) {
  std::vector<std::string> out;
  for (const auto which : engine::order_of(sampling)) out.emplace_back(to_string(which));
  return out;
}

}  // namespace

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
      .number("dynatemp_range", sampling.dynatemp_range, 6)
      .number("dynatemp_exponent", sampling.dynatemp_exponent, 6)
      .number("top_n_sigma", sampling.top_n_sigma, 6)
      .number("typical_p", sampling.typical_p, 6)
      .number("xtc_probability", sampling.xtc_probability, 6)
      .number("xtc_threshold", sampling.xtc_threshold, 6)
      .number("dry_multiplier", sampling.dry_multiplier, 6)
      .number("dry_base", sampling.dry_base, 6)
      .integer("dry_allowed_length", sampling.dry_allowed_length)
      .integer("dry_penalty_last_n", sampling.dry_last_n == engine::whole_sequence
                                         ? std::int64_t{-1}
                                         : std::int64_t{sampling.dry_last_n})
      .integer("mirostat", 0)
      .integer("n_probs", asked.logprobs ? asked.top_logprobs : 0U)
      .boolean("ignore_eos", job.ignore_eos)
      .boolean("stream", asked.stream);
  add_texts(out, "dry_sequence_breakers", breakers_of(job, asked));
  add_texts(out, "samplers", samplers_of(sampling));
  add_texts(out, "stop", asked.stop);
  json.close();
  return out;
}

written_answer make_llama_answer(const prepared_completion& prepared, std::string model,
                                 const engine::tokenizer& vocabulary, running_timing::clock now) {
  const auto& asked = prepared.asked;
  const auto* notes = dynamic_cast<const llama_notes*>(asked.notes.get());
  const auto identity = std::make_shared<const llama_identity>(llama_identity{
      std::move(model), asked.stream, asked.token_ids, asked.logprobs, asked.shows.timings,
      asked.shows.progress, notes == nullptr ? std::vector<std::string>() : notes->response_fields,
      notes == nullptr ? probability_kind::logprob : notes->probabilities, std::move(now), vocabulary});
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
