#include "net/pooled/pooled_answer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "engine/sampling/portable_exp.hpp"
#include "net/json/base64.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

class pooled_output final : public job_output {
 public:
  explicit pooled_output(std::shared_ptr<pooled_outcome> outcome) : outcome_(std::move(outcome)) {}

  void started(std::string&, double, std::chrono::system_clock::time_point) override {}
  bool token(std::string&, const output_token&) override { return false; }
  void tail(std::string&, std::string_view, std::uint32_t) override {}
  void pooled(const std::vector<engine::pooled_values>& values) override { outcome_->values = values; }
  void ended(std::string&, engine::finish_reason, const engine::job_stats& stats) override {
    outcome_->tokens_in = stats.tokens_in;
    outcome_->stats = stats;
  }
  void failed(std::string&, const engine::error&) override {}
  void keep_alive(std::string&) override {}

 private:
  std::shared_ptr<pooled_outcome> outcome_;
};

/// The shortest text that reads back as the same number. Numbers are finite: the scheduler has checked it.
template <class Number>
void append_number(std::string& out, Number value) {
  std::array<char, 32> text;
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
}

void append_bytes(std::string& out, std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little);
  out += '"';
  append_base64(out, std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
  out += '"';
}

/// Scaled to length 1. The sum of squares is taken in double, in the order of dimensions, so that the bits
/// are always the same. Zeros stay zeros.
std::vector<float> normalised(std::span<const float> values) {
  double squares = 0.0;
  for (const float v : values) squares += static_cast<double>(v) * v;
  std::vector<float> out(values.begin(), values.end());
  if (squares == 0.0) return out;
  const double length = std::sqrt(squares);
  for (float& v : out) v = static_cast<float>(v / length);
  return out;
}

void append_usage(std::string& out, std::uint32_t tokens) {
  out += ",\"usage\":";
  json_object usage(out);
  usage.integer("prompt_tokens", tokens).integer("total_tokens", tokens);
  usage.close();
}

/// llama-server's form, in which every input has a list of embeddings.
std::string write_llama_embeddings(const embedding_options& options, const pooled_outcome& outcome) {
  std::string out = "[";
  for (std::size_t i = 0; i < outcome.values.size(); ++i) {
    out += (i > 0 ? ",{\"index\":" : "{\"index\":") + std::to_string(i) + ",\"embedding\":";
    const bool each = options.token_width > 0;
    if (!each) out += '[';
    append_embedding(out, options, *outcome.values[i]);
    out += each ? "}" : "]}";
  }
  return out + "]";
}

std::string write_tei_embeddings(const embedding_options& options, const pooled_outcome& outcome) {
  std::string out = "[";
  for (const auto& values : outcome.values) {
    if (out.size() > 1) out += ',';
    append_embedding(out, options, *values);
  }
  return out + "]";
}

/// "id","object","created","model": the beginning of vLLM's own answers.
std::string opening(const answer_origin& origin, std::string_view model) {
  std::string out;
  json_object json(out);
  json.text("id", origin.id).text("object", "list").integer("created", origin.created).text("model", model);
  return out;
}

std::string write_pooling(const embedding_options& options, const pooled_outcome& outcome) {
  std::string out = opening(options.origin, options.model) + ",\"data\":[";
  for (std::size_t i = 0; i < outcome.values.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"index":)" + std::to_string(i) + R"(,"object":"pooling","data":)";
    const std::vector<float>& values = *outcome.values[i];
    append_embedding(out, options, options.activated ? class_probabilities(values) : values);
    out += '}';
  }
  out += ']';
  append_usage(out, outcome.tokens_in);
  return out + "}";
}

void append_document(std::string& out, const std::string& text) {
  out += ",\"document\":";
  json_object document(out);
  document.text("text", text);
  document.close();
}

}  // namespace

void append_numbers(std::string& out, std::span<const float> values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, values[i]);
  }
  out += ']';
}

void append_embedding(std::string& out, const embedding_options& options, std::span<const float> values) {
  if (options.token_width == 0) {
    const auto kept = options.dimensions == 0 ? values : values.first(options.dimensions);
    const std::vector<float> told =
        options.normalised ? normalised(kept) : std::vector<float>(kept.begin(), kept.end());
    return options.base64 ? append_bytes(out, told) : append_numbers(out, told);
  }
  if (options.base64) return append_bytes(out, values);
  out += '[';
  for (std::size_t at = 0; at < values.size(); at += options.token_width) {
    if (at > 0) out += ',';
    append_numbers(out, values.subspan(at, options.token_width));
  }
  out += ']';
}

std::unique_ptr<job_output> make_pooled_output(std::shared_ptr<pooled_outcome> outcome) {
  return std::make_unique<pooled_output>(std::move(outcome));
}

