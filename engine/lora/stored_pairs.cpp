#include "engine/lora/stored_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "engine/base/ensure.hpp"
#include "engine/base/sha256.hpp"
#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_error.hpp"
#include "engine/lora/stored_values.hpp"
#include "engine/model/head_rows.hpp"

namespace orcd::engine {
namespace {

std::string tensor_text(const tensor_view& tensor) {
  return "tensor " + in_quotes(tensor.name);
}

/// "tensor 'X' has 7 rows; it must have 8: the rank".
std::string wrong_extent(const tensor_view& tensor, std::string_view what, std::uint64_t has,
                         std::uint64_t needs, std::string_view why) {
  return tensor_text(tensor) + " has " + std::to_string(has) + " " + std::string(what) + "; it must have " +
         std::to_string(needs) + ", " + std::string(why);
}

/// Empty when one half can be read at all.
std::string problem_of(const tensor_view& half) {
  if (!is_adapter_type(half.type)) {
    return tensor_text(half) + " has type " + std::string(traits_of(half.type).name) +
           "; supported for adapters are " + std::string(adapter_types);
  }
  if (half.extents[2] != 1 || half.extents[3] != 1) {
    return tensor_text(half) + " has " + std::to_string(half.dims) + " dimensions; it must be a matrix";
  }
  return {};
}

/// The model's matrix as a pair sees it.
struct matrix_shape {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};

matrix_shape shape_at(const model& base, const pair_place& place) {
  const tensor_view& matrix = *matrix_at(base, place);
  // The embedding takes a token and gives a row.
  if (place.target == lora_target::token_embd) return {matrix.rows(), matrix.cols()};
  return {matrix.cols(), matrix.rows()};
}

/// Empty when the halves are a pair for a matrix of this shape.
std::string problem_of(const stored_pair& pair, const matrix_shape& shape, std::uint32_t rank_limit) {
  if (!pair.a || !pair.b) {
    return tensor_text(pair.a ? pair.a : pair.b) + " is one half of a pair; the other half is missing";
  }
  for (const tensor_view* half : {&pair.a, &pair.b}) {
    if (std::string problem = problem_of(*half); !problem.empty()) return problem;
  }
  const std::string_view along = pair.a_by_columns ? "columns" : "rows";
  const std::string_view across = pair.a_by_columns ? "rows" : "columns";
  const std::uint64_t rank = pair.a_by_columns ? pair.a.cols() : pair.a.rows();
  const std::uint64_t in = pair.a_by_columns ? pair.a.rows() : pair.a.cols();
  if (rank < 1 || rank > rank_limit) {
    return tensor_text(pair.a) + " has " + std::to_string(rank) + " " + std::string(along) +
           ", the rank; it must be 1 to " + std::to_string(rank_limit);
  }
  if (pair.b.cols() != rank) {
    return wrong_extent(pair.b, "columns", pair.b.cols(), rank, "the rank of its other half");
  }
  if (in != shape.in) return wrong_extent(pair.a, across, in, shape.in, "as the model's matrix has inputs");
  if (pair.b.rows() != shape.out) {
    return wrong_extent(pair.b, "rows", pair.b.rows(), shape.out, "as the model's matrix has outputs");
  }
  return {};
}

void transpose(std::span<float> values, std::uint64_t rows, std::uint64_t cols) {
  const std::vector<float> from(values.begin(), values.end());
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t col = 0; col < cols; ++col) values[col * rows + row] = from[row * cols + col];
  }
}

void regroup(std::span<float> values, std::uint64_t rows, std::uint64_t cols, std::uint32_t heads) {
  ORCD_ENSURE(rows % (2 * std::uint64_t{heads}) == 0);  // the model's rows are heads * key_length
  const std::vector<float> from(values.begin(), values.end());
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::copy_n(from.data() + row * cols, cols, values.data() + regrouped_row(row, rows / heads) * cols);
  }
}

/// Of a matrix [rows][cols].
void turn_heads(std::span<float> values, std::uint64_t rows, std::uint64_t cols,
                const value_head_order& order) {
  const std::uint32_t each = order.heads / order.key_heads;
  ORCD_ENSURE(order.first + std::uint64_t{order.heads} * order.width == (order.of_inputs ? cols : rows));
  const std::vector<float> from(values.begin(), values.end());
  for (std::uint32_t head = 0; head < order.heads; ++head) {
    const std::uint64_t to = order.first + std::uint64_t{head} * order.width;
    const std::uint64_t of =
        order.first + std::uint64_t{head % order.key_heads * each + head / order.key_heads} * order.width;
    for (std::uint32_t i = 0; i < order.width; ++i) {
      if (order.of_inputs)
        for (std::uint64_t row = 0; row < rows; ++row)
          values[row * cols + to + i] = from[row * cols + of + i];
      else
        std::copy_n(from.data() + (of + i) * cols, cols, values.data() + (to + i) * cols);
    }
  }
}

class maker {
 public:
  explicit maker(const adapter_source& source) : source_(source) {}

