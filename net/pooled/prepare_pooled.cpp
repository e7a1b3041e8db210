#include "net/pooled/prepare_pooled.hpp"

#include <algorithm>
#include <utility>

#include "engine/narration.hpp"
#include "net/jobs/time_limit.hpp"
#include "net/json/field_checks.hpp"
#include "net/json/request_fields.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

template <class Request>
struct begun {
  Request asked;
  prepared_pooled work;
};

/// Parses the request and sets its time limit; the inputs are added later.
template <class Request>
result<begun<Request>> begin(const http_request& request, std::string_view id_prefix,
                             result<Request> (*parse)(std::string_view, const pooled_limits&),
                             const pooled_context& context, std::chrono::system_clock::time_point wall) {
  const auto deadline_left = read_deadline(request, wall);
  if (!deadline_left) return deadline_left.error();
  auto asked = parse(request.body, context.limits);
  if (!asked) return asked.error();
  const auto limit = fix_time_limit(request, asked->timeout, *deadline_left, context.limits.lengths);
  if (!limit) return limit.error();
  prepared_pooled work;
  work.job.job_id = std::string(id_prefix) + id_series(request.nonce).next();
  work.job.deadline = limit->at;
  work.job.received_at = request.received_at;
  work.facts.deadline_left = *deadline_left;
  work.facts.deadline_is_final = limit->is_final;
  return begun<Request>{std::move(*asked), std::move(work)};
}

/// Adds an input to the job; refuses one that is empty or too long.
result<void> add(prepared_pooled& work, engine::pooled_input input, std::string_view field,
                 const pooled_context& context) {
  const auto& lengths = context.limits.lengths;
  const std::size_t index = work.job.inputs.size();
  const std::uint32_t most = lengths.tokens_in_max > 0
                                 ? std::min(lengths.tokens_in_max, lengths.context_tokens)
                                 : lengths.context_tokens;
  const std::string shown = std::string(field) + "[" + std::to_string(index) + "]";
  if (input.tokens.empty()) return refuse_field(field, "encodes to no token: " + shown);
  if (input.tokens.size() > most) {
    return error(errc::context_length_exceeded,
                 "This model's maximum context length is " + std::to_string(most) + " tokens. However, " +
                     shown + " has " + std::to_string(input.tokens.size()) +
                     " tokens. Please reduce its length: nothing is truncated.",
                 std::string(field));
  }
  work.job.inputs.push_back(std::move(input));
  return {};
}

result<void> check_text(std::string_view field, std::size_t bytes) {
  if (bytes <= pooled_text_bytes_max) return {};
  return refuse_field(field, "would have " + std::to_string(bytes) +
                                 " bytes of text to tokenize in one request; the limit is " +
                                 std::to_string(pooled_text_bytes_max));
}

result<void> count_numbers(prepared_pooled& work, const pooled_context& context) {
  const std::size_t rows =
      context.pooling == engine::pooling_kind::none ? work.job.tokens_in() : work.job.inputs.size();
  work.numbers = rows * context.limits.dimensions;
  if (work.numbers <= pooled_values_max) return {};
  return refuse_field("input", "would be answered with " + std::to_string(work.numbers) +
                                   " numbers; the limit of one request is " +
                                   std::to_string(pooled_values_max));
}

std::string text_of(const embedding_input& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return *text;
  std::string out;
  for (const auto id : std::get<std::vector<engine::token_id>>(input)) out += std::to_string(id) + " ";
  return out;
}

}  // namespace

result<prepared_embedding> prepare_embedding(const http_request& request, const pooled_context& context,
                                             std::chrono::system_clock::time_point wall) {
  auto begun = begin<embedding_request>(request, "embd-", parse_embedding, context, wall);
  if (!begun) return begun.error();
  auto& [asked, work] = *begun;
  std::string all;
  for (auto& input : asked.inputs) {
    const auto* text = std::get_if<std::string>(&input);
    if (text != nullptr) work.facts.prompt_chars += code_points(*text);
    all += text_of(input);
    engine::pooled_input one;
    one.tokens = text != nullptr ? context.tokenizer.encode(*text)
                                 : std::move(std::get<std::vector<engine::token_id>>(input));
    if (const auto added = add(work, std::move(one), "input", context); !added) return added.error();
  }
  if (const auto fits = count_numbers(work, context); !fits) return fits.error();
  work.facts.prompt_digest = engine::prompt_digest(all);
  asked.inputs.clear();
  return prepared_embedding{std::move(asked), std::move(work)};
}

result<prepared_rerank> prepare_rerank(const http_request& request, const pooled_context& context,
                                       std::chrono::system_clock::time_point wall) {
  auto begun = begin<rerank_request>(request, "rank-", parse_rerank, context, wall);
  if (!begun) return begun.error();
  auto& [asked, work] = *begun;
  std::string all = asked.query;
  std::size_t bytes = asked.documents.size() * (asked.query.size() + context.pairs->frame_bytes());
  for (const std::string& document : asked.documents) bytes += document.size();
  if (const auto fits = check_text("documents", bytes); !fits) return fits.error();
  for (const std::string& document : asked.documents) {
    all += document;
    auto pair = context.pairs->encode(asked.query, document, context.tokenizer);
    if (const auto added = add(work, std::move(pair), "documents", context); !added) return added.error();
  }
  work.facts.prompt_chars = code_points(all);
  work.facts.prompt_digest = engine::prompt_digest(all);
  return prepared_rerank{std::move(asked), std::move(work)};
}

}  // namespace orcd::net
