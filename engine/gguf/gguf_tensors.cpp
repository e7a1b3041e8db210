#include <cstring>
#include <string>

#include "engine/gguf/gguf_parser.hpp"

namespace orcd::engine {
namespace {

constexpr std::uint64_t largest_extent = 1ULL << 31U;
constexpr std::uint64_t largest_product = 1ULL << 48U;

std::string_view read_name(byte_cursor& cursor, const gguf_limits& limits) {
  const std::uint64_t at = cursor.offset();
  const std::string_view name = cursor.read_string("tensor name", limits.name_bytes);
  if (!cursor.ok()) return name;
  if (name.empty()) cursor.fail("tensor name", at, "is empty");
  if (name.find('\0') != std::string_view::npos)
    cursor.fail("tensor name", at, in_quotes(name) + " contains a NUL byte");
  return name;
}

void read_extents(byte_cursor& cursor, tensor_view& tensor) {
  std::uint64_t at = cursor.offset();
  tensor.dims = cursor.read<std::uint32_t>("dimension count");
  if (!cursor.ok()) return;
  if (tensor.dims < 1 || tensor.dims > 4) {
    cursor.fail("dimension count", at, "is " + std::to_string(tensor.dims) + "; it must be 1 to 4");
    return;
  }
  std::uint64_t product = 1;
  for (std::uint32_t d = 0; d < tensor.dims && cursor.ok(); ++d) {
    at = cursor.offset();
    const auto extent = cursor.read<std::uint64_t>("dimension");
    if (!cursor.ok()) return;
    tensor.extents[d] = extent;
    if (extent < 1 || extent > largest_extent) {
      cursor.fail("dimension " + std::to_string(d), at,
                  "is " + std::to_string(extent) + "; it must be 1 to " + std::to_string(largest_extent));
      return;
    }
    const auto next = checked_multiply(product, extent);
    if (!next || *next > largest_product) {
      cursor.fail("dimensions", at,
                  "the number of values is over the limit of " + std::to_string(largest_product));
      return;
    }
    product = *next;
  }
}

std::string supported_list() {
  std::string out;
  for (const type_traits& t : supported_types()) out.append(out.empty() ? "" : ", ").append(t.name);
  return out;
}

void read_type(byte_cursor& cursor, tensor_view& tensor) {
  const std::uint64_t at = cursor.offset();
  const auto id = cursor.read<std::uint32_t>("type");
  if (!cursor.ok()) return;
  const auto type = type_from_id(id);
  if (!type) {
    cursor.fail("type", at,
                "is " + std::to_string(id) + " (" + std::string(known_type_name(id)) +
                    "), which is not supported; supported are " + supported_list());
    return;
  }
  tensor.type = *type;
  const type_traits& traits = traits_of(*type);
  if (tensor.extents[0] % traits.block_elems != 0) {
    cursor.fail("dimension 0", at,
                "is " + std::to_string(tensor.extents[0]) + "; " + std::string(traits.name) +
                    " needs a multiple of " + std::to_string(traits.block_elems));
    return;
  }
  // Cannot overflow: at most 2^48 values of at most 4 bytes.
  tensor.bytes =
      row_bytes(traits, tensor.extents[0]) * tensor.extents[1] * tensor.extents[2] * tensor.extents[3] +
      traits.trailer_bytes;
}

/// The tensor infos as written, with file_offset still relative to the data section.
std::vector<tensor_view> read_infos(byte_cursor& cursor, std::uint64_t count, const gguf_limits& limits) {
  std::vector<tensor_view> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
    cursor.set_subject({}, {});
    tensor_view tensor;
    tensor.name = read_name(cursor, limits);
    cursor.set_subject("tensor", tensor.name);
    read_extents(cursor, tensor);
    read_type(cursor, tensor);
    tensor.file_offset = cursor.read<std::uint64_t>("offset");
    if (cursor.ok()) out.push_back(tensor);
  }
  cursor.set_subject({}, {});
  return out;
}

/// A fork writes Q2_0, by the same id, in other blocks. Where the next tensor begins tells which they are.
struct foreign_q2_0 {
  static constexpr std::uint64_t block_elems = 128, block_bytes = 34;
  static constexpr std::string_view refusal =
      "; with type 42 (Q2_0) in blocks of 128 values and 34 bytes, as a fork writes them, the sizes would "
      "fit, and those are not supported: only blocks of 64 values and 18 bytes are";

