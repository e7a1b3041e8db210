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

void append_list(std::string& out, std::span<const float> values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, values[i]);
  }
  out += ']';
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

void append_embedding(std::string& out, const embedding_options& options, std::span<const float> values) {
  if (options.token_width == 0) {
    const auto kept = options.dimensions == 0 ? values : values.first(options.dimensions);
    const std::vector<float> unit = normalised(kept);
    return options.base64 ? append_bytes(out, unit) : append_list(out, unit);
  }
  if (options.base64) return append_bytes(out, values);
  out += '[';
  for (std::size_t at = 0; at < values.size(); at += options.token_width) {
    if (at > 0) out += ',';
    append_list(out, values.subspan(at, options.token_width));
  }
  out += ']';
}

void append_usage(std::string& out, std::uint32_t tokens) {
  out += ",\"usage\":";
  json_object usage(out);
  usage.integer("prompt_tokens", tokens).integer("total_tokens", tokens);
  usage.close();
}

void append_document(std::string& out, const std::string& text) {
  out += ",\"document\":";
  json_object document(out);
  document.text("text", text);
  document.close();
}

}  // namespace

std::unique_ptr<job_output> make_pooled_output(std::shared_ptr<pooled_outcome> outcome) {
  return std::make_unique<pooled_output>(std::move(outcome));
}

std::string write_embeddings(const embedding_options& options, const pooled_outcome& outcome) {
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

std::string write_ranking(const ranking_options& options, const pooled_outcome& outcome) {
  // A classifier's two outputs become one score: the probability of "relevant" is the logistic function of
  // their difference.
  std::vector<float> raw;
  for (const auto& values : outcome.values) {
    const std::vector<float>& v = *values;
    raw.push_back(v.size() == 1 ? v[0] : v[options.relevant_class] - v[1 - options.relevant_class]);
  }
  std::vector<std::size_t> order(raw.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return raw[a] > raw[b]; });
  order.resize(std::min(order.size(), options.asked.top_n));
  std::string out = "{\"object\":\"list\",\"model\":";
  append_json_string(out, options.model);
  out += ",\"results\":[";
  for (const std::size_t index : order) {
    if (out.back() != '[') out += ',';
    out += "{\"index\":" + std::to_string(index) + ",\"relevance_score\":";
    if (options.asked.raw_scores) {
      append_number(out, raw[index]);
    } else {
      append_number(out, logistic(raw[index]));
    }
    if (options.asked.return_documents) append_document(out, options.asked.documents[index]);
    out += '}';
  }
  out += ']';
  append_usage(out, outcome.tokens_in);
  return out + "}";
}

}  // namespace orcd::net
