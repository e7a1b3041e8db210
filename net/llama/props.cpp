#include "net/llama/props.hpp"

#include <boost/json/object.hpp>
#include <string>

#include "engine/conversation/chat_format.hpp"
#include "engine/schedule/admission.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/worker_state.hpp"
#include "net/json/json_text.hpp"
#include "net/llama/llama_answer.hpp"

namespace orcd::net {
namespace {

/// A special token's text, empty where the model has none.
std::string special_text(const service& s, engine::token_id token, std::string_view name) {
  if (s.context.chat != nullptr) {
    const auto* text = s.context.chat->special_tokens().if_contains(name);
    if (text != nullptr && text->is_string()) return std::string(text->get_string());
  }
  std::string out;
  if (token >= 0) s.context.tokenizer.append_bytes(token, out, true);
  return out;
}

std::string_view template_text(const service& s) {
  return s.context.chat == nullptr ? std::string_view() : std::string_view(s.context.chat->text());
}

/// An error in llama-server's own words, for what this worker has no code for.
reply llama_error(unsigned status, std::string_view type, std::string_view message) {
  std::string body;
  json_object outer(body);
  json_object inner = outer.object("error");
  inner.integer("code", status).text("message", message).text("type", type);
  inner.close();
  outer.close();
  return make_json_reply(status, std::move(body));
}

}  // namespace

reply answer_props(const service& s) {
  const auto& identity = s.context.identity;
  engine::job_request usual;
  usual.max_tokens = s.config.model.tokens_out_max;
  usual.sampling = s.config.model.sampling;
  usual.seed = s.config.model.seed.value_or(0);
  std::string body;
  json_object json(body);
  json_object defaults = json.object("default_generation_settings");
  defaults.integer("id", 0).integer("n_ctx", identity.context_tokens);
  body += ",\"params\":" + generation_settings(usual, completion_request());
  defaults.close();
  json.integer("total_slots", identity.slots)
      .integer("n_ctx", identity.context_tokens)
      .text("model_alias", identity.model_name)
      .text("model_path", identity.model_name)
      .text("chat_template", template_text(s))
      .text("bos_token", special_text(s, s.context.tokenizer.bos(), "bos_token"))
      .text("eos_token", special_text(s, s.context.tokenizer.eos(), "eos_token"));
  json_object modalities = json.object("modalities");
  const bool taken = !identity.projector.empty();
  modalities.boolean("vision", taken && !identity.projector_hears)
      .boolean("audio", taken && identity.projector_hears);
  modalities.close();
  json.text("build_info", "worker-orcd " + identity.version)
      .boolean("endpoint_slots", s.config.slots_endpoint)
      .boolean("endpoint_props", false)
      .boolean("endpoint_metrics", true)
      .boolean("webui", s.config.page);
  json.close();
  return make_json_reply(200, std::move(body));
}

reply answer_slots(const service& s, std::string_view query) {
  if (!s.config.slots_endpoint) {
    return llama_error(501, "not_supported_error",
                       "This server does not support slots endpoint. Start it with `--slots-endpoint`");
  }
  const auto& identity = s.context.identity;
  const std::uint32_t running = s.context.admission.running();
  if (query == "fail_on_no_slot=1" && running >= identity.slots) {
    return llama_error(503, "unavailable_error", "no slot available");
  }
  std::string body = "[";
  for (std::uint32_t i = 0; i < identity.slots; ++i) {
    if (i > 0) body += ',';
    json_object json(body);
    json.integer("id", i)
        .integer("n_ctx", identity.context_tokens)
        .boolean("speculative", false)
        .boolean("is_processing", i < running);
    json.close();
  }
  return make_json_reply(200, body + "]");
}

reply answer_tokenizer_info(const service& s) {
  std::string body;
  json_object json(body);
  const auto special = [&](std::string_view name, engine::token_id token) {
    const std::string text = special_text(s, token, name);
    text.empty() ? json.null(name) : json.text(name, text);
  };
  json.text("tokenizer_class", s.context.tokenizer.kind());
  special("bos_token", s.context.tokenizer.bos());
  special("eos_token", s.context.tokenizer.eos());
  json.text("chat_template", template_text(s)).integer("model_max_length", s.context.identity.context_tokens);
  json.close();
  return make_json_reply(200, std::move(body));
}

reply answer_version(const service& s) {
  std::string body;
  json_object json(body);
  json.text("version", s.context.identity.version);
  json.close();
  return make_json_reply(200, std::move(body));
}

reply answer_load(const service& s) {
  std::string body;
  json_object json(body);
  json.integer("server_load", s.streams.size());
  json.close();
  return make_json_reply(200, std::move(body));
}

}  // namespace orcd::net
