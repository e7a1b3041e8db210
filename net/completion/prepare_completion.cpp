#include "net/completion/prepare_completion.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/narration.hpp"
#include "engine/conversation/generic_messages.hpp"
#include "engine/conversation/template_concessions.hpp"
#include "engine/text/utf8_buffer.hpp"
#include "net/completion/prompt_media.hpp"
#include "net/completion/prompt_shape.hpp"
#include "net/completion/prompt_values.hpp"
#include "net/completion/reader_options_of.hpp"
#include "net/completion/sent_media.hpp"
#include "net/completion/template_variables.hpp"
#include "net/jobs/job_checks.hpp"
#include "net/jobs/reading_plan.hpp"
#include "net/jobs/time_limit.hpp"
#include "net/json/field_checks.hpp"
#include "net/json/json_value.hpp"
#include "net/json/request_fields.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// How long making a prompt may take: quick, on the io thread, or as long as it takes.
enum class effort { quick, full };
/// A prompt that is tokenized on the io thread may have this many bytes.
constexpr std::size_t quick_prompt_bytes_max = 8 * 1024;

struct encoded_prompt {
  std::vector<engine::token_id> tokens;
  std::string digest;
  std::size_t characters = 0;
  std::uint32_t system_tokens = 0;
  engine::output_frame frame{};  ///< of the output that follows the prompt
  std::shared_ptr<const prompt_echo> echo{};
  std::vector<engine::job_medium> media{};
};

/// Renders the prompt; nullopt where a quick effort does not suffice. The only caller of the template.
result<std::optional<engine::rendered_prompt>> render(const engine::chat_format& format,
                                                      const json::object& variables, effort how) {
  using rendered = std::optional<engine::rendered_prompt>;
  const auto done = [](result<engine::rendered_prompt> prompt) -> result<rendered> {
    if (!prompt) return prompt.error();
    return rendered(std::move(*prompt));
  };
  if (how == effort::full) return done(format.render(variables));
  auto quick = format.render_quickly(variables);
  // Tokenizing a long prompt takes longer than rendering it.
  if (!quick || (*quick && (*quick)->text.size() > quick_prompt_bytes_max)) return rendered();
  return done(std::move(*quick));
}

/// The same of a conversation, of which something is given up where the template refuses all of it. The error
/// is that of the whole conversation.
result<std::optional<engine::rendered_prompt>> render_conversation(const engine::chat_format& format,
                                                                   json::object all, effort how) {
  auto rendered = render(format, all, how);
  if (rendered) return rendered;
  std::string why = rendered.error().message;
  for (const auto concede : engine::template_concessions()) {
    json::object changed = all;
    if (!concede(changed)) continue;
    auto next = render(format, changed, how);
    if (next) return next;
    if (next.error().message == why) continue;  // what was given up was not what is refused
    why = next.error().message;
    all = std::move(changed);
  }
  return rendered;
}

/// Compiles the request's own template; nullopt where a quick effort does not suffice.
std::optional<result<engine::chat_format>> compile_own(const engine::chat_format& format,
                                                       const std::string& text, effort how) {
  if (how == effort::full) return format.with_template(text);
  return format.with_template_quickly(text);
}

/// A chat's prompt, and what made it.
struct rendered_chat {
  std::optional<engine::chat_format> own;  ///< the request's template
  json::object variables;                  ///< without messages
  json::object system;                     ///< the first message, if it is the system's and others follow
  engine::rendered_prompt prompt;
  bool has_tools = false;
  bool tells_tools = false;  ///< in text (chat_format::tells_tools)
  [[nodiscard]] const engine::chat_format& format(const completion_context& context) const {
    if (own) return *own;
    return has_tools ? context.chat->for_tools() : *context.chat;
  }
};

/// Tokens at the beginning of the prompt with which every conversation with this system message begins: those
/// that the message rendered alone has too. 0 where there is no system message, or the template does not
/// render it alone; nullopt as render().
std::optional<std::uint32_t> system_tokens_of(const rendered_chat& chat, const completion_request& asked,
                                              const std::vector<engine::token_id>& prompt,
                                              const completion_context& context, effort how) {
  if (!asked.cache.enabled || chat.system.empty()) return 0;
  const engine::chat_format& format = chat.format(context);
  json::object variables = chat.variables;
  variables["messages"] = json::array{chat.system};
  variables["add_generation_prompt"] = false;
  const auto rendered = render(format, variables, how);
  if (!rendered) return 0;
  if (!*rendered) return std::nullopt;
  const auto tokens = format.encode(**rendered, context.tokenizer, context.limits.parse_special_in_chat);
  const auto ends = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
  return static_cast<std::uint32_t>(ends.first - tokens.begin());
}

