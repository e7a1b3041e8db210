// How the weights of one engine come to serve others of its device: the first one loads them into memory that
// can be passed on and gives that to the holder, the others get it from there. A thread of its own sees the
// holder's end and offers the weights to the next one. Source: the weights of the failover plan.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "app/weights/shared_pages.hpp"
#include "app/weights/weights_record.hpp"
#include "engine/base/error.hpp"
#include "engine/model/shared_weights.hpp"
#include "net/failover/weights_link.hpp"

namespace orcd::app {

struct share_config {
  std::string socket;           ///< the holder's, of the device
  std::uint32_t engine_id = 0;  ///< 0 loads the weights if nobody has
  bool must_share = false;      ///< waits rather than have a copy of its own beside one of other weights
  engine::kv_geometry pages{};  ///< of the KV cache that comes with the weights; no pages: none does
  std::string cache{};          ///< what must be equal, besides the weights, for its pages to hold the same
};

class weights_share {
 public:
  struct hooks {
    std::function<bool()> others_live;                ///< another engine has the failover lock
    std::function<void(const std::string&)> waiting;  ///< for what; on the loading thread, now and then
    std::function<void()> shared;                     ///< others can have them; any thread
    std::function<void(const std::string&)> trouble;  ///< the engine goes on without; any thread
  };

  /// Reads and writes nothing yet. Throws std::system_error where there can be no thread.
  weights_share(share_config config, hooks told);
  /// Ends whatever waits. On the thread that made it.
  ~weights_share();
  weights_share(const weights_share&) = delete;
  weights_share& operator=(const weights_share&) = delete;

  /// What load() is to be told.
  struct claimed {
    engine::weight_source weights{};
    engine::cache_source cache{};
  };

  // On the loading thread, in this order.
  /// Waits for the weights, without a limit; engine 0 loads them itself if nobody has. Then what load() is to
  /// be told. Errors: stale_weights, weights_lost (no holder), cancelled.
  [[nodiscard]] engine::result<claimed> claim(const weights_record& own, const digest_function& own_digest);
  /// After a load that found the weights stale, in engine 0: as claim(), for weights of its own. Errors:
  /// those of claim().
  [[nodiscard]] engine::result<claimed> replace(const std::string& why);
  /// After a load that succeeded. What load() has made stays valid as long as this object. Errors:
  /// stale_weights, where the memory is another GPU's; insufficient_vram, where there is none for a ledger.
  [[nodiscard]] engine::result<void> loaded(const engine::shared_weights* weights,
                                            const engine::shared_cache* cache, const std::string& gpu);
  /// Of the cache that comes with the weights; nullopt: the engine's cache is its own.
  [[nodiscard]] std::optional<engine::page_ledger> ledger() const { return pages_.ledger(); }
  /// weights_record::files of the engine that loaded them; empty where this one did. After loaded().
  [[nodiscard]] std::string mapped_files();

  // On the thread that finds the model's digest.
  /// Waits until it is known. Whether this engine has to find the digest: it is to pass it on. If not,
  /// what the others say it is, or nothing when there were no weights in the end.
  struct digest_need {
    bool find = false;
    std::string known;
  };
  [[nodiscard]] digest_need wait_for_role(const std::stop_token& stop);
  /// False where it ends before.
  [[nodiscard]] bool wait_until_loaded(const std::stop_token& stop);
  /// Gives the weights away. After that.
  void give(const std::string& digest);
  /// Instead of that: says why, and lets another engine load them.
  void keep(const std::string& why);

  // On the loading thread, when all that is over.
  /// Gives the right to read back, so that this engine keeps nobody from writing. False where it has to keep
  /// its weights: others do not have them (yet).
  [[nodiscard]] bool sleep();
  /// After that: the same weights again. Errors: stale_weights, weights_lost, cancelled.
  [[nodiscard]] engine::result<engine::shared_weights> wake(std::chrono::milliseconds timeout);

  /// Ends what waits, for good. Any thread.
  void cancel() noexcept;

 private:
  enum class role { unknown, writer, reader };
  /// What the thread of its own does; before, the link is the other threads'.
  enum class stage { none, watching, offering, asleep, over };

  [[nodiscard]] bool has_pages() const noexcept { return config_.pages.pages > 0; }
  [[nodiscard]] std::string own_pages() const;
  [[nodiscard]] engine::result<net::grant_frame> first_grant();
  [[nodiscard]] engine::result<net::grant_frame> wait_for(net::weights_mode mode, const std::string& what);
  [[nodiscard]] std::optional<std::string> compare(const net::grant_frame& grant,
                                                   const digest_function& own_digest) const;
  [[nodiscard]] engine::result<void> leave_others(const std::string& why);
  [[nodiscard]] engine::result<void> take(const net::grant_frame& grant);
  void set_role(role now);
  void set_stage(stage now);
  [[nodiscard]] net::weights_result<void> put_and_commit();
  void run(const std::stop_token& stop);
  [[nodiscard]] stage watch();
  [[nodiscard]] stage fall_asleep();
  [[nodiscard]] stage offer();
  [[nodiscard]] stage offer_later(const net::weights_failure& why);

  const share_config config_;
  const hooks told_;
  net::weights_link link_;
  engine::file_descriptor imported_;  ///< kept, for a holder that comes later
  net::commit_frame committed_;       ///< what there is, as the next holder is told
  std::uint64_t epoch_ = 0;           ///< of the latest grant
  engine::shared_weights weights_;
  shared_pages pages_;
  weights_record record_;
  bool replaces_ = false;  ///< others use other weights, which are dropped when nobody does any more
  std::chrono::milliseconds pause_{0};
  bool said_ = false;  ///< that the holder does not take them

  std::mutex mutex_;
  std::condition_variable_any changed_;
  role role_ = role::unknown;
  bool is_loaded_ = false;
  stage stage_ = stage::none;
  bool wants_sleep_ = false;
  std::jthread thread_;
};

}  // namespace orcd::app
