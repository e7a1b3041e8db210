#include "net/pooled/prepare_pooled.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/narration.hpp"
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

/// Sets the time limit of a request that was read; the inputs are added later.
template <class Request>
result<begun<Request>> begin(const http_request& request, std::string_view id_prefix, result<Request> asked,
                             const pooled_context& context, std::chrono::system_clock::time_point wall) {
  const auto deadline_left = read_deadline(request, wall);
  if (!deadline_left) return deadline_left.error();
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

std::uint32_t tokens_max(const pooled_context& context) {
  const auto& lengths = context.limits.lengths;
  return lengths.tokens_in_max > 0 ? std::min(lengths.tokens_in_max, lengths.context_tokens)
                                   : lengths.context_tokens;
}

/// How many tokens an input is cut to; nothing where it is not.
std::optional<std::size_t> room_of(const input_cut& cut, const pooled_context& context) {
  if (!cut.tokens) return std::nullopt;
  return *cut.tokens < 0 ? std::size_t{tokens_max(context)} : static_cast<std::size_t>(*cut.tokens);
}

/// Adds an input to the job; refuses one that is empty or too long.
result<void> add(prepared_pooled& work, engine::pooled_input input, std::string_view field,
                 const pooled_context& context) {
  const std::size_t index = work.job.inputs.size();
  const std::uint32_t most = tokens_max(context);
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

/// Cuts a text's tokens; the special ones around them stay, as the model expects them there.
void cut_text(std::vector<engine::token_id>& tokens, std::string_view text, std::size_t most, bool keeps_last,
              const engine::tokenizer& vocabulary) {
  if (tokens.size() <= most) return;
  engine::encode_options plain;
  plain.add_special = false;
  const auto bare = vocabulary.encode(text, plain);
  const auto at = std::search(tokens.begin(), tokens.end(), bare.begin(), bare.end());
  const auto around = tokens.size() - bare.size();
  // Where the special ones alone would fill it, or the text's tokens are others among them, all are cut
  // alike.
  const bool framed = at != tokens.end() && around < most;
  const auto begin = framed ? at - tokens.begin() : 0;
  const auto end =
      framed ? begin + static_cast<std::ptrdiff_t>(bare.size()) : static_cast<std::ptrdiff_t>(tokens.size());
  const auto excess = static_cast<std::ptrdiff_t>(tokens.size() - most);
  const auto from = tokens.begin() + (keeps_last ? begin : end - excess);
  tokens.erase(from, from + excess);
}

/// The prompt of a chat, and its text.
result<std::pair<std::vector<engine::token_id>, std::string>> encode_chat(const completion_request& chat,
                                                                          const pooled_context& context) {
  const auto& limits = context.limits;
  const completion_context chats{{limits.lengths, limits.served}, context.tokenizer, context.chat};
  const auto prompt = render_chat(chat, chats, chat.shape.generation_prompt.value_or(false));
  if (!prompt) return prompt.error();
  const auto& format = *context.chat;
  return std::pair{format.encode(*prompt, context.tokenizer, false), prompt->text};
}

result<void> check_text(std::string_view field, std::size_t bytes) {
  if (bytes <= pooled_text_bytes_max) return {};
  return refuse_field(field, "would have " + std::to_string(bytes) +
                                 " bytes of text to tokenize in one request; the limit is " +
                                 std::to_string(pooled_text_bytes_max));
}

constexpr std::size_t classes_max = 2;  ///< outputs of a model that ranks

/// What the texts are called.
std::string_view field_of(embedding_form form) {
  switch (form) {
    case embedding_form::tei: return "inputs";
    case embedding_form::llama: return "content";
    case embedding_form::openai:
    case embedding_form::pooling: break;
  }
  return "input";
}
std::string_view field_of(ranking_form form) {
  switch (form) {
    case ranking_form::tei: return "texts";
    case ranking_form::score: return "text_2";
    case ranking_form::jina: break;
  }
  return "documents";
}

result<void> count_numbers(prepared_pooled& work, const pooled_context& context, std::string_view field) {
  const std::size_t rows =
      context.pooling == engine::pooling_kind::none ? work.job.tokens_in() : work.job.inputs.size();
  work.numbers = context.pairs != nullptr ? rows * classes_max : rows * context.limits.dimensions;
  if (work.numbers <= pooled_values_max) return {};
  return refuse_field(field, "would be answered with " + std::to_string(work.numbers) +
                                 " numbers; the limit of one request is " +
                                 std::to_string(pooled_values_max));
}

std::string text_of(const embedding_input& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return *text;
  std::string out;
  for (const auto id : std::get<std::vector<engine::token_id>>(input)) out += std::to_string(id) + " ";
  return out;
}

result<void> add_chat(prepared_pooled& work, const embedding_request& asked, const pooled_context& context) {
  auto prompt = encode_chat(*asked.chat, context);
  if (!prompt) return prompt.error();
  auto& [tokens, text] = *prompt;
  if (const auto most = room_of(asked.cut, context))
    cut_text(tokens, text, *most, asked.cut.keeps_last, context.tokenizer);
  work.facts.prompt_chars = code_points(text);
  work.facts.prompt_digest = engine::prompt_digest(text);
  return add(work, {std::move(tokens)}, "messages", context);
}

result<void> add_inputs(prepared_pooled& work, embedding_request& asked, const pooled_context& context) {
  const auto most = room_of(asked.cut, context);
  std::string all;
  for (auto& input : asked.inputs) {
    const auto* text = std::get_if<std::string>(&input);
    if (text != nullptr) work.facts.prompt_chars += code_points(*text);
    all += text_of(input);
    engine::encode_options options;
    options.add_special = asked.add_special;
    engine::pooled_input one;
    one.tokens = text != nullptr ? context.tokenizer.encode(*text, options)
                                 : std::move(std::get<std::vector<engine::token_id>>(input));
    if (most) {
      cut_text(one.tokens, text != nullptr ? std::string_view(*text) : std::string_view(), *most,
               asked.cut.keeps_last, context.tokenizer);
    }
    if (const auto added = add(work, std::move(one), field_of(asked.form), context); !added) return added;
  }
  work.facts.prompt_digest = engine::prompt_digest(all);
  asked.inputs.clear();
  return {};
}

/// A query and a document in one input, which a model that ranks reads together.
result<void> add_pairs(prepared_pooled& work, const rerank_request& asked, const pooled_context& context) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < asked.documents.size(); ++i) {
    bytes += asked.query_of(i).size() + context.pairs->frame_bytes() + asked.documents[i].size();
  }
  const std::string_view field = field_of(asked.form);
  if (const auto fits = check_text(field, bytes); !fits) return fits;
  engine::pair_room room;
  room.keeps_last = asked.cut.keeps_last;
  if (const auto most = room_of(asked.cut, context)) room.pair = *most;
  if (asked.document_tokens) room.document = *asked.document_tokens;
  for (std::size_t i = 0; i < asked.documents.size(); ++i) {
    auto pair = context.pairs->encode(asked.query_of(i), asked.documents[i], context.tokenizer, room);
    if (pair.tokens.size() > room.pair) {
      return refuse_field(field, "has a query that leaves no room for " + std::string(field) + "[" +
                                     std::to_string(i) + "]: the pair may have " + std::to_string(room.pair) +
                                     " tokens");
    }
    if (const auto added = add(work, std::move(pair), field, context); !added) return added;
  }
  return {};
}

