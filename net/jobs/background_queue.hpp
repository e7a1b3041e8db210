// The order in which background tasks (background_task.hpp) are done. Tenants take turns, and within a tenant
// its connections do, so that nobody waits for everything that another client has asked for. Within a tenant
// brief tasks go before lengthy ones; a lengthy one that was passed over often enough is treated as if it
// were brief. Bounded. Pure: the clock is an argument, and the threads are in background_threads.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::net {

/// How long a task may take: some tens of milliseconds, or seconds.
enum class task_length { brief, lengthy };

/// The client that a task is done for.
struct task_owner {
  std::string tenant;             ///< key_owner::tenant of the request; empty without keys
  std::uintptr_t connection = 0;  ///< a number that no other connection has at the same time
};

struct queued_task {
  task_owner owner;
  task_length length = task_length::brief;
  engine::steady_time until{};  ///< later the result is not wanted any more
  std::function<void()> work;
  /// Set by any thread when the result is not wanted any more. May be null.
  std::shared_ptr<const std::atomic<bool>> abandoned{};
};

/// Has a task done on a background thread. Errors: as background_queue::push.
using background_runner = std::function<engine::result<void>(queued_task)>;

struct background_limits {
  std::size_t of_connection = 2;
  std::size_t of_tenant = 128;
  std::size_t total = 512;
  /// A lengthy task is passed over by this many brief ones of its tenant at most.
  std::uint32_t passes = 8;
};

class background_queue {
 public:
  explicit background_queue(background_limits limits = {}) : limits_(limits) {}

  /// Error: queue_full, naming the limit; then `task` was not moved from.
  [[nodiscard]] engine::result<void> push(queued_task& task);
  /// The next task in turn. `brief_only`: lengthy ones stay, and keep their turn.
  [[nodiscard]] std::optional<queued_task> pop(bool brief_only = false);
  /// Takes out all tasks whose results are not wanted any more. The caller frees them, which may take long.
  [[nodiscard]] std::vector<queued_task> take_unwanted(engine::steady_time now);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether pop() would give one.
  [[nodiscard]] bool has_next(bool brief_only = false) const noexcept;

 private:
  struct waiting {
    queued_task task;
    std::uint32_t passed_over = 0;
  };
  struct connection_lane {
    std::uintptr_t number;
    std::deque<waiting> tasks;  ///< never empty
  };
  struct tenant_lane {
    std::string name;
    std::size_t size = 0;
    std::list<connection_lane> connections;  ///< the next in turn first
  };
  using connections = std::list<connection_lane>;

  [[nodiscard]] tenant_lane* find(const std::string& tenant) noexcept;
  [[nodiscard]] connections::iterator choose(tenant_lane& tenant, bool brief_only) const noexcept;
  [[nodiscard]] queued_task take(std::list<tenant_lane>::iterator tenant, connections::iterator from);

  background_limits limits_;
  std::list<tenant_lane> tenants_;  ///< the next in turn first; never an empty one
  std::size_t size_ = 0;
};

}  // namespace orcd::net
