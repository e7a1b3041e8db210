#include "test/http/http_fixture.hpp"

#include <boost/asio/post.hpp>
#include <future>
#include <memory>

#include "engine/base/ensure.hpp"
#include "test/support/wait_until.hpp"

namespace orcd::test {
namespace {

fake_options device_options(const http_options& options) {
  fake_options out;
  out.slots = options.slots;
  out.step_delay = options.step_delay;
  if (options.cheap_tokens) {
    out.next = [](auto sequence) { return static_cast<engine::token_id>('a' + sequence.size() % 26); };
  }
  out.context_tokens = options.context_tokens;
  out.faults = options.faults;
  return out;
}

engine::scheduler_config scheduler_options(const http_options& options) {
  engine::scheduler_config out;
  out.slots = options.slots;
  return out;
}

engine::worker_identity make_identity(const http_options& options) {
  engine::worker_identity out;
  out.model_name = "fake";
  out.backend = "fake";
  out.slots = options.slots;
  out.context_tokens = options.context_tokens;
  return out;
}

net::server_config make_config(http_options options) {
  net::server_config out;
  out.connections = options.connections;
  out.execute = options.execute;
  out.execute.context_tokens = options.context_tokens;
  out.model = out.execute;
  out.model.tokens_out_is_bound = true;
  if (!options.keys.empty()) out.keys = net::api_keys::parse(options.keys).value();
  return out;
}

}  // namespace

http_fixture::http_fixture(http_options options)
    : identity_(make_identity(options)),
      admission_({options.slots, options.max_queue}),
      device_(device_options(options)),
      work_(io_.get_executor()),
      gpu_(device_, scheduler_options(options), state_),
      jobs_(gpu_, options.submit_without_memory),
      context_{jobs_,
               admission_,
               state_,
               identity_,
               tokenizer_,
               narrator_,
               [this] { admission_.drain(); },
               {},
               nullptr,
               {},
               [this](net::queued_task task) { return background_.take(std::move(task)); }},
      server_(io_, make_config(options), context_) {
  ORCD_ENSURE(background_.start().has_value());
  state_.set(engine::lifecycle::ready);
  if (options.listens) {
    port_ = server_.bind().value();
    ORCD_ENSURE(server_.listen().has_value());
  }
  thread_ = std::thread([this] { io_.run(); });
}

http_fixture::~http_fixture() {
  if (!stopped_) ORCD_ENSURE(stop(std::chrono::seconds(10)));
  background_.stop();
  work_.reset();
  thread_.join();
  ORCD_ENSURE(admission_.running() == 0);
  ORCD_ENSURE(device_.held_slots() == 0);
}

bool http_fixture::stop(std::chrono::milliseconds grace) {
  stopped_ = true;
  const auto done = std::make_shared<std::promise<void>>();
  auto waiting = done->get_future();
  on_io([&] { server_.stop(grace, [done] { done->set_value(); }); });
  return waiting.wait_for(grace + std::chrono::milliseconds(patience_ms)) == std::future_status::ready;
}

engine::result<std::uint16_t> http_fixture::bind_again() {
  net::server_config config;
  config.port = port_;
  net::server second(io_, config, context_);
  return second.bind();
}

void http_fixture::on_io(const std::function<void()>& task) {
  std::promise<void> done;
  boost::asio::post(io_, [&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

std::string http_fixture::ask(const std::string& request, int ms) const {
  http_client client(port_);
  client.send(request);
  client.half_close();
  return client.drain(ms);
}

double http_fixture::metric(const std::string& sample) const {
  const auto text = ask("GET /metrics HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n");
  const auto at = text.find("\n" + sample + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + sample.size() + 2));
}

void http_fixture::wait_idle() const {
  wait_until([&] { return metric("worker_requests_running") == 0 && device_.held_slots() == 0; },
             "no job is accepted and no slot is held");
}

}  // namespace orcd::test