/// Queries and documents as inputs of their own, whose embeddings are compared.
result<void> add_texts(prepared_pooled& work, const rerank_request& asked, const pooled_context& context) {
  const std::string_view field = field_of(asked.form);
  const std::string_view query_field = asked.form == ranking_form::score ? "text_1" : "query";
  const auto room = room_of(asked.cut, context);
  std::size_t bytes = 0;
  const auto add_text = [&](const std::string& text, std::string_view name, std::optional<std::size_t> most) {
    bytes += text.size();
    if (const auto fits = check_text(name, bytes); !fits) return fits;
    auto tokens = context.tokenizer.encode(text);
    if (most) cut_text(tokens, text, *most, asked.cut.keeps_last, context.tokenizer);
    return add(work, {std::move(tokens)}, name, context);
  };
  for (std::size_t i = 0; i < std::max<std::size_t>(asked.queries.size(), 1); ++i) {
    if (const auto added = add_text(asked.query_of(i), query_field, room); !added) return added;
  }
  auto most = room;
  if (asked.document_tokens)
    most = std::min<std::size_t>(room.value_or(*asked.document_tokens), *asked.document_tokens);
  for (const std::string& document : asked.documents) {
    if (const auto added = add_text(document, field, most); !added) return added;
  }
  work.numbers = work.job.inputs.size() * context.limits.dimensions;
  return {};
}

}  // namespace

result<prepared_embedding> prepare_embedding(const http_request& request, const pooled_context& context,
                                             std::chrono::system_clock::time_point wall,
                                             embedding_parser& parse) {
  auto read = parse(request.body, context.limits);
  const bool pooling = read && read->form == embedding_form::pooling;
  auto begun = begin(request, pooling ? "pool-" : "embd-", std::move(read), context, wall);
  if (!begun) return begun.error();
  auto& [asked, work] = *begun;
  const auto added = asked.chat ? add_chat(work, asked, context) : add_inputs(work, asked, context);
  if (!added) return added.error();
  if (const auto fits = count_numbers(work, context, field_of(asked.form)); !fits) return fits.error();
  asked.chat.reset();
  return prepared_embedding{std::move(asked), std::move(work)};
}

result<prepared_rerank> prepare_rerank(const http_request& request, const pooled_context& context,
                                       std::chrono::system_clock::time_point wall, bool score) {
  auto begun =
      begin(request, score ? "score-" : "rank-",
            score ? parse_score(request.body, context.limits) : parse_rerank(request.body, context.limits),
            context, wall);
  if (!begun) return begun.error();
  auto& [asked, work] = *begun;
  const auto added = context.pairs ? add_pairs(work, asked, context) : add_texts(work, asked, context);
  if (!added) return added.error();
  std::string all = asked.query;
  for (std::size_t i = 0; i < asked.documents.size(); ++i) {
    if (!asked.queries.empty()) all += asked.queries[i];
    all += asked.documents[i];
  }
  work.facts.prompt_chars = code_points(all);
  work.facts.prompt_digest = engine::prompt_digest(all);
  return prepared_rerank{std::move(asked), std::move(work)};
}

}  // namespace orcd::net