std::string write_embeddings(const embedding_options& options, const pooled_outcome& outcome) {
  switch (options.form) {
    case embedding_form::llama: return write_llama_embeddings(options, outcome);
    case embedding_form::tei: return write_tei_embeddings(options, outcome);
    case embedding_form::pooling: return write_pooling(options, outcome);
    case embedding_form::openai: break;
  }
  std::string out = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < outcome.values.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)";
    append_embedding(out, options, *outcome.values[i]);
    out += '}';
  }
  out += "],\"model\":";
  append_json_string(out, options.model);
  append_usage(out, outcome.tokens_in);
  return out + "}";
}

double logistic(float x) noexcept {
  const double u = engine::portable_exp(std::max(engine::portable_exp_lowest, -std::fabs(x)));
  return x >= 0.0F ? 1.0 / (1.0 + u) : u / (1.0 + u);
}

std::vector<float> class_probabilities(std::span<const float> outputs) {
  if (outputs.size() == 1) return {static_cast<float>(logistic(outputs[0]))};
  const float best = *std::max_element(outputs.begin(), outputs.end());
  std::vector<double> weights;
  for (const float output : outputs) {
    weights.push_back(engine::portable_exp(std::max(engine::portable_exp_lowest, output - best)));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<float> out;
  for (const double weight : weights) out.push_back(static_cast<float>(weight / total));
  return out;
}

namespace {

/// The same bits on every CPU: sums in f64 in the order of the numbers. 0 for an embedding of no length.
float cosine(std::span<const float> a, std::span<const float> b) noexcept {
  double product = 0.0, length_a = 0.0, length_b = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    length_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    length_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  const double lengths = std::sqrt(length_a) * std::sqrt(length_b);
  return lengths > 0.0 ? static_cast<float>(std::clamp(product / lengths, -1.0, 1.0)) : 0.0F;
}

std::vector<float> compared(const rerank_request& asked, const pooled_outcome& outcome) {
  const std::size_t queries = std::max<std::size_t>(asked.queries.size(), 1);
  std::vector<float> out;
  for (std::size_t i = 0; i < asked.documents.size(); ++i) {
    out.push_back(cosine(*outcome.values.at(queries > 1 ? i : 0), *outcome.values.at(queries + i)));
  }
  return out;
}

/// A classifier's two outputs become one score: the probability of "relevant" is the logistic function of
/// their difference.
std::vector<float> raw_scores(const ranking_options& options, const pooled_outcome& outcome) {
  if (options.compares) return compared(options.asked, outcome);
  std::vector<float> out;
  for (const auto& values : outcome.values) {
    const std::vector<float>& v = *values;
    out.push_back(v.size() == 1 ? v[0] : v[options.relevant_class] - v[1 - options.relevant_class]);
  }
  return out;
}

void append_score(std::string& out, const ranking_options& options, float raw) {
  if (options.asked.raw_scores || options.compares) {
    append_number(out, raw);
  } else {
    append_number(out, logistic(raw));
  }
}

std::string write_scores(const ranking_options& options, const pooled_outcome& outcome) {
  std::string out = opening(options.origin, options.model) + ",\"data\":[";
  const auto raw = raw_scores(options, outcome);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"index":)" + std::to_string(i) + R"(,"object":"score","score":)";
    append_score(out, options, raw[i]);
    out += '}';
  }
  out += ']';
  append_usage(out, outcome.tokens_in);
  return out + "}";
}

/// The indices of the documents, the best ones first.
std::vector<std::size_t> best_first(const std::vector<float>& raw, std::size_t top_n) {
  std::vector<std::size_t> order(raw.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return raw[a] > raw[b]; });
  order.resize(std::min(order.size(), top_n));
  return order;
}

std::string write_tei_ranking(const ranking_options& options, const std::vector<float>& raw) {
  std::string out = "[";
  for (const std::size_t index : best_first(raw, options.asked.top_n)) {
    if (out.size() > 1) out += ',';
    out += "{\"index\":" + std::to_string(index) + ",\"score\":";
    append_score(out, options, raw[index]);
    if (options.asked.return_documents) {
      out += ",\"text\":";
      append_json_string(out, options.asked.documents[index]);
    }
    out += '}';
  }
  return out + "]";
}

}  // namespace

std::string write_ranking(const ranking_options& options, const pooled_outcome& outcome) {
  if (options.asked.form == ranking_form::score) return write_scores(options, outcome);
  const auto raw = raw_scores(options, outcome);
  if (options.asked.form == ranking_form::tei) return write_tei_ranking(options, raw);
  std::string out = "{\"object\":\"list\",\"model\":";
  append_json_string(out, options.model);
  out += ",\"results\":[";
  for (const std::size_t index : best_first(raw, options.asked.top_n)) {
    if (out.back() != '[') out += ',';
    out += "{\"index\":" + std::to_string(index) + ",\"relevance_score\":";
    append_score(out, options, raw[index]);
    if (options.asked.return_documents) append_document(out, options.asked.documents[index]);
    out += '}';
  }
  out += ']';
  append_usage(out, outcome.tokens_in);
  return out + "}";
}

}  // namespace orcd::net