  [[nodiscard]] static bool possible(const tensor_view& tensor) noexcept {
    return tensor.type == ggml_type::q2_0 && tensor.cols() % block_elems == 0;
  }
  [[nodiscard]] static std::uint64_t bytes(const tensor_view& tensor) noexcept {
    return tensor.elements() / block_elems * block_bytes;
  }
};

/// What to say of the tensor before one that is not where it should be, or of a tensor that does not fit.
std::string_view foreign_hint(const tensor_view* before, std::uint64_t begin, std::uint64_t end,
                              std::uint64_t alignment) {
  if (before == nullptr || !foreign_q2_0::possible(*before)) return {};
  const std::uint64_t foreign = begin + foreign_q2_0::bytes(*before);
  const bool fits = foreign == end || *checked_align(foreign, alignment) == end;
  return fits ? foreign_q2_0::refusal : std::string_view();
}

/// Offsets must be the running sum of the padded sizes: this one rule excludes overlaps and gaps. A refusal
/// ends with `foreign`.
void place(byte_cursor& cursor, tensor_view& tensor, std::uint64_t expected, std::uint64_t data_bytes,
           std::string_view foreign) {
  const std::uint64_t offset = tensor.file_offset;
  cursor.set_subject("tensor", tensor.name);
  if (offset != expected) {
    cursor.fail("offset", cursor.offset(),
                "is " + std::to_string(offset) + "; tensors must follow each other, so it must be " +
                    std::to_string(expected) + std::string(foreign));
  } else if (offset > data_bytes || tensor.bytes > data_bytes - offset) {
    cursor.fail("data", cursor.offset(),
                std::to_string(tensor.bytes) + " bytes at " + std::to_string(offset) +
                    " of the data section do not fit in its " + std::to_string(data_bytes) +
                    " bytes; the file is truncated or damaged" + std::string(foreign));
  }
}

/// The f32 behind the last row, of a type that has one.
float factor_of(const tensor_view& tensor) {
  const type_traits& traits = traits_of(tensor.type);
  float factor = 1.0F;
  if (traits.trailer_bytes != 0)
    std::memcpy(&factor, tensor.data + tensor.bytes - traits.trailer_bytes, sizeof factor);
  return factor;
}

/// Where padding makes both kinds of Q2_0 blocks as long for every tensor, nothing tells them apart.
void refuse_ambiguous(byte_cursor& cursor, std::span<const tensor_view> tensors, std::uint64_t alignment) {
  const tensor_view* first = nullptr;
  for (const tensor_view& tensor : tensors) {
    if (tensor.type != ggml_type::q2_0) continue;
    const bool alike =
        foreign_q2_0::possible(tensor) &&
        *checked_align(foreign_q2_0::bytes(tensor), alignment) == *checked_align(tensor.bytes, alignment);
    if (!alike) return;
    if (first == nullptr) first = &tensor;
  }
  if (first == nullptr) return;
  cursor.set_subject("tensor", first->name);
  cursor.fail(
      "type", cursor.offset(),
      "is 42 (Q2_0), and the sizes in the file do not tell blocks of 64 values and 18 bytes from a fork's of "
      "128 values and 34 bytes");
}

}  // namespace

std::vector<tensor_view> read_tensors(byte_cursor& cursor, std::span<const std::byte> image,
                                      std::uint64_t count, std::uint32_t alignment,
                                      const gguf_limits& limits) {
  std::vector<tensor_view> out = read_infos(cursor, count, limits);
  if (!cursor.ok() || out.empty()) return out;
  const auto data = checked_align(cursor.offset(), alignment);
  if (!data || *data > image.size()) {
    cursor.fail("data section", cursor.offset(),
                "the file ends before it; its size is " + std::to_string(image.size()));
    return out;
  }
  const std::uint64_t data_bytes = image.size() - *data;
  std::uint64_t expected = 0;
  const tensor_view* before = nullptr;
  std::uint64_t before_at = 0;
  for (tensor_view& tensor : out) {
    const std::uint64_t at = tensor.file_offset;
    const std::string_view foreign = at != expected ? foreign_hint(before, before_at, at, alignment)
                                                    : foreign_hint(&tensor, at, data_bytes, alignment);
    place(cursor, tensor, expected, data_bytes, foreign);
    if (!cursor.ok()) return out;
    tensor.file_offset += *data;
    tensor.data = image.data() + tensor.file_offset;
    tensor.factor = factor_of(tensor);
    before = &tensor;
    before_at = at;
    expected = *checked_align(expected + tensor.bytes, alignment);  // both at most the file's size
  }
  cursor.set_subject({}, {});
  refuse_ambiguous(cursor, out, alignment);
  return out;
}

}  // namespace orcd::engine
