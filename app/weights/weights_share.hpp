// How the weights of one engine come to serve others of its device: the first one loads them into memory that
// can be passed on and gives that to the holder, the others get it from there. Source: the weights of the
// failover plan.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "app/weights/weights_record.hpp"
#include "engine/base/error.hpp"
#include "engine/model/shared_weights.hpp"
#include "net/failover/weights_link.hpp"

namespace orcd::app {

class weights_share {
 public:
  struct hooks {
    std::function<void()> waiting;                    ///< on the loading thread, now and then
    std::function<void()> shared;                     ///< others can have them; any thread
    std::function<void(const std::string&)> trouble;  ///< the engine goes on without; any thread
  };

  /// `socket`: the holder's, of the device. Reads and writes nothing yet.
  weights_share(boost::asio::io_context& io, std::string socket, std::uint32_t engine_id, hooks told);
  /// Ends whatever waits. On the thread that made it.
  ~weights_share();
  weights_share(const weights_share&) = delete;
  weights_share& operator=(const weights_share&) = delete;

  // On the loading thread, in this order.
  /// Waits for the weights, without a limit; engine 0 loads them itself if nobody has. Then what load() is to
  /// be told. Errors: stale_weights, weights_lost (no holder), cancelled.
  [[nodiscard]] engine::result<engine::weight_source> claim(const weights_record& own,
                                                            const digest_function& own_digest);
  /// After a load that succeeded. `exported`: what load() has made; stays valid as long as this object.
  /// Errors: stale_weights, where the memory is another GPU's.
  [[nodiscard]] engine::result<void> loaded(const engine::shared_weights* exported, const std::string& gpu);

  // On the thread that finds the model's digest.
  /// Waits for the end of claim(). Whether this engine has to find the digest: it is to pass it on. If not,
  /// what the others say it is, or nothing when there was no claim in the end.
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

  /// Ends what waits, for good. Any thread.
  void cancel() noexcept;

 private:
  enum class role { unknown, writer, reader };
  enum class turn { again, over };

  [[nodiscard]] engine::result<void> take(const net::grant_frame& grant, const digest_function& own_digest);
  [[nodiscard]] net::weights_result<void> put_and_commit();
  void watch();
  void begin_offers();
  [[nodiscard]] turn try_offer();

  boost::asio::io_context& io_;
  const std::uint32_t engine_;
  const hooks told_;
  net::weights_link link_;
  engine::file_descriptor imported_;  ///< kept, for a holder that comes later
  net::commit_frame committed_;       ///< what there is, as the next holder is told
  engine::shared_weights weights_;
  weights_record record_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  role role_ = role::unknown;
  bool is_loaded_ = false;
  std::jthread again_;  ///< assigned on the io thread
};

}  // namespace orcd::app