  result<void> check(const std::map<pair_place, stored_pair>& pairs) {
    if (pairs.empty()) return adapter_error(source_.file, "has no pair of lora_a and lora_b");
    std::uint64_t count = 0;
    for (const auto& [place, pair] : pairs) {
      const std::string problem = problem_of(pair, shape_at(source_.base, place), source_.limits.rank);
      if (!problem.empty()) return adapter_error(source_.file, problem);
      count += pair.a.elements() + pair.b.elements();  // no overflow: all lie in one file
    }
    out_.values.reserve(count);
    return {};
  }

  result<void> add(const pair_place& place, const stored_pair& stored, const scale_rule& scale) {
    const matrix_shape shape = shape_at(source_.base, place);
    lora_pair pair{.target = place.target,
                   .layer = place.layer,
                   .rank = static_cast<std::uint32_t>(stored.b.cols()),
                   .in = static_cast<std::uint32_t>(shape.in),
                   .out = static_cast<std::uint32_t>(shape.out)};
    const auto factor = scale(stored, pair.rank);
    if (!factor) return factor.error();
    if (!(std::abs(*factor) <= std::numeric_limits<float>::max())) {
      return adapter_error(source_.file, "the scale of " + tensor_text(stored.a) +
                                             " is not a finite number, or beyond what f32 holds");
    }
    pair.scale = static_cast<float>(*factor);
    pair.a_at = out_.values.size();
    const auto a = append(stored.a);
    if (!a) return a.error();
    if (stored.a_by_columns) transpose(*a, pair.in, pair.rank);
    pair.b_at = out_.values.size();
    const auto b = append(stored.b);
    if (!b) return b.error();
    if (stored.heads_in_halves != 0) regroup(*b, pair.out, pair.rank, stored.heads_in_halves);
    if (stored.values.heads > 0 && stored.values.of_inputs) turn_heads(*a, pair.rank, pair.in, stored.values);
    if (stored.values.heads > 0 && !stored.values.of_inputs)
      turn_heads(*b, pair.out, pair.rank, stored.values);
    out_.rank_max = std::max(out_.rank_max, pair.rank);
    out_.pairs.push_back(pair);
    return {};
  }

  result<lora_adapter> finish() {
    auto sum = digest();
    if (!sum) return sum.error();
    out_.digest = std::move(*sum);
    return std::move(out_);
  }

 private:
  /// A half's values behind those that are there. No allocation: check() has made room.
  result<std::span<float>> append(const tensor_view& half) {
    if (source_.stop.stop_requested()) return stopped();
    const std::uint64_t at = out_.values.size();
    out_.values.resize(at + half.elements());
    const std::span<float> values = std::span(out_.values).subspan(at);
    read_values(half, values.data());
    if (auto finite = check_finite(half, values); !finite) return finite.error();
    return values;
  }

  [[nodiscard]] error stopped() const {
    return {errc::cancelled, std::string(source_.file) + ": is not wanted any more", "lora"};
  }

  result<void> check_finite(const tensor_view& tensor, std::span<const float> values) const {
    const auto bad =
        std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
    if (bad == values.end()) return {};
    const auto at = static_cast<std::uint64_t>(bad - values.begin());
    return adapter_error(source_.file, tensor_text(tensor) + " has the value " + std::to_string(*bad) +
                                           " in row " + std::to_string(at / tensor.cols()) + ", column " +
                                           std::to_string(at % tensor.cols()) +
                                           ", both from 0; values must be finite");
  }

  /// Of numbers only, in the order of the pairs, so that it does not depend on the file's format or order.
  result<std::string> digest() const {
    sha256 sum;
    const auto number = [&](auto value) { sum.update(std::as_bytes(std::span(&value, 1))); };
    sum.update("lora pairs 1\n");
    number(static_cast<std::uint64_t>(out_.pairs.size()));
    for (const lora_pair& pair : out_.pairs) {
      for (const std::uint32_t field :
           {static_cast<std::uint32_t>(pair.target), pair.layer, pair.rank, pair.in, pair.out}) {
        number(field);
      }
      number(pair.scale);
    }
    constexpr std::size_t piece = std::size_t{1} << 20U;
    for (std::span<const float> rest(out_.values); !rest.empty();) {
      if (source_.stop.stop_requested()) return stopped();
      const auto next = rest.first(std::min(piece, rest.size()));
      sum.update(std::as_bytes(next));
      rest = rest.subspan(next.size());
    }
    return sum.finish();
  }

  const adapter_source& source_;
  lora_adapter out_;
};

}  // namespace

result<void> stored_pairs::add(const pair_place& place, pair_half half, const tensor_view& tensor,
                               std::string_view file) {
  stored_pair& pair = pairs_[place];
  tensor_view& slot = half == pair_half::a ? pair.a : pair.b;
  if (slot) {
    return adapter_error(file, tensor_text(tensor) + " and " + tensor_text(slot) +
                                   " are the same half of one pair; there must be one");
  }
  slot = tensor;
  return {};
}

result<lora_adapter> make_adapter(const stored_pairs& pairs, const scale_rule& scale,
                                  const adapter_source& source) {
  maker making(source);
  if (auto checked = making.check(pairs.all()); !checked) return checked.error();
  for (const auto& [place, pair] : pairs.all()) {
    if (auto added = making.add(place, pair, scale); !added) return added.error();
  }
  return making.finish();
}

}  // namespace orcd::engine
