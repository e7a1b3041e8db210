#include "app/quantize/manifest.hpp"

#include <cmath>

#include "app/quantize/model_config.hpp"
#include "engine/gguf/byte_cursor.hpp"

namespace orcd::app {
namespace {

using engine::byte_cursor;
using engine::error;
using engine::result;

constexpr std::uint64_t entry_bytes = 55;
constexpr std::uint64_t section_bytes = 9;
constexpr std::uint8_t section_text = 1;

std::string beyond(std::uint64_t value, std::uint64_t limit) {
  return "is " + std::to_string(value) + "; the limit is " + std::to_string(limit);
}

/// The fields that both layouts share. The cursor keeps the first failure.
class manifest_reader {
 public:
  manifest_reader(std::span<const std::byte> image, std::string_view name, std::uint64_t begin = 0)
      : in_(image, name) {
    in_.take(begin, "what is before");
  }

  byte_cursor& in() { return in_; }
  void set_shards(std::size_t count) { shards_ = static_cast<std::uint32_t>(count); }

  void read_shards(manifest& out) {
    const auto count = in_.read<std::uint16_t>("number of shards");
    if (in_.ok() && (count == 0 || count > manifest_limits::shards)) {
      fail("number of shards", beyond(count, manifest_limits::shards) + " and the least 1");
    }
    shards_ = count;
    for (std::uint32_t i = 0; in_.ok() && i < count; ++i) {
      const auto length = in_.read<std::uint16_t>("length of a shard's path");
      if (in_.ok() && (length == 0 || length > manifest_limits::path_bytes)) {
        fail("length of a shard's path", beyond(length, manifest_limits::path_bytes) + " and the least 1");
      }
      const auto path = in_.take(length, "path of a shard");
      const std::string_view text(reinterpret_cast<const char*>(path.data()), path.size());
      if (text.find('\0') != text.npos) fail("path of a shard", "has a zero byte");
      out.shards.emplace_back(text);
    }
  }

  void read_tensors(manifest& out) {
    const auto count = in_.read<std::uint32_t>("number of tensors");
    if (count > manifest_limits::tensors) {
      return fail("number of tensors", beyond(count, manifest_limits::tensors));
    }
    if (count > in_.remaining() / entry_bytes) {
      return fail("number of tensors", beyond(count, in_.remaining() / entry_bytes) +
                                           ", as many as the rest of the file has bytes for");
    }
    out.tensors.reserve(count);
    for (std::uint32_t i = 0; in_.ok() && i < count; ++i) {
      number_ = std::to_string(i + 1);
      in_.set_subject("tensor", number_);
      out.tensors.push_back(read_tensor());
    }
    in_.set_subject({}, {});
  }

  /// Only where LoRA entries follow.
  void read_lora(manifest& out) {
    manifest_lora lora;
    lora.layers = in_.read<std::uint32_t>("number of LoRA layers");
    if (in_.ok() && (lora.layers == 0 || lora.layers > manifest_limits::layers)) {
      fail("number of LoRA layers", beyond(lora.layers, manifest_limits::layers) + " and the least 1");
    }
    const auto each = in_.read<std::uint32_t>("LoRA targets a layer");
    if (in_.ok() && each != lora_targets) {
      fail("LoRA targets a layer", "is " + std::to_string(each) + "; it must be 7");
    }
    lora.scale = in_.read<double>("LoRA scale");
    if (in_.ok() && (!std::isfinite(lora.scale) || lora.scale == 0.0 || std::fabs(lora.scale) > 1e6)) {
      fail("LoRA scale", "is not a number other than 0 of at most 1e6");
    }
    for (std::uint32_t i = 0; in_.ok() && i < lora.layers * lora_targets; ++i) {
      number_ = std::to_string(i + 1);
      in_.set_subject("LoRA target", number_);
      lora.targets.push_back(read_target());
    }
    in_.set_subject({}, {});
    if (in_.ok()) out.lora = std::move(lora);
  }

