#include "net/prepare_completion.hpp"

#include <utility>

#include "engine/narration.hpp"
#include "net/field_checks.hpp"
#include "net/json_reader.hpp"
#include "net/parse_execute.hpp"
#include "net/request_fields.hpp"
#include "net/text.hpp"
#include "net/time_limit.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

struct encoded_prompt {
  std::vector<engine::token_id> tokens;
  std::string digest;
  std::size_t characters = 0;
};

result<std::string> render(const engine::chat_format& format, completion_request& asked) {
  json::object variables;
  variables["messages"] = std::move(asked.messages);
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = true;
  for (const auto& variable : asked.template_variables) {
    if (!format.mentions(variable.key())) {
      const std::string name = shown_name(variable.key());
      return refuse_field(name, "is nothing that the model's chat template reads");
    }
    variables.emplace(variable.key(), variable.value());
  }
  return format.render(std::move(variables));
}

result<encoded_prompt> encode_chat(completion_request& asked, const completion_context& context) {
  if (context.chat == nullptr) {
    return refuse_field("messages", "cannot be made a prompt: the model has no usable chat template");
  }
  std::optional<engine::chat_format> own;
  if (asked.chat_template) {
    auto compiled = context.chat->with_template(*asked.chat_template);
    if (!compiled) return compiled.error();
    own.emplace(std::move(*compiled));
  }
  const engine::chat_format& format = own ? *own : *context.chat;
  const auto prompt = render(format, asked);
  if (!prompt) return prompt.error();
  if (const auto fits = check_length("messages", *prompt, context.limits.lengths.prompt_chars_max); !fits) {
    return fits.error();
  }
  return encoded_prompt{format.encode(*prompt, context.tokenizer), engine::prompt_digest(*prompt),
                        code_points(*prompt)};
}

result<encoded_prompt> encode(completion_request& asked, const completion_context& context) {
  if (asked.kind == completion_kind::chat) return encode_chat(asked, context);
  if (!asked.prompt) {
    const auto text = context.tokenizer.decode(asked.prompt_tokens);
    return encoded_prompt{std::move(asked.prompt_tokens), engine::prompt_digest(text), code_points(text)};
  }
  return encoded_prompt{context.tokenizer.encode(*asked.prompt), engine::prompt_digest(*asked.prompt),
                        code_points(*asked.prompt)};
}

std::vector<engine::job_request> make_jobs(const completion_request& asked, const std::string& id,
                                           engine::job_request job) {
  const std::uint64_t seed = asked.seed ? *asked.seed : random_bits();
  std::vector<engine::job_request> jobs;
  for (std::uint32_t i = 0; i < asked.choices; ++i) {
    job.job_id = asked.choices == 1 ? id : id + "-" + std::to_string(i);
    job.seed = choice_seed(seed, i);
    jobs.push_back(job);
  }
  return jobs;
}

}  // namespace

// The finalizer of splitmix64: near seeds give unrelated ones.
std::uint64_t choice_seed(std::uint64_t seed, std::uint32_t choice) noexcept {
  if (choice == 0) return seed;
  std::uint64_t z = seed + choice * 0x9E3779B97F4A7C15ULL;
  z = (z ^ z >> 30U) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ z >> 27U) * 0x94D049BB133111EBULL;
  return z ^ z >> 31U;
}

result<prepared_completion> prepare_completion(const http_request& request, completion_kind kind,
                                               const completion_context& context,
                                               std::chrono::system_clock::time_point wall) {
  const auto deadline_left = read_deadline(request, wall);
  if (!deadline_left) return deadline_left.error();
  auto asked = parse_completion(request.body, kind, context.limits);
  if (!asked) return asked.error();
  const auto& lengths = context.limits.lengths;
  const auto limit = fix_time_limit(request, asked->timeout, *deadline_left, lengths);
  if (!limit) return limit.error();
  auto prompt = encode(*asked, context);
  if (!prompt) return prompt.error();
  const bool chat = kind == completion_kind::chat;
  const auto max_tokens = fit_to_context(asked->max_tokens, prompt->tokens.size(), lengths,
                                         {chat ? "messages" : "prompt", asked->max_tokens_field});
  if (!max_tokens) return max_tokens.error();

  engine::job_request job;
  job.prompt = std::move(prompt->tokens);
  job.max_tokens = *max_tokens;
  job.sampling = asked->sampling;
  job.logprobs = asked->logprobs;
  job.top_logprobs = asked->top_logprobs;
  job.ignore_eos = asked->ignore_eos;
  job.deadline = limit->at;
  job.received_at = request.received_at;
  prepared_completion out;
  out.id = (chat ? "chatcmpl-" : "cmpl-") + make_request_id();
  out.jobs = make_jobs(*asked, out.id, std::move(job));
  out.asked = std::move(*asked);
  out.prompt_chars = prompt->characters;
  out.prompt_digest = std::move(prompt->digest);
  out.deadline_left = *deadline_left;
  out.deadline_is_final = limit->is_final;
  return out;
}

}  // namespace orcd::net
