#include "app/pipe/request.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

using engine::result;

/// The order of the lines of protocol `lines`. A block has the same names, but for the first two.
constexpr std::array<std::string_view, 8> header{
    "num_tokens", "reset_flag",         "temperature",          "top_k",
    "top_p",      "repetition_penalty", "rep_penalty_lookback", "max_tokens"};
/// As the sampler on a GPU has it; both backends give the same tokens.
constexpr std::uint64_t lookback_max = 4'096;
constexpr double temperature_max = 1e6;
constexpr double penalty_max = 1e3;

/// What is too much for the sampler becomes the most that it takes: one request of one client must not end
/// the process for all.
result<void> set_count(std::string_view name, std::string_view text, std::uint32_t& place,
                       std::uint64_t most = pipe_count_max) {
  const auto value = read_count_up_to(name, text, most);
  if (!value) return value.error();
  place = static_cast<std::uint32_t>(*value);
  return {};
}

/// As set_count. What is no amount at all, NaN, is `off`.
result<void> set_amount(std::string_view name, std::string_view text, double most, float off, float& place) {
  const auto value = read_amount(name, text);
  if (!value) return value.error();
  place = std::isnan(*value) ? off : static_cast<float>(std::min(*value, most));
  // Below it a divisor is of no use: the nearest number is zero.
  if (place < std::numeric_limits<float>::min()) place = 0.0F;
  return {};
}

result<void> set_penalty(std::string_view name, std::string_view text, float& place) {
  if (auto set = set_amount(name, text, penalty_max, 1.0F, place); !set) return set;
  // 0 would make every token that was seen the most likely one.
  place = place == 0.0F ? 1.0F : std::max(place, static_cast<float>(1.0 / penalty_max));
  return {};
}

result<void> set_share(std::string_view name, std::string_view text, float& place) {
  const auto value = read_real(name, text, {0.0, 1.0});
  if (!value) return value.error();
  // The most likely token alone, as every share that is small enough.
  place = std::max(static_cast<float>(*value), std::numeric_limits<float>::min());
  return {};
}

/// Of the fields that both protocols have.
result<void> set_field(std::string_view name, std::string_view text, pipe_request& to) {
  engine::sampling_params& s = to.sampling;
  if (name == "temperature") return set_amount(name, text, temperature_max, 0.0F, s.temperature);
  if (name == "top_k") return set_count(name, text, s.top_k);
  if (name == "repetition_penalty") return set_penalty(name, text, s.repetition_penalty);
  if (name == "rep_penalty_lookback") return set_count(name, text, s.repeat_last_n, lookback_max);
  if (name == "max_tokens") return set_count(name, text, to.max_tokens);
  return set_share(name, text, s.top_p);
}

}  // namespace

result<key_and_value> read_pair(std::string_view line) {
  const auto equals = line.find('=');
  if (equals != line.npos && equals > 0)
    return key_and_value{line.substr(0, equals), line.substr(equals + 1)};
  return pipe_error("a line of a block is " + engine::in_quotes(line) + "; it must be KEY=VALUE");
}

std::string request_reader::field() const {
  if (protocol_ == pipe_protocol::blocks) return at_ == 0 ? "the number of lines" : "a block";
  if (at_ < header.size()) return std::string(header[at_]);
  return "token " + std::to_string(at_ - header.size() + 1) + " of " + std::to_string(lines_ - header.size());
}

std::size_t request_reader::line_max() const noexcept {
  return protocol_ == pipe_protocol::blocks && at_ > 0 ? block_line_max : number_line_max;
}

result<std::optional<pipe_request>> request_reader::take(std::string_view line) {
  if (auto taken = take_line(line); !taken) return taken.error();
  ++at_;
  if (!request_.quit && at_ < lines_) return std::optional<pipe_request>();
  if (!request_.quit && protocol_ == pipe_protocol::blocks) {
    if (auto good = check_block(); !good) return good.error();
  }
  at_ = lines_ = 0;
  keys_.clear();
  return std::optional(std::exchange(request_, {}));
}

result<void> request_reader::take_line(std::string_view line) {
  if (at_ == 0) {
    const bool blocks = protocol_ == pipe_protocol::blocks;
    const auto count = read_count(field(), line, 0, blocks ? block_lines_max : pipe_count_max);
    if (!count) return count.error();
    request_.quit = *count == 0;
    lines_ = blocks ? *count + 1 : *count + header.size();
    return {};
  }
  if (protocol_ == pipe_protocol::blocks) return take_pair(line);
  if (at_ >= header.size()) return take_id(line);
  if (at_ > 1) return set_field(header[at_], line, request_);
  const auto reset = read_count(header[1], line, 0, 1);
  if (!reset) return reset.error();
  if (*reset == 1) request_.keep = 0;
  return {};
}

result<void> request_reader::take_id(std::string_view line) {
  const auto id = read_count(field(), line, 0, vocabulary_ - 1);
  if (!id) return id.error();
  if (request_.tokens.count++ < room_) request_.tokens.ids.push_back(static_cast<engine::token_id>(*id));
  return {};
}

result<void> request_reader::take_pair(std::string_view line) {
  const auto pair = read_pair(line);
  if (!pair) return pair.error();
  const auto& [key, value] = *pair;
  const bool shared = std::find(header.begin() + 2, header.end(), key) != header.end();
  if (!shared && key != "kv_position" && key != "tokens") return {};  // a hint of a later SDK
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
    return pipe_error(std::string(key) + " is there twice in a block");
  }
  keys_.emplace_back(key);
  if (shared) return set_field(key, value, request_);
  if (key == "tokens") {
    auto ids = read_ids(key, value, vocabulary_, room_);
    if (!ids) return ids.error();
    request_.tokens = std::move(*ids);
    return {};
  }
  const auto keep = read_count(key, value, 0, pipe_count_max);
  if (!keep) return keep.error();
  request_.keep = *keep;
  return {};
}

result<void> request_reader::check_block() const {
  const auto has = [this](std::string_view key) {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  };
  for (const std::string_view key : {std::string_view("kv_position"), std::string_view("tokens")}) {
    if (!has(key)) return pipe_error(std::string(key) + " is missing in a block");
  }
  for (std::size_t i = 2; i < header.size(); ++i) {
    if (!has(header[i])) return pipe_error(std::string(header[i]) + " is missing in a block");
  }
  return {};
}

}  // namespace orcd::app