  void read_sections(std::size_t tensors) {
    const auto count = in_.read<std::uint32_t>("number of sections");
    if (count > in_.remaining() / section_bytes) {
      return fail("number of sections", beyond(count, in_.remaining() / section_bytes) +
                                            ", as many as the rest of the file has bytes for");
    }
    std::uint64_t next = 0;
    for (std::uint32_t i = 0; in_.ok() && i < count; ++i) {
      const auto type = in_.read<std::uint8_t>("type of a section");
      const auto first = in_.read<std::uint32_t>("first tensor of a section");
      const auto number = in_.read<std::uint32_t>("number of tensors of a section");
      if (in_.ok() && type != section_text) {
        fail("type of a section", "is " + std::to_string(type) + "; only 1, text, is supported");
      }
      if (in_.ok() && first != next) {
        fail("first tensor of a section",
             "is " + std::to_string(first) + "; the section before ends at " + std::to_string(next));
      }
      next += number;
    }
    if (in_.ok() && next != tensors) {
      fail("number of tensors of all sections",
           "is " + std::to_string(next) + "; the file has " + std::to_string(tensors) + " tensors");
    }
  }

  void fail(std::string_view field, const std::string& text) { in_.fail(field, in_.offset(), text); }

 private:
  source_type read_type() {
    const auto code = in_.read<std::uint8_t>("dtype");
    if (code > 4) fail("dtype", "is " + std::to_string(code) + "; the largest is 4");
    return static_cast<source_type>(code);
  }

  std::uint32_t read_extent(std::string_view field) {
    const auto value = in_.read<std::uint32_t>(field);
    if (in_.ok() && (value == 0 || value > manifest_limits::extent)) {
      fail(field, beyond(value, manifest_limits::extent) + " and the least 1");
    }
    return value;
  }

  byte_range read_range(std::string_view field) {
    byte_range out;
    out.shard = in_.read<std::uint16_t>(field);
    out.offset = in_.read<std::uint64_t>(field);
    out.bytes = in_.read<std::uint64_t>(field);
    return out;
  }

  void check_range(const byte_range& range, std::uint64_t bytes, std::string_view field) {
    std::uint64_t end = 0;
    if (range.shard >= shards_) {
      fail(field, "is in shard " + std::to_string(range.shard) + " of " + std::to_string(shards_));
    } else if (range.bytes != bytes) {
      fail(field, "has " + std::to_string(range.bytes) + " bytes; rows, columns and dtype ask for " +
                      std::to_string(bytes));
    } else if (__builtin_add_overflow(range.offset, range.bytes, &end)) {
      fail(field, "begins at " + std::to_string(range.offset) + " and ends beyond 64 bits");
    }
  }

  manifest_tensor read_tensor() {
    manifest_tensor out;
    const auto action = in_.read<std::uint8_t>("action");
    if (action > 3) fail("action", "is " + std::to_string(action) + "; the largest is 3");
    out.action = static_cast<tensor_action>(action);
    out.type = read_type();
    out.rows = read_extent("rows");
    out.cols = read_extent("columns");
    out.padded_rows = read_extent("padded rows");
    out.padded_cols = read_extent("padded columns");
    out.data = read_range("data");
    const auto has_scale = in_.read<std::uint8_t>("has scale");
    const byte_range scale = read_range("scale");
    if (!in_.ok()) return out;
    check_range(out.data, std::uint64_t{out.rows} * out.cols * bytes_of(out.type), "data");
    check_codes(out);
    if (has_scale > 1) {
      fail("has scale", "is " + std::to_string(has_scale) + "; it must be 0 or 1");
    } else if (has_scale == 1) {
      check_range(scale, scale.bytes == 2 ? 2 : 4, "scale");
      out.scale = scale;
    } else if (scale.shard != 0 || scale.offset != 0 || scale.bytes != 0) {
      fail("scale", "is given although there is none");
    }
    return out;
  }

