#include "app/process/memory_setup.hpp"

#include <malloc.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/thread/exceptions.hpp>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "app/process/exit_code.hpp"
#include "app/process/standard_streams.hpp"
#include "engine/base/sha256.hpp"

namespace orcd::app {
namespace {

std::string_view ending_program = "worker-orcd";  // NOLINT: a terminate handler has no context

[[noreturn]] void end_with(std::string_view sentence) noexcept {
  std::array<char, 128> line{};
  std::size_t size = 0;
  for (const std::string_view part : {ending_program, sentence}) {
    size += part.copy(line.data() + size, line.size() - size);
  }
  write_error_at_once({line.data(), size});
  std::_Exit(static_cast<int>(exit_code::failure));
}

thread_local bool no_memory = false;  // NOLINT: a new handler has no context

[[noreturn]] void on_no_memory() {
  no_memory = true;
  throw std::bad_alloc();
}

[[noreturn]] void on_terminate() noexcept {
  if (const auto failure = std::current_exception()) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::bad_alloc&) {
      end_with(": out of memory; exiting\n");
    } catch (const std::system_error& e) {
      if (e.code() == std::errc::resource_unavailable_try_again) {
        end_with(": out of threads; exiting\n");
      }
    } catch (const boost::thread_resource_error&) {
      end_with(": out of threads; exiting\n");
    } catch (...) {  // NOLINT(bugprone-empty-catch): a programmer's error, for abort() to show
    }
  } else if (no_memory && std::uncaught_exceptions() > 0) {
    // Where what is noexcept was inlined, the exception on its way was not caught, so that nobody can look.
    end_with(": out of memory; exiting\n");
  }
  std::abort();
}

std::atomic<bool> setting_up{false};  // NOLINT: OpenSSL's allocator has no context

void* checked(void* block, std::size_t bytes) noexcept {
  if (block == nullptr && bytes != 0 && setting_up) {
    end_with(": out of memory while OpenSSL was set up; exiting\n");
  }
  return block;
}

/// Runs before any object of static storage is made: these, and the tables of the CUDA runtime, have no way
/// to say that there is no memory for them, which is some hundred kilobytes.
[[gnu::constructor(101)]] void require_memory_for_statics() noexcept {
  constexpr std::size_t bytes = 4U << 20U;
  void* const block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block != MAP_FAILED) {
    munmap(block, bytes);
    return;
  }
  std::array<char, 128> line{};
  std::size_t size = 0;
  for (const std::string_view part : {std::string_view(program_invocation_short_name).substr(0, 64),
                                      std::string_view(": out of memory; exiting\n")}) {
    size += part.copy(line.data() + size, line.size() - size);
  }
  write_error_at_once({line.data(), size});
  std::_Exit(static_cast<int>(exit_code::failure));
}

}  // namespace

void make_room_for_stacks() {
  constexpr rlim_t wanted = 8U << 20U, least = 1U << 20U;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min(limit.rlim_max, wanted);
    setrlimit(RLIMIT_STACK, &limit);
    if (limit.rlim_cur < least) {
      throw std::runtime_error("the limit on stacks is " + std::to_string(limit.rlim_cur) +
                               " bytes, at least " + std::to_string(least) + " are needed (ulimit -s)");
    }
  }
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, wanted) == 0) pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

// Fixed, because the allocator otherwise raises both thresholds with each large block that is freed, up to 32
// MiB: large request bodies would then lie in the heap and could not be given back while anything was
// allocated behind them.
void return_freed_memory() noexcept {
  constexpr int mapped_from = 64 * 1024;
  constexpr int trimmed_from = 256 * 1024;
  mallopt(M_MMAP_THRESHOLD, mapped_from);
  mallopt(M_TRIM_THRESHOLD, trimmed_from);
}

void end_in_order_without_memory(std::string_view program) noexcept {
  ending_program = program;
  std::set_terminate(on_terminate);
  std::set_new_handler(on_no_memory);
}

void prepare_cryptography() {
  CRYPTO_set_mem_functions(
      [](std::size_t bytes, const char*, int) { return checked(std::malloc(bytes), bytes); },
      [](void* block, std::size_t bytes, const char*, int) {
        return checked(std::realloc(block, bytes), bytes);
      },
      [](void* block, const char*, int) { std::free(block); });
  setting_up = true;
  engine::sha256 first;
  static_cast<void>(first.finish());
  setting_up = false;
}

}  // namespace orcd::app
