#include "net/openai/models.hpp"

#include <string>

#include "net/jobs/model_task.hpp"
#include "net/json/json_text.hpp"
#include "net/models/model_names.hpp"

namespace orcd::net {
namespace {

std::string model_object(const engine::worker_identity& identity, std::int64_t created, std::string_view id) {
  std::string out;
  json_object json(out);
  json.text("id", id)
      .text("object", "model")
      .integer("created", created)
      .text("owned_by", "worker-orcd")
      .integer("max_model_len", identity.context_tokens);
  json_object meta = json.object("meta");
  meta.text("architecture", identity.architecture)
      .text("quant_kind", identity.quant_kind)
      .integer("context_tokens", identity.context_tokens)
      .integer("slots", identity.slots)
      .integer("embedding_length", identity.embedding_length)
      .integer("n_vocab", identity.vocab)
      .integer("n_ctx_train", identity.context_trained)
      .integer("n_embd", identity.embedding_length)
      .integer("n_params", identity.parameters)
      .integer("size", identity.tensor_bytes)
      .text("task", to_string(model_task_of(identity)));
  if (identity.pooling) {
    meta.text("pooling", engine::to_string(*identity.pooling));
  } else {
    meta.null("pooling");
  }
  if (!identity.projector.empty()) {
    meta.text("projector", identity.projector);
    meta.raw("input_modalities", identity.projector_hears ? R"(["text","audio"])" : R"(["text","image"])");
  }
  // Hashing a large file takes longer than loading it.
  if (identity.digest.empty()) {
    meta.null("digest");
  } else {
    meta.text("digest", identity.digest);
  }
  meta.close();
  json.close();
  return out;
}

/// As vLLM lists adapters: `parent` is the model, `root` where the adapter came from.
std::string adapter_object(const engine::worker_identity& identity, const served_adapter& one) {
  std::string out;
  json_object json(out);
  json.text("id", one.name)
      .text("object", "model")
      .integer("created", one.created)
      .text("owned_by", "worker-orcd")
      .text("root", one.path)
      .text("parent", identity.model_name)
      .integer("max_model_len", identity.context_tokens);
  json_object meta = json.object("meta");
  meta.integer("lora_id", one.id)
      .integer("rank", one.rank)
      .integer("pairs", one.pairs)
      .integer("size", one.bytes)
      .text("digest", one.digest);
  meta.close();
  json.close();
  return out;
}

}  // namespace

reply answer_models(const engine::worker_identity& identity, std::int64_t created,
                    const shared_adapters& adapters) {
  std::string list;
  for (const auto id : model_ids(identity)) {
    list += (list.empty() ? "" : ",") + model_object(identity, created, id);
  }
  if (adapters) {
    for (const served_adapter& one : *adapters) list += "," + adapter_object(identity, one);
  }
  return make_json_reply(200, R"({"object":"list","data":[)" + list + "]}");
}

reply answer_model(const engine::worker_identity& identity, std::int64_t created, std::string_view asked,
                   const shared_adapters& adapters) {
  if (const served_adapter* const adapter = find_adapter(adapters, asked)) {
    return make_json_reply(200, adapter_object(identity, *adapter));
  }
  const auto id = find_model_id(identity, asked);
  if (!id) return make_error_reply(check_model_name(identity, asked).error());
  return make_json_reply(200, model_object(identity, created, *id));
}

}  // namespace orcd::net
