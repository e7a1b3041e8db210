#include "app/quantize/image_writer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "app/quantize/number_formats.hpp"
#include "app/quantize/parallel.hpp"
#include "app/quantize/ternary_codes.hpp"
#include "app/quantize/value_rows.hpp"
#include "engine/gguf/byte_cursor.hpp"
#include "engine/model/head_rows.hpp"
#include "kernels/host/half.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::ggml_type;
using engine::result;

/// Source bytes of one piece, unless a single row has more.
constexpr std::uint64_t piece_bytes = 1U << 20U;
constexpr std::size_t trailer_bytes = 32;

/// What each thread works with.
struct buffers {
  std::vector<std::uint8_t> codes;
  std::vector<std::byte> rows;
};

class tensor_writer {
 public:
  tensor_writer(const conversion& what, const image_plan& plan, const output_file& to,
                const progress_sink& done)
      : what_(what),
        plan_(plan),
        to_(to),
        done_(done),
        tensor_(plan.header.at(what.tensor)),
        traits_(engine::traits_of(tensor_.type)),
        row_bytes_(engine::row_bytes(traits_, what.cols)),
        source_row_bytes_(what.from.cols * bytes_of(what.from.type)),
        groups_(what.from.groups()) {
    const std::uint64_t each = std::max<std::uint64_t>(1, piece_bytes / source_row_bytes_);
    piece_rows_ = std::min(each, what.from.rows);
    pieces_ = static_cast<std::size_t>((what.from.rows + piece_rows_ - 1) / piece_rows_);
  }

  result<void> write() {
    scale_ = what_.scale;
    if (what_.how == conversion::kind::ternarize) {
      if (auto done = find_scale(); !done) return done;
    }
    if (is_ternary()) {
      if (auto done = put_scale(); !done) return done;
    }
    auto written = in_parallel(
        pieces_, [&] { return make_buffers(); },
        [&](std::size_t i, buffers& with) { return write_piece(i, with); });
    if (!written) return written;
    return is_ternary() ? pad_rows() : result<void>{};
  }

 private:
  [[nodiscard]] bool is_ternary() const noexcept { return what_.how != conversion::kind::values; }

  [[nodiscard]] buffers make_buffers() const {
    buffers out;
    out.rows.resize(piece_rows_ * row_bytes_);
    // What is behind the source's columns stays as it is here.
    if (is_ternary()) out.codes.resize(what_.cols, code_zero);
    return out;
  }

  [[nodiscard]] std::span<const std::byte> source_row(std::uint64_t row) const {
    return what_.from.data.subspan(row * source_row_bytes_, source_row_bytes_);
  }

  [[nodiscard]] std::uint64_t rows_of(std::size_t piece) const {
    return std::min(piece_rows_, what_.from.rows - piece * piece_rows_);
  }

  [[nodiscard]] error failure(std::uint64_t row, const std::string& text) const {
    return {errc::model_load_failed,
            "tensor " + engine::in_quotes(what_.file_name) + ", row " + std::to_string(row) + ": " + text};
  }

  /// Sums of pieces are added in their order, so that the threads do not change the result.
  result<void> find_scale() {
    std::vector<double> sums(pieces_, 0.0);
    auto summed = in_parallel(
        pieces_, [] { return 0; },
        [&](std::size_t i, int) -> result<void> {
          const auto piece =
              what_.from.data.subspan(i * piece_rows_ * source_row_bytes_, rows_of(i) * source_row_bytes_);
          sums[i] = sum_of_magnitudes(what_.from.type, piece);
          if (std::isfinite(sums[i])) return {};
          return failure(i * piece_rows_, "a value of this row or of those behind it is not finite");
        });
    if (!summed) return summed;
    double sum = 0.0;
    for (const double part : sums) sum += part;
    scale_ = mean_scale(sum, what_.from.rows * what_.from.cols);
    rounding_.emplace(what_.from.type, scale_);
    return {};
  }

  /// Into the trailer, the blocks or the tensor beside it.
  result<void> put_scale() {
    if (tensor_.type == ggml_type::i2_s) {
      std::array<std::byte, trailer_bytes> trailer{};
      std::memcpy(trailer.data(), &scale_, sizeof scale_);
      return to_.write_at(plan_.begin + tensor_.offset + tensor_.bytes - trailer_bytes, trailer);
    }
    block_scale_ = kernels::host::float_to_half(what_.scale_tensor ? 1.0F : scale_);
    if ((block_scale_ & 0x7c00U) == 0x7c00U || (block_scale_ & 0x7fffU) == 0) {
      return failure(0, "the scale " + std::to_string(scale_) + " is outside of what " +
                            std::string(traits_.name) + " can hold");
    }
    if (!what_.scale_tensor) return {};
    const gguf_header::tensor& beside = plan_.header.at(*what_.scale_tensor);
    return to_.write_at(plan_.begin + beside.offset, std::as_bytes(std::span(&scale_, 1)));
  }

