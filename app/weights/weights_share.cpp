#include "app/weights/weights_share.hpp"

#include <array>
#include <boost/asio/post.hpp>
#include <charconv>
#include <utility>

#include "engine/base/hexadecimal.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::errc;
using engine::error;
using engine::result;
using net::weights_mode;
using net::weights_problem;
using std::chrono::milliseconds;

constexpr const char* piece_name = "weights";
/// How long a claim waits before it is told that it does.
constexpr milliseconds notice_interval{10'000};
constexpr milliseconds offer_interval{100};

/// All zero where it is no hash.
net::weights_hash hash_of(std::string_view hex) {
  net::weights_hash out{};
  if (hex.size() != 2 * out.size()) return out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, out.at(i), 16);
  }
  return out;
}

error error_of(const net::weights_failure& failure) {
  switch (failure.kind) {
    case weights_problem::stale: return {errc::stale_weights, failure.message};
    case weights_problem::cancelled: return {errc::cancelled, failure.message};
    default: return {errc::weights_lost, failure.message};
  }
}

error stale(const std::string& why) {
  return {errc::stale_weights, "the shared weights " + why};
}

}  // namespace

weights_share::weights_share(asio::io_context& io, std::string socket, std::uint32_t engine_id, hooks told)
    : io_(io), engine_(engine_id), told_(std::move(told)), link_(std::move(socket), engine_id) {}

weights_share::~weights_share() {
  again_.request_stop();
  cancel();
}

void weights_share::cancel() noexcept {
  link_.cancel();
}

result<engine::weight_source> weights_share::claim(const weights_record& own,
                                                   const digest_function& own_digest) {
  record_ = own;
  const auto mode = engine_ == 0 ? weights_mode::write_or_read : weights_mode::read;
  auto grant = link_.request(mode, notice_interval);
  while (!grant && grant.error().kind == weights_problem::timeout) {
    // A holder that hangs gives no grant either.
    if (const auto answers = link_.state(); !answers) return error_of(answers.error());
    told_.waiting();
    grant = link_.request(mode, notice_interval);
  }
  if (!grant) return error_of(grant.error());
  const bool writes = grant->mode == weights_mode::write;
  if (!writes) {
    if (const auto taken = take(*grant, own_digest); !taken) return taken.error();
  }
  {
    const std::lock_guard held(mutex_);
    role_ = writes ? role::writer : role::reader;
  }
  changed_.notify_all();
  engine::weight_source out;
  out.share = writes;
  if (!writes) out.imported = weights_;
  return out;
}

/// What was granted, if it is what this engine would have loaded.
result<void> weights_share::take(const net::grant_frame& grant, const digest_function& own_digest) {
  auto others = weights_record_of(grant.metadata);
  if (!others) return stale("are another program's, or another version's");
  if (const auto differs = difference(record_, *others, own_digest)) return stale(*differs);
  auto memory = link_.get(piece_name);
  if (!memory) return error_of(memory.error());
  if (!*memory) return stale("are not there: the holder has something else");
  record_ = std::move(*others);
  imported_ = std::move((*memory)->descriptor);
  committed_ = {grant.layout, grant.content, grant.metadata};
  weights_ = {imported_.get(), (*memory)->bytes, engine::hexadecimal(grant.layout),
              engine::hexadecimal(grant.content)};
  return {};
}

result<void> weights_share::loaded(const engine::shared_weights* exported, const std::string& gpu) {
  if (exported == nullptr) {
    if (record_.gpu != gpu) return stale("are in the memory of GPU " + record_.gpu + ", not of " + gpu);
    watch();
  } else {
    weights_ = *exported;
    record_.gpu = gpu;
  }
  {
    const std::lock_guard held(mutex_);
    is_loaded_ = true;
  }
  changed_.notify_all();
  return {};
}

weights_share::digest_need weights_share::wait_for_role(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  if (!changed_.wait(held, stop, [this] { return role_ != role::unknown; })) return {};
  if (role_ == role::writer) return {true, {}};
  return {false, record_.digest};
}

bool weights_share::wait_until_loaded(const std::stop_token& stop) {
  std::unique_lock held(mutex_);
  return changed_.wait(held, stop, [this] { return is_loaded_; });
}

void weights_share::give(const std::string& digest) {
  record_.digest = digest;
  committed_ = {hash_of(weights_.layout_hash), hash_of(weights_.content_hash), to_text(record_)};
  if (const auto given = put_and_commit(); !given) {
    told_.trouble(given.error().message);
    asio::post(io_, [this] { begin_offers(); });
    return;
  }
  told_.shared();
  watch();
}

void weights_share::keep(const std::string& why) {
  {
    const std::lock_guard held(mutex_);
    if (role_ != role::writer) return;
  }
  told_.trouble(why);
  link_.release();
}

net::weights_result<void> weights_share::put_and_commit() {
  if (auto put = link_.put(piece_name, weights_.bytes, weights_.descriptor); !put) return put;
  if (const auto granted = link_.commit(committed_); !granted) return granted.error();
  return {};
}

/// The connection is what tells the holder that the weights are in use.
void weights_share::watch() {
  asio::post(io_, [this] {
    link_.watch(io_, [this] {
      told_.trouble("the holder is gone, and is looked for");
      begin_offers();
    });
  });
}

/// On the io thread.
void weights_share::begin_offers() {
  again_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex pause;
    std::unique_lock held(pause);
    std::condition_variable_any never;
    while (!stop.stop_requested() && try_offer() == turn::again) {
      never.wait_for(held, stop, offer_interval, [] { return false; });
    }
  });
}

/// To a holder that may have just been started: it gets the memory again from whoever comes first, and the
/// others find their own weights there.
weights_share::turn weights_share::try_offer() {
  const auto grant = link_.request(weights_mode::write_or_read, milliseconds(0));
  if (!grant) return grant.error().kind == weights_problem::cancelled ? turn::over : turn::again;
  if (grant->mode == weights_mode::write) {
    if (!put_and_commit()) return turn::again;
    told_.shared();
    watch();
    return turn::over;
  }
  if (grant->layout == committed_.layout && grant->content == committed_.content) {
    watch();
    return turn::over;
  }
  link_.release();
  told_.trouble("the holder has other weights by now");
  return turn::over;
}

}  // namespace orcd::app
