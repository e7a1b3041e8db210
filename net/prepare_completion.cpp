#include "net/prepare_completion.hpp"

#include <algorithm>
#include <utility>

#include "engine/narration.hpp"
#include "net/field_checks.hpp"
#include "net/json_reader.hpp"
#include "net/parse_execute.hpp"
#include "net/prepare.hpp"
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
  std::uint32_t system_tokens = 0;
  engine::output_frame frame{};  ///< of the output
};

/// What the template gets beside the messages.
result<json::object> variables_of(const engine::chat_format& format, const completion_request& asked) {
  json::object variables;
  if (asked.demand.tools.empty()) {
    variables["tools"] = nullptr;
  } else if (format.mentions("tools")) {
    variables["tools"] = asked.demand.tools;
  } else {
    return refuse_field("tools", "is nothing that the model's chat template reads");
  }
  variables["documents"] = nullptr;
  for (const auto& variable : asked.template_variables) {
    if (!format.mentions(variable.key())) {
      const std::string name = shown_name(variable.key());
      return refuse_field(name, "is nothing that the model's chat template reads");
    }
    variables.emplace(variable.key(), variable.value());
  }
  return variables;
}

/// Tokens at the beginning of the prompt that any conversation with this system message begins with: those
/// that the message rendered alone has too. 0 where there is none, or the template does not render it alone.
std::uint32_t system_tokens_of(const engine::chat_format& format, const completion_request& asked,
                               const json::object& variables, const std::vector<engine::token_id>& prompt,
                               const engine::tokenizer& vocabulary) {
  const auto& first = asked.messages.front().as_object();
  if (!asked.cache.enabled || asked.messages.size() < 2 || first.at("role") != json::value("system"))
    return 0;
  json::object alone = variables;
  alone["messages"] = json::array{first};
  alone["add_generation_prompt"] = false;
  const auto text = format.render(std::move(alone));
  if (!text) return 0;
  const auto tokens = format.encode(*text, vocabulary);
  const auto ends = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
  return static_cast<std::uint32_t>(ends.first - tokens.begin());
}

/// A prompt that ends behind an empty reasoning has said that there is to be none.
bool ends_after_reasoning(std::string_view prompt) {
  constexpr std::string_view mark = "</think>";
  const auto last = prompt.find_last_not_of(" \n\r\t");
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with(mark);
}

result<encoded_prompt> encode_chat(const completion_request& asked, const completion_context& context) {
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
  auto variables = variables_of(format, asked);
  if (!variables) return variables.error();
  json::object all = *variables;
  all["messages"] = asked.messages;
  all["add_generation_prompt"] = true;
  const auto prompt = format.render(std::move(all));
  if (!prompt) return prompt.error();
  if (const auto fits = check_length("messages", *prompt, context.limits.lengths.prompt_chars_max); !fits) {
    return fits.error();
  }
  encoded_prompt out{format.encode(*prompt, context.tokenizer), engine::prompt_digest(*prompt),
                     code_points(*prompt)};
  // Rendered once where nobody would look at the number.
  if (out.tokens.size() >= context.limits.system_tokens_min)
    out.system_tokens = system_tokens_of(format, asked, *variables, out.tokens, context.tokenizer);
  out.frame.format = format.output();
  out.frame.in_reasoning = format.output().think && engine::ends_in_reasoning(*prompt);
  out.frame.may_reason = !ends_after_reasoning(*prompt);
  return out;
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

/// The field that asks for a rule.
const char* field_of(output_rule rule) {
  switch (rule) {
    case output_rule::calls: return "tool_choice";
    case output_rule::open: return "tools";
    default: return "response_format";
  }
}

/// Calls are read only where there are tools; Harmony's frame is read always.
message_form form_of(const completion_request& asked, const engine::output_frame& frame) {
  message_form out;
  out.format = frame.format;
  out.options.tools = !asked.demand.tools.empty();
  out.options.in_reasoning = frame.in_reasoning;
  const bool harmony = frame.format.calls == engine::call_format::harmony;
  if (!out.options.tools && !harmony) out.format.calls = engine::call_format::none;
  out.parallel = asked.demand.parallel;
  if (out.parts()) out.stop = asked.stop;
  return out;
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
  const auto session = read_session(request);
  if (!session) return session.error();
  if (asked->demand.rule != output_rule::none && context.tokens == nullptr) {
    return refuse_field(field_of(asked->demand.rule), "cannot be enforced by this worker");
  }
  auto prompt = encode(*asked, context);
  if (!prompt) return prompt.error();
  // Without a format of calls there is none that could have other arguments.
  if (asked->demand.rule == output_rule::open && prompt->frame.format.calls == engine::call_format::none) {
    asked->demand.rule = output_rule::none;
  }
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
  job.cache = std::move(asked->cache);
  job.cache.system_tokens = prompt->system_tokens;
  if (job.cache.session.empty()) job.cache.session = *session;
  prepared_completion out;
  out.form = form_of(*asked, prompt->frame);
  if (asked->demand.rule != output_rule::none) {
    out.grammar = grammar_order{asked->demand, prompt->frame, context.tokens};
  }
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