/// Renders a chat's prompt. Nullopt as render().
result<std::optional<rendered_chat>> render_messages(const completion_request& asked,
                                                     const completion_context& context, effort how,
                                                     bool generation_prompt,
                                                     const std::vector<engine::seen_medium>& seen = {}) {
  if (context.chat == nullptr) {
    return refuse_field("messages", "cannot be made a prompt: the model has no usable chat template");
  }
  std::optional<rendered_chat> out(std::in_place);
  if (asked.chat_template) {
    auto compiled = compile_own(*context.chat, *asked.chat_template, how);
    if (!compiled) return std::optional<rendered_chat>();
    if (!*compiled) return compiled->error();
    out->own.emplace(std::move(**compiled));
  }
  out->has_tools = !asked.constraints.tools.empty();
  const engine::chat_format& format = out->format(context);
  out->tells_tools = out->has_tools && format.tells_tools();
  if (out->tells_tools && context.tokens == nullptr) {
    return refuse_field("tools", "is nothing that the model's chat template reads");
  }
  auto variables = template_variables_of(format, asked, context.limits);
  if (!variables) return variables.error();
  out->variables = std::move(*variables);
  json::object all = out->variables;
  const bool continues = asked.shape.continues;
  json::array messages = continues ? with_mark(asked.messages) : asked.messages;
  const prompt_media media(asked, context.limits.media, format);
  media.lift(messages);
  format.adapt(messages, asked.constraints.tools, asked.constraints.parallel);
  media.spread(messages);
  if (const auto& first = messages.front().as_object();
      messages.size() > 1 && first.at("role") == json::value("system")) {
    out->system = first;
  }
  all["messages"] = std::move(messages);
  all["add_generation_prompt"] = generation_prompt;
  auto rendered = render_conversation(format, all, how);
  const bool untold =
      out->tells_tools && rendered && *rendered && !engine::has_generic_instructions((*rendered)->text);
  if (untold && engine::concede_system_role(all)) rendered = render(format, all, how);
  if (!rendered) return rendered.error();
  if (!*rendered) return std::optional<rendered_chat>();
  out->prompt = std::move(**rendered);
  if (continues) {
    if (const auto cut = cut_at_mark(out->prompt); !cut) return cut.error();
  }
  const auto fits = check_length("messages", out->prompt.text, context.limits.lengths.prompt_chars_max);
  if (!fits) return fits.error();
  if (const auto put = media.put(out->prompt, seen); !put) return put.error();
  return out;
}

result<std::optional<encoded_prompt>> encode_chat(const completion_request& asked,
                                                  const completion_context& context, const request_form& form,
                                                  effort how) {
  const auto& shape = asked.shape;
  std::vector<engine::seen_medium> seen;
  if (asked.media && !asked.media->all().empty()) {
    if (how == effort::quick) return std::optional<encoded_prompt>();
    auto decoded = see_media(asked, context, form);
    if (!decoded) return decoded.error();
    seen = std::move(*decoded);
  }
  auto rendered =
      render_messages(asked, context, how, shape.generation_prompt.value_or(!shape.continues), seen);
  if (!rendered) return rendered.error();
  if (!*rendered) return std::optional<encoded_prompt>();
  const engine::chat_format& format = (*rendered)->format(context);
  const std::string& prompt = (*rendered)->prompt.text;
  std::optional<encoded_prompt> out(std::in_place);
  out->tokens = format.encode((*rendered)->prompt, context.tokenizer, context.limits.parse_special_in_chat);
  if (!seen.empty()) {
    auto placed = context.limits.media->place(seen, out->tokens);
    if (!placed) return placed.error();
    out->media = std::move(*placed);
  }
  out->digest = engine::prompt_digest(prompt);
  out->characters = code_points(prompt);
  // A system prompt below the cache's minimum is never kept: rendering it alone would be wasted.
  if (out->tokens.size() >= context.limits.system_tokens_min) {
    const auto system = system_tokens_of(**rendered, asked, out->tokens, context, how);
    if (!system) return std::optional<encoded_prompt>();
    out->system_tokens = *system;
  }
  const engine::output_format& output = format.output();
  out->frame.format = output;
  out->frame.in_reasoning = shape.continues ? is_within_reasoning((*rendered)->prompt, output)
                                            : engine::ends_in_reasoning(prompt, output);
  out->frame.may_reason = !engine::ends_after_reasoning(prompt, output);
  if ((*rendered)->tells_tools) {
    out->frame.format.calls = engine::call_format::generic;
    out->frame.in_answer = shape.continues;
    out->frame.in_reasoning = out->frame.in_reasoning && !shape.continues;
  }
  return out;
}

