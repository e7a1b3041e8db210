#include "gpu/capi/embedded_model.hpp"

#include <algorithm>
#include <cmath>
#include <future>
#include <utility>

#include "engine/text/utf8.hpp"
#include "gpu/include/worker_cuda.h"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;
using engine::result;

/// Longer prompts are refused before they are tokenized; no context holds them.
constexpr std::size_t prompt_bytes_max = 16 << 20;
constexpr std::chrono::seconds inference_max{WORKER_CUDA_INFERENCE_SECONDS_MAX};
/// Longest time that the GPU thread may take for the step in progress.
constexpr std::chrono::seconds step_max{30};

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto found = engine::utf8::inspect(text);
    if (found.needed == 0 || found.present != found.needed) return false;
    text.remove_prefix(found.needed);
  }
  return true;
}

error bad(std::string text, const char* argument) {
  return {errc::invalid_request, std::move(text), argument};
}

engine::scheduler_config schedule_of(const engine::served_model& model) {
  engine::scheduler_config schedule;
  schedule.slots = 1;
  const auto ends = model.tokenizer->end_of_generation();
  schedule.end_of_generation.assign(ends.begin(), ends.end());
  return schedule;
}

}  // namespace

embedded_model::embedded_model(engine::served_model model, std::unique_ptr<engine::accelerator> device,
                               engine::scheduler_config schedule)
    : engine_(std::move(model), std::move(device), std::move(schedule)) {}

result<std::shared_ptr<embedded_model>> embedded_model::load(const std::string& location,
                                                             std::unique_ptr<engine::accelerator> device,
                                                             std::uint32_t context_max) {
  auto opened = engine::open_served_model({.location = location, .tokenizer = {}});
  if (!opened) return opened.error();
  if (opened->spec.spec.pooling) {
    return error(errc::model_load_failed, "the model makes embeddings or scores; this API generates text");
  }
  auto& context = opened->plan_for.context_tokens;
  context = std::min(context, context_max);
  auto schedule = schedule_of(*opened);
  std::shared_ptr<embedded_model> model(
      new embedded_model(std::move(*opened), std::move(device), std::move(schedule)));
  if (const auto loaded = model->engine_.load(); !loaded) return loaded.error();
  model->vram_bytes_ = model->engine_.device().vram_bytes();
  return model;
}

result<engine::job_request> embedded_model::prepare(const inference_request& request) const {
  if (request.prompt.empty()) return bad("the prompt is empty", "prompt");
  if (request.prompt.size() > prompt_bytes_max) {
    return bad("the prompt has " + std::to_string(request.prompt.size()) + " bytes, the limit is " +
                   std::to_string(prompt_bytes_max),
               "prompt");
  }
  if (!is_utf8(request.prompt)) return bad("the prompt is not valid UTF-8", "prompt");
  if (request.max_tokens < 1) {
    return bad("max_tokens is " + std::to_string(request.max_tokens) + ", it must be at least 1",
               "max_tokens");
  }
  if (!(request.temperature >= 0.0F && request.temperature <= 2.0F)) {
    return bad("temperature is " + std::to_string(request.temperature) + ", it must be 0 to 2",
               "temperature");
  }
  engine::job_request job;
  job.prompt = engine_.model()->tokenizer->encode(request.prompt);
  if (job.prompt.empty()) return bad("the prompt encodes to no token", "prompt");
  const auto max_tokens = static_cast<std::uint32_t>(request.max_tokens);
  const std::uint64_t positions = job.prompt.size() + std::uint64_t{max_tokens} - 1;
  if (positions > engine_.model()->plan_for.context_tokens) {
    return error(errc::context_length_exceeded,
                 "the prompt has " + std::to_string(job.prompt.size()) + " tokens and max_tokens is " +
                     std::to_string(max_tokens) + ": together " + std::to_string(positions) +
                     " positions, the context holds " +
                     std::to_string(engine_.model()->plan_for.context_tokens));
  }
  job.max_tokens = max_tokens;
  job.sampling.temperature = request.temperature;
  job.seed = request.seed;
  job.received_at = std::chrono::steady_clock::now();
  job.deadline = job.received_at + inference_max;
  return job;
}

result<std::shared_ptr<inference>> embedded_model::start(const inference_request& request) {
  auto job = prepare(request);
  if (!job) return job.error();
  const std::lock_guard lock(starting_);
  if (running_) {
    return error(errc::duplicate_job, "an inference of this model was started before and not freed yet");
  }
  job->job_id = "embedded-" + std::to_string(++started_);
  auto sink =
      std::make_shared<inference>(job->job_id, engine_.model(), job->max_tokens, *job->deadline + step_max);
  running_ = true;
  engine_.thread().submit(std::move(*job), sink);
  return sink;
}

void embedded_model::end(const inference& ended) {
  const std::lock_guard lock(starting_);
  running_ = false;
  engine_.thread().cancel(ended.job_id(), engine::cancel_reason::client_cancel);
}

std::vector<std::string> embedded_model::audit() {
  const auto answer = std::make_shared<std::promise<std::vector<std::string>>>();
  auto failures = answer->get_future();
  engine_.thread().post([this, answer] { answer->set_value(engine_.device().audit()); });
  if (failures.wait_for(step_max) != std::future_status::ready) return {"the GPU did not answer in time"};
  return failures.get();
}

}  // namespace orcd::gpu
