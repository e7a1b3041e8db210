#include "net/models.hpp"

#include <string>

#include "net/field_checks.hpp"
#include "net/json_text.hpp"
#include "net/tasks.hpp"

namespace orcd::net {
namespace {

std::string model_object(const engine::worker_identity& identity, std::int64_t created) {
  std::string out;
  json_object json(out);
  json.text("id", identity.model_name)
      .text("object", "model")
      .integer("created", created)
      .text("owned_by", "worker-orcd");
  json_object meta = json.object("meta");
  meta.text("architecture", identity.architecture)
      .text("quant_kind", identity.quant_kind)
      .integer("context_tokens", identity.context_tokens)
      .integer("slots", identity.slots)
      .integer("embedding_length", identity.embedding_length)
      .text("task", to_string(task_of(identity)));
  if (identity.pooling) {
    meta.text("pooling", engine::to_string(*identity.pooling));
  } else {
    meta.null("pooling");
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

}  // namespace

reply answer_models(const engine::worker_identity& identity, std::int64_t created) {
  return make_json_reply(200, R"({"object":"list","data":[)" + model_object(identity, created) + "]}");
}

reply answer_model(const engine::worker_identity& identity, std::int64_t created, std::string_view id) {
  if (id == identity.model_name) return make_json_reply(200, model_object(identity, created));
  return make_error_reply(unknown_model(id, identity.model_name));
}

}  // namespace orcd::net