std::string bytes_of(std::span<const engine::token_id> tokens, const engine::tokenizer& vocabulary) {
  std::string out;
  for (const engine::token_id token : tokens) vocabulary.append_bytes(token, out, true);
  return out;
}

encoded_prompt encode_text(text_prompt& parts, const completion_request& asked,
                           const engine::tokenizer& vocabulary) {
  encoded_prompt out;
  std::string text;
  for (prompt_part& part : parts) {
    if (auto* ids = std::get_if<std::vector<engine::token_id>>(&part)) {
      text += vocabulary.decode(*ids);
      out.tokens.insert(out.tokens.end(), ids->begin(), ids->end());
      continue;
    }
    const auto& words = std::get<prompt_text>(part);
    engine::encode_options options;
    options.add_special = words.add_special && asked.shape.add_special;
    options.parse_special = words.parse_special;
    const auto tokens = vocabulary.encode(words.text, options);
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    text += words.text;
  }
  out.digest = engine::prompt_digest(text);
  text = engine::valid_utf8(text);  // a client's ids may be of parts of characters
  out.characters = code_points(text);
  if ((asked.echo_prompt || asked.tells_prompt) && !out.tokens.empty()) {
    const std::size_t shown = code_points(bytes_of(out.tokens, vocabulary));
    out.echo = std::make_shared<prompt_echo>(prompt_echo{std::move(text), out.tokens.front(), asked.logprobs,
                                                         shown - std::min(shown, out.characters),
                                                         asked.top_logprobs});
  }
  return out;
}

/// Tokenizes the prompts. Nullopt as render().
result<std::optional<std::vector<encoded_prompt>>> encode(completion_request& asked,
                                                          const completion_context& context,
                                                          const request_form& form, effort how) {
  std::optional<std::vector<encoded_prompt>> out(std::in_place);
  if (asked.kind == completion_kind::chat) {
    auto chat = encode_chat(asked, context, form, how);
    if (!chat) return chat.error();
    if (!*chat) return std::optional<std::vector<encoded_prompt>>();
    out->push_back(std::move(**chat));
    return out;
  }
  for (auto& prompt : asked.prompts) out->push_back(encode_text(prompt, asked, context.tokenizer));
  return out;
}

/// The request's field that asks for this kind of constraint.
std::string_view field_of(const output_constraints& constraints) {
  switch (constraints.kind) {
    case constraint_kind::calls: return "tool_choice";
    case constraint_kind::open: return "tools";
    default: return constraints.field;
  }
}

/// An output in the generic form is kept to it, whatever the request demands of it besides.
result<void> settle_generic(output_constraints& constraints, const engine::output_frame& frame) {
  if (frame.format.calls != engine::call_format::generic) return {};
  if (constraints.kind == constraint_kind::none) constraints.kind = constraint_kind::open;
  if (!frame.in_answer || constraints.kind == constraint_kind::open) return {};
  return refuse_field(
      field_of(constraints),
      "cannot be enforced where the last message is continued, which is a text: the model's chat "
      "template reads no tools");
}

/// Frees, on this thread, what may be large and is not needed any more.
void drop_inputs(completion_request& asked) {
  asked.messages = json::array();
  asked.media.reset();
  asked.template_variables = json::object();
  asked.template_hints = json::object();
  asked.chat_template.reset();
  asked.documents = json::array();
  asked.constraints = output_constraints();
  asked.prompts.clear();
  if (asked.prediction) asked.prediction->clear();
}

