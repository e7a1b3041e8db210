#include "app/process/narration.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/log/attributes/attribute_set.hpp>
#include <boost/log/attributes/constant.hpp>
#include <boost/log/attributes/value_extraction.hpp>
#include <boost/log/core.hpp>
#include <boost/log/sinks/async_frontend.hpp>
#include <boost/log/sinks/basic_sink_backend.hpp>
#include <boost/log/sinks/bounded_fifo_queue.hpp>
#include <boost/make_shared.hpp>
#include <cerrno>
#include <new>

#if defined(__SANITIZE_THREAD__)
#define ORCD_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ORCD_THREAD_SANITIZER
#endif
#endif
#ifdef ORCD_THREAD_SANITIZER
// The sanitizer's runtime finds it by its name. Debian's Boost.Log library counts the references to its
// records without instrumentation, so that a record that one thread reads and another frees looks like a
// race.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:boost::log::\n";
}
#endif

namespace orcd::app {
namespace {

namespace logging = boost::log;
namespace sinks = boost::log::sinks;

using drop_counter = std::shared_ptr<std::atomic<std::uint64_t>>;

/// The one attribute that a record of ours has in Boost.Log.
struct payload {
  drop_counter owner;  ///< the narrator it belongs to, and its count of lost events
  std::shared_ptr<const narration_record> record;
};

const logging::attribute_name payload_name("Narration");

logging::value_ref<payload> payload_of(const logging::attribute_value_set& values) {
  return logging::extract<payload>(payload_name, values);
}

/// Boost.Log's policy for a full queue: drops the new record and counts it for its narrator.
class count_on_overflow {
 protected:
  template <class Lock>
  bool on_overflow(const logging::record_view& record, Lock&) {
    if (const auto found = payload_of(record.attribute_values())) found->owner->fetch_add(1);
    return false;
  }
  void on_queue_space_available() {}
  void interrupt() {}
};

void write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const auto written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the log cannot be written any more; the worker goes on
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Writes the lines, on the log's thread.
class line_backend : public sinks::basic_sink_backend<sinks::synchronized_feeding> {
 public:
  line_backend(narration_config config, narration_context context, drop_counter dropped)
      : config_(config), context_(std::move(context)), dropped_(std::move(dropped)) {}

  void consume(const logging::record_view& record) {
    const auto found = payload_of(record.attribute_values());
    if (!found) return;
    try {
      report_losses(found->record->at);
      write(*found->record);
    } catch (const std::bad_alloc&) {
      dropped_->fetch_add(1);
    }
  }

  void set_gpu_device(std::int64_t index) noexcept { context_.gpu_device = index; }

 private:
  void write(const narration_record& record) {
    std::string line =
        config_.journal_prefix ? "<" + std::to_string(syslog_priority(record.level)) + ">" : "";
    line += config_.format == log_format::json ? format_json(record, context_)
                                               : format_console(record, config_.colour);
    write_all(config_.descriptor, line);
  }

  void report_losses(std::chrono::system_clock::time_point at) {
    const auto lost = dropped_->load();
    if (lost == reported_) return;
    narration_record report{
        at, engine::severity::warning, "narration_dropped", "The log could not keep up and lost events", {}};
    report.fields.emplace_back("dropped", lost - reported_);
    reported_ = lost;
    write(report);
  }

  narration_config config_;
  narration_context context_;
  drop_counter dropped_;
  std::uint64_t reported_ = 0;
};

using line_sink =
    sinks::asynchronous_sink<line_backend,
                             sinks::bounded_fifo_queue<log_narrator::queue_max, count_on_overflow>>;

struct own_copy {
  narration_record::value operator()(std::string_view v) const { return std::string(v); }
  template <class T>
  narration_record::value operator()(T v) const {
    return v;
  }
};

}  // namespace

struct log_narrator::impl {
  std::atomic<engine::severity> least{engine::severity::info};
  drop_counter dropped;
  boost::shared_ptr<line_sink> sink;
};

log_narrator::log_narrator(narration_config config, narration_context context) : impl_(new impl) {
  impl_->least = config.least;
  impl_->dropped = std::make_shared<std::atomic<std::uint64_t>>(0);
  impl_->sink = boost::make_shared<line_sink>(
      boost::make_shared<line_backend>(config, std::move(context), impl_->dropped));
  // Boost.Log has one core per process and offers each record to every sink.
  impl_->sink->set_filter([mine = impl_->dropped](const logging::attribute_value_set& values) {
    const auto found = payload_of(values);
    return found && found->owner == mine;
  });
  // An exception on the log's thread, for lack of memory, loses a line and does not end the process.
  impl_->sink->set_exception_handler([dropped = impl_->dropped] { dropped->fetch_add(1); });
  logging::core::get()->add_sink(impl_->sink);
}

log_narrator::~log_narrator() {
  logging::core::get()->remove_sink(impl_->sink);
  impl_->sink->stop();
  impl_->sink->flush();
}

void log_narrator::narrate(engine::severity level, std::string_view event, std::string_view human,
                           std::initializer_list<engine::narration_field> fields) noexcept {
  if (level < impl_->least) return;
  try {
    auto record = std::make_shared<narration_record>();
    record->at = std::chrono::system_clock::now();
    record->level = level;
    record->event = event;
    record->human = human;
    record->fields.reserve(fields.size());
    for (const auto& field : fields)
      record->fields.emplace_back(field.key, std::visit(own_copy{}, field.value));
    logging::attribute_set attributes;
    attributes[payload_name] =
        logging::attributes::constant<payload>(payload{impl_->dropped, std::move(record)});
    if (auto opened = logging::core::get()->open_record(attributes)) {
      logging::core::get()->push_record(std::move(opened));
    }
  } catch (...) {
    // Out of memory: the worker goes on without this line.
    impl_->dropped->fetch_add(1);
  }
}

void log_narrator::set_gpu_device(std::int64_t index) noexcept {
  try {
    impl_->sink->locked_backend()->set_gpu_device(index);
  } catch (...) {
    impl_->dropped->fetch_add(1);
  }
}

void log_narrator::set_least(engine::severity least) noexcept {
  impl_->least = least;
}

void log_narrator::flush() noexcept {
  try {
    impl_->sink->flush();
  } catch (...) {
    impl_->dropped->fetch_add(1);
  }
}

std::uint64_t log_narrator::dropped() const noexcept {
  return impl_->dropped->load();
}

narration_config make_narration_config(log_format format, engine::severity least,
                                       std::string_view journal_stream) {
  narration_config out;
  out.format = format;
  out.least = least;
  out.colour = ::isatty(out.descriptor) == 1;
  struct stat status {};
  if (!journal_stream.empty() && ::fstat(out.descriptor, &status) == 0) {
    out.journal_prefix =
        journal_stream == std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  }
  return out;
}

}  // namespace orcd::app
