// Pairs as they lie in a file, collected half by half, and the adapter that they make once every name, shape,
// type and value has been checked against the model. Views point into the file. Pure.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>

#include "engine/lora/adapter_limits.hpp"
#include "engine/lora/targets.hpp"

namespace orcd::engine {

/// Heads of values that lie beside one another for a key head in the original, and in turn over the key heads
/// in the model's file: of B's rows from `first` on, or of A's columns. No heads: nothing is moved.
struct value_head_order {
  std::uint32_t heads = 0, key_heads = 0, width = 0;
  std::uint64_t first = 0;
  bool of_inputs = false;
};

/// A half that the file lacks has a null data pointer.
struct stored_pair {
  tensor_view a;            ///< [rank][in], or [in][rank]
  tensor_view b;            ///< [out][rank]
  std::string_view module;  ///< what a configuration calls the matrix
  bool a_by_columns = false;
  /// B's rows are those of this many heads, each rotated in halves, and the model's file rotates neighbours;
  /// 0: the rows are in the file's order.
  std::uint32_t heads_in_halves = 0;
  value_head_order values{};
};

/// Whose adapter is read, and under which name messages speak of it.
struct adapter_source {
  const model& base;
  const adapter_limits& limits;
  std::string_view file;
  std::stop_token stop{};  ///< asked while values are read: the adapter is not wanted any more
};

enum class pair_half { a, b };

class stored_pairs {
 public:
  /// An error when that half of the pair is there already.
  [[nodiscard]] result<void> add(const pair_place& place, pair_half half, const tensor_view& tensor,
                                 std::string_view file);
  [[nodiscard]] std::map<pair_place, stored_pair>& all() noexcept { return pairs_; }
  [[nodiscard]] const std::map<pair_place, stored_pair>& all() const noexcept { return pairs_; }

 private:
  std::map<pair_place, stored_pair> pairs_;
};

/// The scale of a pair with this rank.
using scale_rule = std::function<result<double>(const stored_pair&, std::uint32_t)>;

/// Errors: model_load_failed; cancelled, where the source says so.
[[nodiscard]] result<lora_adapter> make_adapter(const stored_pairs& pairs, const scale_rule& scale,
                                                const adapter_source& source);

}  // namespace orcd::engine
