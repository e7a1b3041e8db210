#include "app/pipe/run_pipe.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "app/model/model_setup.hpp"
#include "app/pipe/answer_sink.hpp"
#include "app/pipe/arguments.hpp"
#include "app/pipe/check_model.hpp"
#include "app/pipe/line_buffer.hpp"
#include "app/pipe/settings.hpp"
#include "engine/lora/read_adapter.hpp"
#include "gpu/host/host_backend.hpp"
#include "gpu/owned_engine.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

/// Two threads are left to the client and the rest of the machine.
std::uint32_t usual_threads() noexcept {
  return std::max(std::thread::hardware_concurrency(), 3U) - 2U;
}

engine::scheduler_config schedule_of(const engine::served_model& model) {
  engine::scheduler_config schedule;
  schedule.slots = 1;
  schedule.end_of_generation = model.plan_for.end_of_generation;
  // A conversation goes on from its first token, however short it is.
  schedule.cache = {.share = true, .tokens_min = 1, .sessions = 0, .system_prompts = 0};
  return schedule;
}

/// The worker's message would name options that there are none of here.
error plan_error(const start_failure& failure) {
  return {failure.why.code, "the plan needs " + std::to_string(failure.required_bytes.value_or(0)) +
                                " bytes of memory, but there are " +
                                std::to_string(failure.available_bytes.value_or(0)) +
                                "; lower WORKER_ORCD_CONTEXT, or see WORKER_ORCD_KV_CACHE_SIZE_MB"};
}

class pipe_process {
 public:
  pipe_process(pipe_arguments arguments, pipe_settings settings)
      : arguments_(std::move(arguments)), settings_(std::move(settings)) {}

  /// Until there are no more requests.
  result<void> run();

 private:
  result<std::optional<std::string_view>> next_line(const std::string& field, std::size_t most);
  result<void> read_more();
  result<bool> read_config();
  result<void> start();
  result<void> read_adapter(engine::served_model& model);
  result<void> put_adapter();
  result<std::optional<pipe_request>> next_request(request_reader& reader);
  result<void> respond(const pipe_request& request);
  engine::job_request job_of(const pipe_request& request, answer_plan& plan);
  result<void> wait_for(answer_sink& sink);
  result<void> wait_until_read();
  result<void> wait_on(short output_events, std::array<pollfd, 2>& on);

  pipe_arguments arguments_;
  pipe_settings settings_;
  sdk_config config_;
  pipe_protocol protocol_ = pipe_protocol::lines;
  line_buffer input_;
  token_output output_{STDOUT_FILENO};
  int wake_ = -1;
  std::shared_ptr<const engine::lora_adapter> adapter_;  ///< of all answers, if there is one
  std::unique_ptr<gpu::owned_engine> engine_;
  std::uint64_t requests_ = 0;
  std::optional<conversation> context_;
};

/// Sleeps until on[0] has something, or the output can take `output_events`; never for a reader that is gone.
result<void> pipe_process::wait_on(short output_events, std::array<pollfd, 2>& on) {
  on[1] = {STDOUT_FILENO, output_events, 0};
  if (::poll(on.data(), on.size(), -1) < 0 && errno != EINTR) {
    return pipe_error(std::string("standard input and output cannot be waited for: ") + std::strerror(errno));
  }
  if ((on[1].revents & (POLLERR | POLLHUP | POLLNVAL)) == 0 && !output_.broken()) return {};
  return pipe_error("standard output is closed; it must be open until the last answer");
}

result<void> pipe_process::read_more() {
  std::array<pollfd, 2> on{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{}};
  while (on[0].revents == 0) {
    if (auto waited = wait_on(0, on); !waited) return waited;
  }
  std::array<char, 65'536> bytes;
  const auto count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count > 0) {
    input_.add({bytes.data(), static_cast<std::size_t>(count)});
  } else if (count == 0) {
    input_.close();
  } else if (errno != EINTR && errno != EAGAIN) {
    return pipe_error(std::string("standard input cannot be read: ") + std::strerror(errno));
  }
  return {};
}