  result<void> write_piece(std::size_t piece, buffers& with) {
    const std::uint64_t first = piece * piece_rows_;
    const std::uint64_t count = rows_of(piece);
    for (unsigned group = 0; group < groups_; ++group) {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::span row(with.rows.data() + i * row_bytes_, row_bytes_);
        if (auto done = convert(first + i, group, with, row); !done) return done;
      }
      const std::uint64_t to_row = group * what_.from.rows + first;
      if (auto done = write_rows(to_row, count, with.rows); !done) return done;
    }
    done_(count * source_row_bytes_);
    return {};
  }

  result<void> convert(std::uint64_t row, unsigned group, buffers& with, std::span<std::byte> out) const {
    const std::span<const std::byte> values = source_row(row);
    if (!is_ternary()) {
      if (convert_row(what_.from.type, values, tensor_.type, what_.cols, out)) return {};
      return failure(row, "a value is not finite, or beyond what " + std::string(traits_.name) + " can hold");
    }
    const std::span<std::uint8_t> codes(with.codes.data(), what_.from.cols);
    std::optional<std::size_t> wrong;
    if (rounding_) {
      (*rounding_)(values, codes);
    } else if (groups_ == 4) {
      wrong = codes_of_packed(values, group, codes);
    } else {
      wrong = codes_of_bytes(values, codes);
    }
    if (wrong) {
      return failure(row, "byte " + std::to_string(*wrong) + " is " +
                              std::to_string(static_cast<unsigned>(values[*wrong])) +
                              (groups_ == 4 ? "; its four pairs of bits must be 0, 1 or 2"
                                            : "; it must be 0, 1 or 255, which is -1"));
    }
    pack_codes(tensor_.type, block_scale_, with.codes, out);
    return {};
  }

  result<void> write_rows(std::uint64_t first, std::uint64_t count, std::span<const std::byte> rows) const {
    const std::uint64_t begin = plan_.begin + tensor_.offset;
    if (what_.regroup == 0) return to_.write_at(begin + first * row_bytes_, rows.first(count * row_bytes_));
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = engine::regrouped_row(first + i, what_.regroup);
      const auto row = rows.subspan(i * row_bytes_, row_bytes_);
      if (auto done = to_.write_at(begin + at * row_bytes_, row); !done) return done;
    }
    return {};
  }

  /// Rows behind the source's: codes of zero are no zero bits.
  result<void> pad_rows() const {
    const std::vector<std::uint8_t> codes(what_.cols, code_zero);
    std::vector<std::byte> row(row_bytes_);
    pack_codes(tensor_.type, block_scale_, codes, row);
    for (std::uint64_t at = what_.from.matrix_rows(); at < what_.rows; ++at) {
      if (auto done = to_.write_at(plan_.begin + tensor_.offset + at * row_bytes_, row); !done) return done;
    }
    return {};
  }

  const conversion& what_;
  const image_plan& plan_;
  const output_file& to_;
  const progress_sink& done_;
  const gguf_header::tensor& tensor_;
  const engine::type_traits& traits_;
  std::uint64_t row_bytes_;
  std::uint64_t source_row_bytes_;
  unsigned groups_;
  std::uint64_t piece_rows_ = 0;
  std::size_t pieces_ = 0;
  float scale_ = 1.0F;
  std::uint16_t block_scale_ = 0;
  std::optional<ternary_rounding> rounding_;
};

}  // namespace

result<void> write_image(image_plan& plan, output_file& to, const progress_sink& done) {
  const std::vector<std::byte> head = plan.header.build();
  if (auto sized = to.resize(plan.begin + plan.header.file_bytes()); !sized) return sized;
  if (auto written = to.write_at(0, plan.magic); !written) return written;
  if (auto written = to.write_at(plan.begin, head); !written) return written;
  for (const conversion& what : plan.conversions) {
    if (auto written = tensor_writer(what, plan, to, done).write(); !written) return written;
  }
  return {};
}

}  // namespace orcd::app
