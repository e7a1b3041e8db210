#include "gpu/owned_engine.hpp"

#include <exception>
#include <future>
#include <string>
#include <utility>

namespace orcd::gpu {

using engine::errc;
using engine::error;
using engine::result;

owned_engine::owned_engine(engine::served_model model, std::unique_ptr<engine::accelerator> device,
                           engine::scheduler_config schedule)
    : model_(std::make_shared<const engine::served_model>(std::move(model))),
      device_(std::move(device)),
      thread_(std::make_unique<gpu_thread>(*device_, std::move(schedule), state_)) {}

result<engine::memory_plan> owned_engine::load() {
  std::promise<result<engine::memory_plan>> done;
  thread_->post([&] { done.set_value(load_here()); });
  return done.get_future().get();
}

result<engine::memory_plan> owned_engine::load_here() {
  try {
    auto plan = device_->load(model_->spec, model_->plan_for, [](unsigned) {});
    if (!plan) return plan;
    if (auto intact = model_->file.check_intact(); !intact) return intact.error();
    return plan;
  } catch (const engine::accelerator_failure& failure) {
    return error(failure.code, failure.what());
  } catch (const std::exception& failure) {
    return error(errc::model_load_failed, std::string("loading the weights failed: ") + failure.what());
  }
}

void owned_engine::close() noexcept {
  if (!thread_) return;
  thread_->stop();
  thread_->post([this] { device_.reset(); });
  thread_.reset();
}

}  // namespace orcd::gpu