/// What all jobs of the request have in common. A prediction longer than any output predicts no more.
engine::job_request job_of(completion_request& asked, const engine::tokenizer& vocabulary,
                           std::uint32_t context_tokens) {
  engine::job_request job;
  if (asked.prediction) {
    engine::encode_options as_text;
    as_text.add_special = false;
    as_text.parse_special = false;
    job.prediction = vocabulary.encode(*asked.prediction, as_text);
    job.prediction.resize(std::min<std::size_t>(job.prediction.size(), context_tokens));
    job.prediction.shrink_to_fit();
  }
  job.sampling = asked.sampling;
  job.logprobs = asked.logprobs;
  job.top_logprobs = asked.top_logprobs;
  job.ignore_eos = asked.ignore_eos;
  job.stop_tokens = asked.stop_tokens;
  job.keep_stop_token = asked.shows.stop_string;
  job.cache = std::move(asked.cache);
  job.adapters = std::move(asked.adapters);
  const bool echoes = asked.echo_prompt && asked.logprobs;
  job.score_from = echoes ? 1 : 0;
  job.score_top = echoes ? asked.top_logprobs : 0;
  job.tell_end = echoes;
  job.tell_progress = asked.shows.progress && asked.stream;
  return job;
}

/// How many tokens the answer may have.
result<std::uint32_t> room_for(const completion_request& asked, std::size_t prompt_tokens,
                               const request_form& form, const request_limits& lengths) {
  if (asked.count_only) return 1U;
  return fit_to_context(asked.max_tokens, prompt_tokens, lengths,
                        {form.prompt_field, asked.max_tokens_field, form.too_long});
}

/// The jobs of all prompts, by prompt and then by choice. A prompt's choices are what they would be without
/// the other prompts.
result<std::vector<engine::job_request>> make_jobs(const completion_request& asked,
                                                   std::vector<encoded_prompt>& prompts,
                                                   const request_form& form, const request_limits& lengths,
                                                   engine::job_request job, std::uint64_t any_seed) {
  const std::uint64_t seed = asked.seed.value_or(any_seed);
  std::vector<engine::job_request> jobs;
  std::uint64_t values = 0;
  for (encoded_prompt& prompt : prompts) {
    const std::uint32_t wanted = asked.max_tokens.value_or(1);
    if (cut_prompt(prompt.tokens, asked.shape, lengths.context_tokens, wanted)) prompt.system_tokens = 0;
    prompt.system_tokens = std::min(prompt.system_tokens, static_cast<std::uint32_t>(prompt.tokens.size()));
    const auto max_tokens = room_for(asked, prompt.tokens.size(), form, lengths);
    if (!max_tokens) return max_tokens.error();
    const auto fits = add_prompt_values(asked, prompt.tokens.size(), values);
    if (!fits) return fits.error();
    job.max_tokens = *max_tokens;
    job.prompt = std::move(prompt.tokens);
    job.media = std::move(prompt.media);
    job.cache.system_tokens = prompt.system_tokens;
    for (std::uint32_t i = 0; i < asked.choices; ++i) {
      job.seed = choice_seed(seed, i);
      jobs.push_back(job);
      if (i == 0) score_prompt(jobs.back(), asked);
    }
  }
  return jobs;
}

void name_jobs(std::vector<engine::job_request>& jobs, const std::string& id) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].job_id = jobs.size() == 1 ? id : id + "-" + std::to_string(i);
  }
}

request_facts facts_of(std::vector<encoded_prompt>& prompts, std::optional<std::chrono::milliseconds> left,
                       bool deadline_is_final) {
  request_facts out;
  std::string digests;
  for (encoded_prompt& prompt : prompts) {
    out.prompt_chars += prompt.characters;
    digests += prompt.digest;
  }
  out.prompt_digest = prompts.size() == 1 ? std::move(digests) : engine::prompt_digest(digests);
  out.deadline_left = left;
  out.deadline_is_final = deadline_is_final;
  return out;
}

/// Reads the body. What a quick effort reads of earlier responses counts as the body does.
result<completion_request> read_request(const http_request& request, const request_form& form,
                                        const completion_context& context, effort how) {
  if (how == effort::full || !context.limits.shelf) return form.parse(request.body, context.limits);
  completion_limits limits = context.limits;
  limits.recalled_bytes_max = read_at_once_bytes_max - std::min(read_at_once_bytes_max, request.body.size());
  return form.parse(request.body, limits);
}