/// nullopt at the end of the input.
result<std::optional<std::string_view>> pipe_process::next_line(const std::string& field, std::size_t most) {
  for (;;) {
    auto line = input_.next(field, most);
    if (!line || *line || input_.closed()) return line;
    if (auto read = read_more(); !read) return read.error();
  }
}

/// False where the client has no request.
result<bool> pipe_process::read_config() {
  if (arguments_.config) {
    config_ = *arguments_.config;
    return true;
  }
  protocol_ = pipe_protocol::blocks;
  config_block block;
  for (;;) {
    const auto line = next_line("the first block", block.begun() ? block_line_max : number_line_max);
    if (!line) return line.error();
    if (!*line && !block.begun()) return false;
    if (!*line) return pipe_error("standard input ended within the first block");
    auto config = block.take(**line);
    if (!config) return config.error();
    if (block.quit()) return false;
    if (!*config) continue;
    config_ = std::move(**config);
    if (config_.lora_dir && !arguments_.adapter) arguments_.adapter = config_.lora_dir;
    return true;
  }
}

result<void> pipe_process::start() {
  options& opts = settings_.opts;
  if (opts.threads == 0) opts.threads = config_.num_threads > 0 ? config_.num_threads : usual_threads();
  auto model = open_token_model(opts, config_.eos);
  if (!model) return model.error();
  if (auto good = check_model(config_, model->file, model->spec); !good) return good;
  if (auto good = check_rope_file(config_, model->file, model->spec.spec.layers.front().rope); !good)
    return good;
  if (auto read = read_adapter(*model); !read) return read;
  // One page more than the context, so that a page that is shared in part can be copied from.
  constexpr std::uint32_t page = engine::kv_page_positions;
  const std::uint32_t context = model->plan_for.context_tokens;
  model->plan_for.kv_pages = (context + page - 1) / page + 1;
  if (opts.backend == backend_kind::host) {
    const auto plan = gpu::plan_host_memory(model->spec, model->plan_for);
    if (auto failure = check_plan(plan, opts, physical_memory_bytes())) return plan_error(*failure);
  }
  auto device = make_accelerator(opts, {}, [this] { return engine_->model()->file.check_intact(); });
  if (!device) return device.error();
  auto schedule = schedule_of(*model);
  engine_ = std::make_unique<gpu::owned_engine>(std::move(*model), std::move(*device), std::move(schedule));
  if (auto loaded = engine_->load(); !loaded) return loaded.error();
  if (auto put = put_adapter(); !put) return put;
  context_.emplace(context, settings_.limit);
  return {};
}

/// Plans the room for the adapter that is asked for, if one is.
result<void> pipe_process::read_adapter(engine::served_model& model) {
  if (!arguments_.adapter) return {};
  const std::string path = *arguments_.adapter + "/qmodel.lora";
  if (auto good = check_adapter_file(path); !good) return good;
  auto values = engine::read_adapter(path, model.spec);
  if (!values) return values.error();
  model.plan_for.adapters = {1, values->rank_max};
  adapter_ = std::make_shared<const engine::lora_adapter>(std::move(*values));
  return {};
}

result<void> pipe_process::put_adapter() {
  if (!adapter_) return {};
  std::promise<result<void>> done;
  engine_->thread().put_adapter(0, adapter_, [&done](const result<void>& put) { done.set_value(put); });
  return done.get_future().get();
}

/// nullopt at the end of the input.
result<std::optional<pipe_request>> pipe_process::next_request(request_reader& reader) {
  for (;;) {
    const std::string field = reader.field();
    const auto line = next_line(field, reader.line_max());
    if (!line) return line.error();
    if (!*line && reader.between()) return std::optional<pipe_request>();
    if (!*line) return pipe_error("standard input ended before " + field);
    auto request = reader.take(**line);
    if (!request || *request) return request;
  }
}

