#include "net/jobs/model_task.hpp"

#include <string>

namespace orcd::net {

engine::result<void> check_model_task(const engine::worker_identity& identity, model_task wanted) {
  if (model_task_of(identity) == wanted) return {};
  const auto refuse = [&](const std::string& what) {
    return engine::error(engine::errc::invalid_request, "'" + identity.model_name + "' " + what, "model");
  };
  switch (model_task_of(identity)) {
    case model_task::embed:
      return refuse("is served for embeddings (pooling " + std::string(to_string(*identity.pooling)) +
                    "): ask /v1/embeddings");
    case model_task::rank: return refuse("is served for ranking (pooling rank): ask /v1/rerank");
    case model_task::generate: break;
  }
  return refuse(std::string("generates text: its file names no pooling; --pooling ") +
                (wanted == model_task::rank ? "rank" : "mean, cls or last") + " serves such a model for " +
                (wanted == model_task::rank ? "ranking" : "embeddings"));
}

}  // namespace orcd::net
