// A holder's part for the weights of one device, on a thread of its own as it would be in its process; it can
// die and come again.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/holder/weights_port.hpp"
#include "test/support/temporary_directory.hpp"

namespace orcd::test {

inline constexpr std::chrono::milliseconds patience{60'000};

/// Counts what is said at level info and above.
class counting_narrator final : public engine::narrator {
 public:
  void narrate(engine::severity level, std::string_view, std::string_view,
               std::initializer_list<engine::narration_field>) noexcept override {
    if (level != engine::severity::debug) ++lines;
  }
  std::atomic<unsigned> lines{0};
};

/// A holder's part for one device in a folder, which can die and come again.
class held_weights {
 public:
  explicit held_weights(const std::string& name = net::host_device, std::uint32_t index = 0)
      : device_{name, index} {
    start();
  }
  ~held_weights() { stop(); }
  held_weights(const held_weights&) = delete;
  held_weights& operator=(const held_weights&) = delete;

  void start() {
    io_.emplace(1);
    port_.emplace(*io_, device_, narrator_);
    BOOST_TEST_REQUIRE(port_->open(folder_.path().string(), {::geteuid()}).has_value());
    thread_ = std::thread([this] {
      const auto work = boost::asio::make_work_guard(*io_);
      io_->run();
    });
  }
  /// What a service manager would be told to keep, valid until the device's weights change.
  [[nodiscard]] std::vector<app::descriptor_store::item> stored(std::size_t room) {
    std::vector<app::descriptor_store::item> out;
    std::promise<void> done;
    boost::asio::post(*io_, [&] {
      port_->add_stored(out, room);
      done.set_value();
    });
    done.get_future().wait();
    return out;
  }
  void stop() {
    if (!io_) return;
    io_->stop();
    thread_.join();
    port_.reset();
    io_.reset();
  }
  [[nodiscard]] std::string path() const {
    return net::weights_socket_path(folder_.path().string(), device_.name);
  }
  [[nodiscard]] const test::temporary_directory& folder() const { return folder_; }
  /// Of its log so far.
  [[nodiscard]] unsigned lines() const { return narrator_.lines; }

 private:
  test::temporary_directory folder_;
  counting_narrator narrator_;
  const app::held_device device_;
  std::optional<boost::asio::io_context> io_;
  std::optional<app::weights_port> port_;
  std::thread thread_;
};

inline net::weights_hash hash_of(std::uint8_t first) {
  net::weights_hash out{};
  out[0] = first;
  return out;
}

/// Memory that begins with a text.
inline net::file_descriptor memory_with(const char* text) {
  constexpr std::size_t bytes = 4'096;
  net::file_descriptor out(::memfd_create("weights", MFD_CLOEXEC));
  BOOST_TEST_REQUIRE(::ftruncate(out.get(), bytes) == 0);
  BOOST_TEST_REQUIRE(::pwrite(out.get(), text, std::strlen(text), 0) > 0);
  return out;
}

inline std::string text_in(int memory) {
  char text[64]{};
  BOOST_TEST_REQUIRE(::pread(memory, text, sizeof text - 1, 0) > 0);
  return text;
}

}  // namespace orcd::test
