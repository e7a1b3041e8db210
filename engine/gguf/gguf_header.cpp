#include <bit>
#include <string>

#include "engine/gguf/gguf_parser.hpp"

namespace orcd::engine {
namespace {

// Smallest records: a key of one byte with a one-byte value; a tensor of one dimension with a name of one
// byte.
constexpr std::uint64_t smallest_entry = 8 + 1 + 4 + 1;
constexpr std::uint64_t smallest_tensor = 8 + 1 + 4 + 8 + 4 + 8;

void check_magic(byte_cursor& cursor) {
  const auto magic = cursor.take(4, "magic");
  const std::string_view text(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (cursor.ok() && text != "GGUF") cursor.fail("magic", 0, "is " + in_quotes(text) + ", not 'GGUF'");
}

std::uint32_t read_version(byte_cursor& cursor) {
  const auto version = cursor.read<std::uint32_t>("version");
  if (!cursor.ok() || version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xFFFFU) == 0) {
    cursor.fail("version", 4, "the bytes are swapped: this is a big-endian GGUF, which is not supported");
  } else {
    cursor.fail("version", 4, "is " + std::to_string(version) + "; supported are 2 and 3");
  }
  return version;
}

std::uint64_t read_count(byte_cursor& cursor, std::string_view field, std::uint64_t limit) {
  const std::uint64_t at = cursor.offset();
  const auto count = cursor.read<std::uint64_t>(field);
  if (cursor.ok() && count > limit) {
    cursor.fail(field, at, "is " + std::to_string(count) + "; the limit is " + std::to_string(limit));
  }
  return count;
}

void check_room(byte_cursor& cursor, std::string_view field, std::uint64_t offset, std::uint64_t count,
                std::uint64_t smallest) {
  if (cursor.ok() && count > cursor.remaining() / smallest) {
    cursor.fail(field, offset,
                "is " + std::to_string(count) + ", but the " + std::to_string(cursor.remaining()) +
                    " bytes that are left hold at most " + std::to_string(cursor.remaining() / smallest));
  }
}

std::uint32_t alignment_of(byte_cursor& cursor, const std::vector<gguf_entry>& entries) {
  for (const gguf_entry& entry : entries) {
    if (entry.key != "general.alignment") continue;
    if (entry.value.type != gguf_value_type::u32) {
      const auto id = static_cast<std::uint32_t>(entry.value.type);
      cursor.fail("general.alignment", cursor.offset(),
                  "has type " + std::string(value_type_name(id)) + "; it must be u32");
      return 32;
    }
    const std::uint64_t value = std::get<std::uint64_t>(entry.value.value);
    if (!std::has_single_bit(value) || value < 8 || value > 4096) {
      cursor.fail("general.alignment", cursor.offset(),
                  "is " + std::to_string(value) + "; it must be a power of two from 8 to 4096");
      return 32;
    }
    return static_cast<std::uint32_t>(value);
  }
  return 32;
}

}  // namespace

result<parsed_part> parse_part(std::span<const std::byte> image, std::string_view file,
                               const gguf_limits& limits) {
  byte_cursor cursor(image, file);
  parsed_part out;
  check_magic(cursor);
  out.version = read_version(cursor);
  const std::uint64_t tensors = read_count(cursor, "tensor_count", limits.tensors);
  const std::uint64_t entries = read_count(cursor, "metadata_kv_count", limits.entries);
  check_room(cursor, "tensor_count", 8, tensors, smallest_tensor);
  check_room(cursor, "metadata_kv_count", 16, entries, smallest_entry);
  if (cursor.ok()) out.entries = read_entries(cursor, entries, limits);
  if (cursor.ok()) out.alignment = alignment_of(cursor, out.entries);
  if (cursor.ok()) out.tensors = read_tensors(cursor, image, tensors, out.alignment, limits);
  if (!cursor.ok()) return cursor.failure();
  return out;
}

}  // namespace orcd::engine
