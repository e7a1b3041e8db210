#include "net/jobs/background_queue.hpp"

#include <algorithm>
#include <utility>

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

error full(std::size_t limit, const char* whose) {
  return {errc::queue_full,
          std::to_string(limit) + " requests" + whose + " wait to be read or to be answered"};
}

bool is_unwanted(const queued_task& task, engine::steady_time now) {
  return now >= task.until || (task.abandoned != nullptr && *task.abandoned);
}

}  // namespace

background_queue::tenant_lane* background_queue::find(const std::string& tenant) noexcept {
  const auto found =
      std::find_if(tenants_.begin(), tenants_.end(), [&](const auto& t) { return t.name == tenant; });
  return found == tenants_.end() ? nullptr : &*found;
}

result<void> background_queue::push(queued_task& task) {
  if (size_ >= limits_.total) return full(limits_.total, "");
  tenant_lane* tenant = find(task.owner.tenant);
  if (tenant != nullptr && tenant->size >= limits_.of_tenant) return full(limits_.of_tenant, " of one key");
  if (tenant == nullptr) tenant = &tenants_.emplace_back(tenant_lane{task.owner.tenant, 0, {}});
  auto& lanes = tenant->connections;
  auto lane = std::find_if(lanes.begin(), lanes.end(),
                           [&](const auto& c) { return c.number == task.owner.connection; });
  if (lane != lanes.end() && lane->tasks.size() >= limits_.of_connection) {
    return full(limits_.of_connection, " of one connection");
  }
  if (lane == lanes.end()) lane = lanes.insert(lanes.end(), connection_lane{task.owner.connection, {}});
  lane->tasks.push_back({std::move(task), 0});
  ++tenant->size;
  ++size_;
  return {};
}

/// Of the connections in turn, the first whose next task is brief, or lengthy and passed over often enough;
/// else the first with a lengthy task.
background_queue::connections::iterator background_queue::choose(tenant_lane& tenant,
                                                                 bool brief_only) const noexcept {
  auto& lanes = tenant.connections;
  const auto preferred = std::find_if(lanes.begin(), lanes.end(), [&](const connection_lane& c) {
    const waiting& next = c.tasks.front();
    if (next.task.length == task_length::brief) return true;
    return !brief_only && next.passed_over >= limits_.passes;
  });
  return preferred == lanes.end() && !brief_only ? lanes.begin() : preferred;
}

queued_task background_queue::take(std::list<tenant_lane>::iterator tenant, connections::iterator from) {
  auto& lanes = tenant->connections;
  queued_task taken = std::move(from->tasks.front().task);
  from->tasks.pop_front();
  if (taken.length == task_length::brief) {
    for (auto& lane : lanes) {
      if (lane.tasks.empty() || lane.tasks.front().task.length == task_length::brief) continue;
      ++lane.tasks.front().passed_over;
    }
  }
  if (from->tasks.empty()) {
    lanes.erase(from);
  } else {
    lanes.splice(lanes.end(), lanes, from);
  }
  --size_;
  if (--tenant->size == 0) {
    tenants_.erase(tenant);
  } else {
    tenants_.splice(tenants_.end(), tenants_, tenant);
  }
  return taken;
}

std::optional<queued_task> background_queue::pop(bool brief_only) {
  for (auto tenant = tenants_.begin(); tenant != tenants_.end(); ++tenant) {
    const auto from = choose(*tenant, brief_only);
    if (from != tenant->connections.end()) return take(tenant, from);
  }
  return std::nullopt;
}

bool background_queue::has_next(bool brief_only) const noexcept {
  if (!brief_only) return size_ > 0;
  const auto brief = [](const connection_lane& c) {
    return c.tasks.front().task.length == task_length::brief;
  };
  return std::any_of(tenants_.begin(), tenants_.end(), [&](const tenant_lane& tenant) {
    return std::any_of(tenant.connections.begin(), tenant.connections.end(), brief);
  });
}

std::vector<queued_task> background_queue::take_unwanted(engine::steady_time now) {
  std::vector<queued_task> out;
  for (auto& tenant : tenants_) {
    for (auto& lane : tenant.connections) {
      std::erase_if(lane.tasks, [&](waiting& each) {
        if (!is_unwanted(each.task, now)) return false;
        out.push_back(std::move(each.task));
        --tenant.size;
        --size_;
        return true;
      });
    }
    std::erase_if(tenant.connections, [](const auto& lane) { return lane.tasks.empty(); });
  }
  std::erase_if(tenants_, [](const auto& tenant) { return tenant.size == 0; });
  return out;
}

}  // namespace orcd::net
