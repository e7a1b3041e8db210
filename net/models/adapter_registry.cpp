#include "net/models/adapter_registry.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "net/json/field_checks.hpp"
#include "net/json/json_value.hpp"
#include "net/models/model_names.hpp"

namespace orcd::net {
namespace {

namespace asio = boost::asio;
using engine::errc;
using engine::error;
using engine::result;
using engine::severity;

/// Between two looks at whether the jobs that use a dropped adapter have ended.
constexpr std::chrono::milliseconds look_interval{20};

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

error not_allowed() {
  return {errc::forbidden,
          "LoRA adapters are loaded and unloaded only by a worker that was started with "
          "--allow-lora-load"};
}

/// What is wrong with the file is the mistake of the client, who has named it; what is wrong with the device
/// is not.
error said_to_client(error why) {
  if (why.code == errc::model_load_failed) why.code = errc::invalid_request;
  if (why.code == errc::invalid_request || why.code == errc::not_found) why.param = "lora_path";
  return why;
}

template <class Gate>
bool is_open(Gate& gate) {
  const std::lock_guard lock(gate.mutex);
  return gate.executor.has_value();
}

/// Has the io thread do the task, unless the registry, to which the gate belongs, is gone by then.
template <class Gate, class Task>
void post_through(const std::shared_ptr<Gate>& gate, Task task) {
  gate->post([gate, task = std::move(task)]() mutable {
    if (is_open(*gate)) task();
  });
}

}  // namespace

adapter_use::adapter_use(std::vector<std::shared_ptr<adapter_traffic>> counts) : counts_(std::move(counts)) {
  for (const auto& count : counts_) {
    ++count->users;
    ++count->requests;
  }
}

adapter_use::~adapter_use() {
  for (const auto& count : counts_) --count->users;
}

void adapter_registry::gate::post(std::function<void()> task) {
  const std::lock_guard lock(mutex);
  if (executor) asio::post(*executor, std::move(task));
}

adapter_registry::adapter_registry(const asio::any_io_executor& executor, adapter_config config,
                                   adapter_hooks hooks, const engine::worker_identity& served,
                                   engine::narrator& narrator)
    : config_(config),
      hooks_(std::move(hooks)),
      served_(served),
      narrator_(narrator),
      gate_(std::make_shared<gate>()),
      retry_(executor),
      taken_(config.rooms, false) {
  gate_->executor = executor;
}

adapter_registry::~adapter_registry() {
  {
    const std::lock_guard lock(gate_->mutex);
    gate_->executor.reset();
  }
  stop_reading_.request_stop();
  if (reader_.joinable()) reader_.join();
}

result<void> adapter_registry::check_name(std::string_view field, const std::string& name) const {
  if (!is_adapter_name(name)) {
    return refuse_field(field,
                        "must be a name of 1 to 256 bytes of UTF-8 without control characters, '=' and ','");
  }
  if (names_the_model(served_, name)) {
    return refuse_field(field, "is '" + name + "', which the model itself is called");
  }
  if (find_adapter(list_, name) == nullptr && name != loading_) return {};
  return refuse_field(field, "is '" + name + "', which another LoRA adapter is called");
}

std::optional<std::uint32_t> adapter_registry::free_index() const {
  const auto found = std::find(taken_.begin(), taken_.end(), false);
  if (found == taken_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - taken_.begin());
}

void adapter_registry::publish(adapter_list list) {
  list_ = std::make_shared<const adapter_list>(std::move(list));
}

result<std::uint32_t> adapter_registry::add(served_adapter one) {
  if (const auto good = check_name("lora", one.name); !good) return good.error();
  const auto index = free_index();
  if (!index) {
    return refuse_field("lora", "is given more often than there is room for adapters (--max-loras), " +
                                    std::to_string(config_.rooms) + " times");
  }
  taken_[*index] = true;
  one.index = *index;
  list_one_more(std::move(one));
  return *index;
}

void adapter_registry::list_one_more(served_adapter one) {
  one.id = next_id_++;
  one.created = seconds_now();
  adapter_list all = *list_;
  all.push_back(std::move(one));
  publish(std::move(all));
}

void adapter_registry::tell_loaded(std::uint32_t index) const {
  constexpr std::size_t digits = 12;
  for (const served_adapter& one : *list_) {
    if (one.index != index) continue;
    narrator_.narrate(severity::info, "adapter_loaded", "A LoRA adapter is loaded",
                      {{"name", std::string_view(one.name)},
                       {"digest", std::string_view(one.digest).substr(0, digits)},
                       {"rank", std::uint64_t{one.rank}},
                       {"pairs", one.pairs},
                       {"bytes", one.bytes}});
  }
}

result<void> adapter_registry::set_scales(std::span<const adapter_scale> scales) {
  if (config_.fixed_scales) {
    return error(errc::forbidden,
                 "with --failover-dir the scales are those of --lora: another engine may have to go on with "
                 "this one's requests");
  }
  if (const auto known = check_adapter_ids("body", scales, *list_); !known) return known;
  const auto applied =
      std::count_if(scales.begin(), scales.end(), [](const auto& s) { return s.scale != 0; });
  if (const auto few = check_applied("body", static_cast<std::size_t>(applied)); !few) return few;
  adapter_list all = *list_;
  for (served_adapter& one : all) {
    const auto said =
        std::find_if(scales.begin(), scales.end(), [&](const auto& scale) { return scale.id == one.id; });
    one.scale = said == scales.end() ? 0.0F : said->scale;
  }
  publish(std::move(all));
  tell_scales();
  return {};
}

/// From now on others get other answers.
void adapter_registry::tell_scales() const {
  std::string scales;
  for (const served_adapter& one : *list_) {
    if (one.scale == 0.0F) continue;
    scales += (scales.empty() ? "" : ",") + one.name + "=" + shown_scale(one.scale);
  }
  narrator_.narrate(severity::info, "adapter_scales", "Requests that do not say get other LoRA adapters",
                    {{"scales", std::string_view(scales)}});
}

/// Without the message: it may quote what the client sent.
void adapter_registry::tell_refused(std::string_view name, const error& why) const {
  narrator_.narrate(
      severity::warning, "adapter_refused", "A LoRA adapter is not loaded or unloaded as a client asked",
      {{"name", is_adapter_name(name) ? name : std::string_view()}, {"code", engine::code_name(why.code)}});
}

result<void> adapter_registry::check_load(const std::string& name) const {
  if (!config_.may_load) return not_allowed();
  if (const auto good = check_name("lora_name", name); !good) return good.error();
  if (!loading_.empty()) {
    return error(errc::conflict, "another LoRA adapter is being loaded: one at a time", "lora_name");
  }
  if (free_index()) return {};
  return refuse_field("lora_name", "finds no room: there is room for " + std::to_string(config_.rooms) +
                                       " LoRA adapters (--max-loras), all of it in use");
}

void adapter_registry::load(std::string name, const std::string& path, answer done) {
  if (const auto may = check_load(name); !may) {
    tell_refused(name, may.error());
    return done(may.error());
  }
  loading_ = std::move(name);
  loaded_ = std::move(done);
  if (reader_.joinable()) reader_.join();  // it has posted its result
  try {
    reader_ = std::thread([this, path] { read(path); });
  } catch (const std::system_error& failed) {
    finish_load(error(errc::internal, std::string("no thread to read the adapter: ") + failed.what()));
  }
}

/// On the thread of its own, whose exceptions would end the process.
void adapter_registry::read(const std::string& path) {
  constexpr std::chrono::milliseconds memory_wait{10};
  result<adapter_values> values = error(errc::internal, "out of memory");
  try {
    values = hooks_.read(path, stop_reading_.get_token());
  } catch (const std::bad_alloc&) {
  } catch (const std::exception& failed) {
    values = error(errc::internal, std::string("the adapter cannot be read: ") + failed.what());
  }
  // The result must come through, or nothing could be loaded any more; it is freed memory that it waits for.
  for (bool told = false; !told;) {
    try {
      post_through(gate_, [this, path, values] { on_read(values, path); });
      told = true;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(memory_wait);
    }
  }
}

void adapter_registry::on_read(const result<adapter_values>& values, const std::string& path) {
  if (!values) return finish_load(said_to_client(values.error()));
  const auto index = free_index();
  if (!index) return finish_load(error(errc::internal, "the room for the adapter is gone"));
  taken_[*index] = true;
  served_adapter one = describe_adapter(loading_, path, **values);
  one.index = *index;
  one.scale = 0.0F;  // it changes nothing for those who do not name it
  hooks_.put(*index, *values, [this, one = std::move(one), to = gate_](const result<void>& put) {
    post_through(to, [this, one, put] { on_put(one, put); });
  });
}

void adapter_registry::on_put(served_adapter one, const result<void>& put) {
  if (!put) {
    taken_[one.index] = false;
    return finish_load(said_to_client(put.error()));
  }
  const std::uint32_t index = one.index;
  list_one_more(std::move(one));
  tell_loaded(index);
  finish_load({});
}

void adapter_registry::finish_load(const result<void>& how) {
  if (!how) tell_refused(loading_, how.error());
  loading_.clear();
  const answer done = std::exchange(loaded_, {});
  if (done) done(how);
}

result<const served_adapter*> adapter_registry::find_unused(const std::string& name) const {
  if (!config_.may_load) return not_allowed();
  const served_adapter* const found = find_adapter(list_, name);
  if (found == nullptr) {
    return error(errc::not_found, "no LoRA adapter is called '" + shown_name(name) + "'", "lora_name");
  }
  if (found->traffic->users > 0) {
    return error(errc::conflict,
                 "the LoRA adapter '" + shown_name(name) + "' is in use by " +
                     std::to_string(found->traffic->users) + " requests: unload it when they have ended",
                 "lora_name");
  }
  if (found->scale == 0.0F) return found;
  return error(errc::conflict,
               "the LoRA adapter '" + shown_name(name) + "' is applied with " + shown_scale(found->scale) +
                   " to requests that do not say: give it the scale 0 by POST /lora-adapters first",
               "lora_name");
}

void adapter_registry::unload(const std::string& name, answer done) {
  const auto unused = find_unused(name);
  if (!unused) {
    tell_refused(name, unused.error());
    return done(unused.error());
  }
  const served_adapter* const found = *unused;
  const std::uint32_t index = found->index;
  narrator_.narrate(severity::info, "adapter_unloaded", "A LoRA adapter is unloaded",
                    {{"name", std::string_view(name)}});
  adapter_list all = *list_;
  std::erase_if(all, [index](const served_adapter& one) { return one.index == index; });
  publish(std::move(all));
  drop(index, done);
}

void adapter_registry::drop(std::uint32_t index, const answer& done) {
  hooks_.drop(index, [this, index, done, to = gate_](bool free) {
    post_through(to, [this, index, free, done] {
      on_dropped(index, free);
      if (done) done({});
    });
  });
}

// A job that came between the look and the drop still has it.
void adapter_registry::on_dropped(std::uint32_t index, bool free) {
  if (free) {
    taken_[index] = false;
    return;
  }
  leaving_.push_back(index);
  retry_.expires_after(look_interval);
  retry_.async_wait([this, gate = gate_](const boost::system::error_code& failed) {
    if (failed || !is_open(*gate)) return;
    for (const std::uint32_t left : std::exchange(leaving_, {})) drop(left, {});
  });
}

const served_adapter* adapter_registry::find(const engine::job_adapter& wanted) const {
  const auto found = std::find_if(list_->begin(), list_->end(), [&wanted](const served_adapter& one) {
    return one.index == wanted.index && one.digest == wanted.digest;
  });
  return found == list_->end() ? nullptr : &*found;
}

adapter_use adapter_registry::use(std::span<const engine::job_adapter> adapters) const {
  std::vector<std::shared_ptr<adapter_traffic>> counts;
  for (const engine::job_adapter& wanted : adapters) {
    if (const served_adapter* const one = find(wanted)) counts.push_back(one->traffic);
  }
  return adapter_use(std::move(counts));
}

std::string adapter_registry::names_of(std::span<const engine::job_adapter> adapters) const {
  std::string out;
  for (const engine::job_adapter& wanted : adapters) {
    if (const served_adapter* const one = find(wanted)) out += (out.empty() ? "" : ",") + one->name;
  }
  return out;
}

}  // namespace orcd::net