result<std::optional<prepared_completion>> prepare(const http_request& request, const request_form& form,
                                                   const completion_context& context,
                                                   std::chrono::system_clock::time_point wall, effort how) {
  const auto deadline_left = read_deadline(request, wall);
  if (!deadline_left) return deadline_left.error();
  auto asked = read_request(request, form, context, how);
  if (!asked) return asked.error();
  if (asked->unread) return std::optional<prepared_completion>();
  const auto& lengths = context.limits.lengths;
  const auto limit = fix_time_limit(request, asked->timeout, *deadline_left, lengths);
  if (!limit) return limit.error();
  const auto session = read_session(request);
  if (!session) return session.error();
  if (asked->constraints.kind != constraint_kind::none && context.tokens == nullptr) {
    return refuse_field(field_of(asked->constraints), "cannot be enforced by this worker");
  }
  if (how == effort::quick && has_own_breakers(*asked)) return std::optional<prepared_completion>();
  if (const auto resolved = resolve_texts(*asked, context.tokenizer); !resolved) return resolved.error();
  auto encoded = encode(*asked, context, form, how);
  if (!encoded) return encoded.error();
  if (!*encoded) return std::optional<prepared_completion>();
  auto& prompts = **encoded;
  const auto& frame = prompts.front().frame;
  if (const auto settled = settle_generic(asked->constraints, frame); !settled) return settled.error();
  // Without a format of calls the model cannot call a function, so that there are no arguments to constrain.
  if (asked->constraints.kind == constraint_kind::open && frame.format.calls == engine::call_format::none) {
    asked->constraints.kind = constraint_kind::none;
  }
  engine::job_request job = job_of(*asked, context.tokenizer, lengths.context_tokens);
  job.deadline = limit->at;
  job.received_at = request.received_at;
  if (job.cache.session.empty()) job.cache.session = *session;
  id_series ids(request.nonce);
  auto jobs = make_jobs(*asked, prompts, form, lengths, std::move(job), ids.next_bits());
  if (!jobs) return jobs.error();

  std::optional<prepared_completion> out(std::in_place);
  out->reader = reader_options_of(*asked, frame);
  if (asked->constraints.kind != constraint_kind::none) {
    out->grammar = grammar_source{std::move(asked->constraints), frame, context.tokens};
    out->grammar_key = key_of(*out->grammar);
  }
  if (asked->reasoning_tokens_max) {
    out->budget = engine::reasoning_budget{*asked->reasoning_tokens_max, frame.format, frame.in_reasoning};
  }
  out->id = std::string(form.id_prefix) + ids.next();
  out->jobs = std::move(*jobs);
  name_jobs(out->jobs, out->id);
  for (auto& prompt : prompts) out->echoes.push_back(std::move(prompt.echo));
  out->facts = facts_of(prompts, *deadline_left, limit->is_final);
  drop_inputs(*asked);
  out->asked = std::move(*asked);
  return out;
}

}  // namespace

// The finalizer of splitmix64: similar seeds give unrelated ones.
std::uint64_t choice_seed(std::uint64_t seed, std::uint32_t choice) noexcept {
  if (choice == 0) return seed;
  std::uint64_t z = seed + choice * 0x9E3779B97F4A7C15ULL;
  z = (z ^ z >> 30U) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ z >> 27U) * 0x94D049BB133111EBULL;
  return z ^ z >> 31U;
}

request_form form_of(completion_kind kind) {
  if (kind == completion_kind::chat) {
    return {endpoint::chat_completions, "chatcmpl-", "messages", [](auto body, const auto& limits) {
              return parse_completion(body, completion_kind::chat, limits);
            }};
  }
  return {endpoint::completions, "cmpl-", "prompt", [](auto body, const auto& limits) {
            return parse_completion(body, completion_kind::text, limits);
          }};
}

result<std::optional<prepared_completion>> prepare_quickly(const http_request& request,
                                                           const request_form& form,
                                                           const completion_context& context,
                                                           std::chrono::system_clock::time_point wall) {
  return prepare(request, form, context, wall, effort::quick);
}

result<engine::rendered_prompt> render_chat(const completion_request& asked,
                                            const completion_context& context, bool generation_prompt) {
  auto rendered = render_messages(asked, context, effort::full, generation_prompt);
  if (!rendered) return rendered.error();
  return std::move((*rendered)->prompt);
}

result<prepared_completion> prepare_completion(const http_request& request, const request_form& form,
                                               const completion_context& context,
                                               std::chrono::system_clock::time_point wall) {
  auto prepared = prepare(request, form, context, wall, effort::full);
  if (!prepared) return prepared.error();
  return std::move(**prepared);
}

}  // namespace orcd::net
