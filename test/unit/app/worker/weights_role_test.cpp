// How weights are loaded, and what becomes of a load that is not wanted or fails: a small model, and a device
// that says what a test wants.
#include "app/worker/weights_role.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "test/support/temporary_directory.hpp"
#include "test/support/tiny_model.hpp"
#include "test/support/wait_until.hpp"
#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;
using app::exit_code;

/// Calls a test in the middle of the load.
class loading_accelerator final : public engine::accelerator {
 public:
  explicit loading_accelerator(std::function<void(unsigned)> on_load) : on_load_(std::move(on_load)) {}
  engine::result<engine::memory_plan> load(const engine::model&, const engine::accelerator_config&,
                                           const std::function<void(unsigned percent)>& progress) override {
    for (const unsigned percent : {0U, 60U, 100U}) {
      on_load_(percent);
      progress(percent);
    }
    engine::memory_plan out;
    out.kv_bytes = 77;
    return out;
  }
  std::uint32_t chunk_tokens() const noexcept override { return 8; }
  void launch(std::span<const engine::sequence_step>, const engine::interrupt_flag&) override {}
  bool collect(const engine::interrupt_flag&, std::vector<engine::sampled_token>&) override { return true; }
  void release(engine::slot_id) noexcept override {}
  // There are no pages, adapters or weights of it.
  void unmap_weights() override {}
  engine::result<void> map_weights(const engine::shared_weights&) override { return {}; }
  void drop_adapter(std::uint32_t) noexcept override {}
  void begin(const engine::sequence_start&) override {}
  void extend(engine::slot_id, std::uint32_t, std::uint32_t, std::span<const engine::kv_page>) override {}
  void clear(std::uint32_t, std::span<const engine::kv_page>) noexcept override {}
  void wait_idle() noexcept override {}
  std::vector<std::string> audit() override { return {}; }
  std::span<const float> logits(engine::slot_id) const noexcept override { return {}; }
  const char* name() const noexcept override { return "loading"; }
  bool resident() const noexcept override { return false; }
  std::uint64_t vram_bytes() const noexcept override { return 0; }

 private:
  std::function<void(unsigned)> on_load_;
};

app::options options_of(const std::string& model) {
  app::options out;
  out.backend = app::backend_kind::host;
  out.model = model;
  out.slots = 1;
  return out;
}

/// A worker that loads a model of some kilobytes.
class loading_worker {
 public:
  explicit loading_worker(std::function<void(unsigned)> on_load) : device_(std::move(on_load)) {
    role.load_with({model_, device_, thread_});
  }
  ~loading_worker() {
    role.cancel();
    thread_.stop();
    role.end();
  }
  template <class Condition>
  void run_until(const Condition& holds) {
    const auto limit = std::chrono::steady_clock::now() + test::wait_patience;
    while (!holds() && std::chrono::steady_clock::now() < limit) io.run_one_for(std::chrono::seconds(1));
    BOOST_TEST_REQUIRE(holds());
  }

  std::optional<engine::result<engine::memory_plan>> loaded;
  std::string digest;
  test::told_events log;
  engine::worker_state state;
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> more{io.get_executor()};

 private:
  static std::string write_model(const test::temporary_directory& folder) {
    const auto image = test::make_tiny_model({});
    auto path = folder.file("tiny.gguf");
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
    return path;
  }

  const test::temporary_directory folder_;
  const app::options opts_ = options_of(write_model(folder_));
  app::service_manager service_{[](const std::string&) {}};
  engine::served_model model_ = app::open_model(opts_).value();
  loading_accelerator device_;
  gpu::gpu_thread thread_{device_, engine::scheduler_config{}, state};

 public:
  app::weights_role role{io,
                         opts_,
                         state,
                         service_,
                         log,
                         {.others_live = [] { return false; },
                          .stop_asked = [] { return false; },
                          .loaded = [this](const auto& plan) { loaded = plan; },
                          .digest_known = [this](std::string text) { digest = std::move(text); },
                          .stands_by = [] { return true; },
                          .given_up = [] { return false; },
                          .fail_start = [](const engine::error&) {},
                          .fail = [](const engine::error&, exit_code) {}}};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(weights_role)

BOOST_AUTO_TEST_CASE(a_load_tells_its_quarters_and_its_plan_and_the_digest_of_the_file) {
  loading_worker worker([](unsigned) {});
  worker.role.start();
  worker.run_until([&] { return worker.loaded.has_value() && !worker.digest.empty(); });
  BOOST_TEST(worker.loaded->value().kv_bytes == 77U);
  BOOST_TEST(worker.digest.substr(0, 7) == "sha256:");
  BOOST_TEST(worker.state.load_percent.load() == 100U);
  const auto told = worker.log.all();
  BOOST_TEST(std::count(told.begin(), told.end(), "model_load_progress") == 5);
}

BOOST_AUTO_TEST_CASE(a_load_that_is_cancelled_breaks_off_and_tells_nobody) {
  app::weights_role* role = nullptr;
  std::atomic<unsigned> reached{0};
  loading_worker worker([&](unsigned percent) {
    reached = percent;
    if (percent == 60) role->cancel();
  });
  role = &worker.role;
  worker.role.start();
  test::wait_until([&] { return worker.role.is_cancelled(); });
  worker.io.run_for(std::chrono::milliseconds(20));
  BOOST_TEST(!worker.loaded.has_value());
  BOOST_TEST(reached.load() == 60U);
}

BOOST_AUTO_TEST_CASE(what_a_device_throws_is_the_failure_of_the_start) {
  struct {
    std::function<void(unsigned)> on_load;
    engine::errc code;
    std::string words;
  } const cases[]{
      {[](unsigned) { throw engine::accelerator_failure(engine::errc::cuda_error, "fell off"); },
       engine::errc::cuda_error, "fell off"},
      {[](unsigned) { throw std::runtime_error("odd"); }, engine::errc::model_load_failed,
       "loading the weights failed: odd"},
  };
  for (const auto& [on_load, code, words] : cases) {
    loading_worker worker(on_load);
    worker.role.start();
    worker.run_until([&] { return worker.loaded.has_value(); });
    BOOST_REQUIRE(!worker.loaded->has_value());
    BOOST_TEST((worker.loaded->error().code == code));
    BOOST_TEST(worker.loaded->error().message == words);
  }
}

BOOST_AUTO_TEST_CASE(weights_of_its_own_are_never_let_go_and_are_there_at_once) {
  loading_worker worker([](unsigned) {});
  bool there = false;
  worker.role.let_go();
  worker.role.get_back([&] { there = true; });
  BOOST_TEST(there);
  BOOST_TEST(!worker.role.are_shared());
  BOOST_TEST(!worker.role.ledger().has_value());
  BOOST_TEST(worker.role.mapped_files().empty());
}

BOOST_AUTO_TEST_SUITE_END()