engine::job_request pipe_process::job_of(const pipe_request& request, answer_plan& plan) {
  engine::job_request job;
  job.job_id = "pipe-" + std::to_string(requests_);
  job.prompt = plan.prompt;
  job.max_tokens = plan.tokens_max;
  job.sampling = request.sampling;
  job.seed = settings_.seed ? *settings_.seed + requests_ : random_seed();
  job.tell_end = true;
  if (adapter_) job.adapters.push_back({.index = 0, .strength = 1.0F, .digest = adapter_->digest});
  job.received_at = std::chrono::steady_clock::now();
  return job;
}

/// Lines that its reader has not taken are written here, so that the GPU thread never waits for it.
result<void> pipe_process::wait_for(answer_sink& sink) {
  while (!sink.over() || output_.waits()) {
    output_.flush();
    std::array<pollfd, 2> on{pollfd{wake_, POLLIN, 0}, pollfd{}};
    if (sink.over() && !output_.waits()) break;
    if (auto waited = wait_on(output_.waits() ? POLLOUT : 0, on); !waited) return waited;
    std::uint64_t woken = 0;
    if (on[0].revents != 0) [[maybe_unused]]
      const auto count = ::read(wake_, &woken, sizeof woken);
  }
  if (sink.failure()) return *sink.failure();
  return {};
}

result<void> pipe_process::wait_until_read() {
  for (output_.flush(); output_.waits(); output_.flush()) {
    std::array<pollfd, 2> on{pollfd{-1, 0, 0}, pollfd{}};
    if (auto waited = wait_on(POLLOUT, on); !waited) return waited;
  }
  return {};
}

result<void> pipe_process::respond(const pipe_request& request) {
  ++requests_;
  auto plan = context_->plan(request);
  if (!plan) return plan.error();
  const engine::token_id end = end_of_turn(plan->prompt, config_.eos);
  answer begun(request.max_tokens, end, settings_.limit, plan->prompt.size());
  if (!plan->fits) {
    context_->cut(plan->keep);
    if (const auto line = begun.over()) output_.line(static_cast<std::uint64_t>(*line));
    output_.line(context_->size());
    return wait_until_read();
  }
  auto sink = std::make_shared<answer_sink>(std::move(begun), plan->tokens_max, output_, wake_);
  engine_->thread().submit(job_of(request, *plan), sink);
  if (auto done = wait_for(*sink); !done) return done;
  context_->become(std::move(plan->prompt), sink->written());
  return {};
}

result<void> pipe_process::run() {
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return error{errc::worker_start_failed, "no descriptor is left for an eventfd"};
  const auto asked = read_config();
  if (!asked) return asked.error();
  if (!*asked) return {};
  if (auto started = start(); !started) return started;
  request_reader reader(protocol_, config_.vocab_size, engine_->model()->plan_for.context_tokens);
  for (;;) {
    const auto request = next_request(reader);
    if (!request) return request.error();
    if (!*request || (*request)->quit) return {};
    if (auto answered = respond(**request); !answered) return answered;
  }
}

/// What the next start would meet as well, such as a backend that this build has not, is wrong usage.
pipe_end end_of(const error& why) {
  return {why.code == errc::invalid_request || why.permanent ? 2 : 1, why.message};
}

}  // namespace

void run_pipe(std::span<const std::string_view> words, const environment& env,
              void (*end)(const pipe_end& how)) {
  auto arguments = parse_pipe_arguments(words);
  if (!arguments) return end(end_of(arguments.error()));
  auto settings = read_pipe_settings(arguments->model_dir, env);
  if (!settings) return end(end_of(settings.error()));
  pipe_process process(std::move(*arguments), std::move(*settings));
  const auto done = process.run();
  end(done ? pipe_end{} : end_of(done.error()));
}

}  // namespace orcd::app