  void check_codes(const manifest_tensor& t) {
    const bool packed = t.type == source_type::i8 || t.type == source_type::u8;
    if (packed != (t.action == tensor_action::repack)) {
      fail("action", "is " + std::to_string(static_cast<int>(t.action)) + " for dtype " +
                         std::to_string(static_cast<int>(t.type)) +
                         "; action 3 is for I8 and U8 and the others are for F32, F16 and BF16");
    }
    for (const auto& [padded, plain] : {std::pair{t.padded_rows, t.rows}, std::pair{t.padded_cols, t.cols}}) {
      if (padded != plain && padded != (plain + 127) / 128 * 128) {
        fail("padding", "of " + std::to_string(plain) + " is to " + std::to_string(padded) +
                            "; it must be to the next multiple of 128");
      }
    }
  }

  manifest_matrix read_matrix(std::string_view rows, std::string_view cols, std::string_view data) {
    manifest_matrix out;
    out.type = read_type();
    if (out.type == source_type::i8 || out.type == source_type::u8) {
      fail("dtype",
           "is " + std::to_string(static_cast<int>(out.type)) + "; LoRA matrices are F32, F16 or BF16");
    }
    out.rows = read_extent(rows);
    out.cols = read_extent(cols);
    out.data = read_range(data);
    if (in_.ok()) check_range(out.data, std::uint64_t{out.rows} * out.cols * bytes_of(out.type), data);
    return out;
  }

  std::optional<lora_target> read_target() {
    const auto present = in_.read<std::uint8_t>("present");
    if (present > 1) fail("present", "is " + std::to_string(present) + "; it must be 0 or 1");
    if (present != 1 || !in_.ok()) return std::nullopt;
    lora_target out;
    out.a = read_matrix("rows of A", "columns of A", "data of A");
    out.b = read_matrix("rows of B", "columns of B", "data of B");
    if (in_.ok() && out.b.cols != out.a.rows) {
      fail("columns of B",
           "are " + std::to_string(out.b.cols) + "; A has " + std::to_string(out.a.rows) + " rows");
    }
    return out;
  }

  byte_cursor in_;
  std::uint32_t shards_ = 0;
  std::string number_;
};

/// What follows the tensors, in one of the layouts; an error unless it fills the file.
result<manifest> read_tail(std::span<const std::byte> image, std::string_view name, std::uint64_t begin,
                           const manifest& common, bool sections) {
  manifest out = common;
  manifest_reader reader(image, name, begin);
  reader.set_shards(common.shards.size());
  if (sections) reader.read_sections(out.tensors.size());
  if (reader.in().ok() && reader.in().remaining() > 0) reader.read_lora(out);
  if (reader.in().ok() && reader.in().remaining() > 0) {
    reader.fail("end", std::to_string(reader.in().remaining()) + " bytes follow the last entry");
  }
  if (!reader.in().ok()) return reader.in().failure();
  return out;
}

}  // namespace

result<manifest> parse_manifest(std::span<const std::byte> image, std::string_view name) {
  manifest common;
  manifest_reader reader(image, name);
  reader.read_shards(common);
  if (reader.in().ok()) reader.read_tensors(common);
  if (!reader.in().ok()) return reader.in().failure();
  const std::uint64_t begin = reader.in().offset();
  auto plain = read_tail(image, name, begin, common, false);
  auto sectioned = read_tail(image, name, begin, common, true);
  // With today's codes no file can be both: 7 targets a layer stand where a table has the type 1 of its first
  // section. Asked all the same, so that it stays so when a code is added.
  if (plain && sectioned) {
    return engine::file_error(name, "what follows the tensors", begin, "can be read in both layouts");
  }
  if (!plain && !sectioned) {
    return error{engine::errc::model_load_failed, plain.error().message + "; with a table of sections: " +
                                                      sectioned.error().message.substr(name.size() + 2)};
  }
  manifest& out = plain ? *plain : *sectioned;
  if (out.tensors.empty() && !out.lora) {
    return engine::file_error(name, "number of tensors", begin, "is 0 and there are no LoRA entries");
  }
  return std::move(out);
}

result<manifest> read_manifest(const std::string& path) {
  const auto text = read_small_file(path, manifest_limits::bytes);
  if (!text) return text.error();
  return parse_manifest(std::as_bytes(std::span(*text)), path);
}

}  // namespace orcd::app
