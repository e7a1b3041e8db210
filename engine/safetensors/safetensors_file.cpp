#include "engine/safetensors/safetensors_file.hpp"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/file_watch.hpp"
#include "engine/safetensors/header_handler.hpp"

namespace orcd::engine {
namespace {

constexpr std::size_t length_bytes = 8;

error refuse(const std::string& file, const std::string& text) {
  return {errc::model_load_failed, file + ": " + text};
}

/// The bytes that type and shape ask for; nullopt when they do not fit.
std::optional<std::uint64_t> expected_bytes(const safetensor& tensor) {
  std::optional<std::uint64_t> bytes = bytes_of(tensor.type);
  for (std::uint32_t i = 0; bytes && i < tensor.dims; ++i) bytes = checked_multiply(*bytes, tensor.shape[i]);
  return bytes;
}

/// Sorted by offset, each tensor must begin where the one before ends, and the last ends with the data.
result<void> check_places(const std::string& file, std::span<const safetensor> sorted, std::uint64_t data) {
  std::uint64_t next = 0;
  for (const safetensor& tensor : sorted) {
    const std::string subject = "tensor " + in_quotes(tensor.name);
    const auto expected = expected_bytes(tensor);
    if (!expected || *expected != tensor.bytes) {
      return refuse(file, subject + " has " + std::to_string(tensor.bytes) + " bytes; " +
                              std::string(to_string(tensor.type)) + " and its shape ask for " +
                              (expected ? std::to_string(*expected) : "more than there are numbers for"));
    }
    if (tensor.offset > data || tensor.bytes > data - tensor.offset) {
      return refuse(file, subject + " begins at " + std::to_string(tensor.offset) + " of the data and has " +
                              std::to_string(tensor.bytes) + " bytes; the data have " + std::to_string(data));
    }
    if (tensor.offset != next) {
      return refuse(file, subject + " begins at " + std::to_string(tensor.offset) + " of the data, " +
                              (tensor.offset < next ? "inside the tensor before it" : "behind a gap") +
                              "; the tensor before it ends at " + std::to_string(next));
    }
    next = tensor.offset + tensor.bytes;
  }
  if (next == data) return {};
  return refuse(file, "the tensors end at " + std::to_string(next) + " of the data, which have " +
                          std::to_string(data) + " bytes");
}

result<std::vector<safetensor>> read_header(const std::string& file, std::string_view text,
                                            const safetensors_limits& limits) {
  boost::json::basic_parser<header_handler> parser(boost::json::parse_options{}, limits);
  boost::system::error_code code;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), code);
  header_handler& handler = parser.handler();
  if (!handler.problem.empty()) return refuse(file, handler.problem);
  if (code) {
    return refuse(file, "the header is no JSON object: " + code.message() + " at byte " +
                            std::to_string(length_bytes + read));
  }
  // The format allows spaces behind the object; the parser has read those that JSON allows.
  if (read != text.size()) {
    return refuse(file,
                  "the header goes on behind its object, at byte " + std::to_string(length_bytes + read));
  }
  return std::move(handler.tensors);
}

}  // namespace

result<safetensors_file> safetensors_file::parse(std::span<const std::byte> image, std::string name,
                                                 const safetensors_limits& limits) {
  safetensors_file out;
  out.name_ = std::move(name);
  out.image_ = image;
  std::uint64_t header = 0;
  if (image.size() < length_bytes) {
    return refuse(out.name_,
                  "has " + std::to_string(image.size()) + " bytes; a safetensors file has at least 8");
  }
  std::memcpy(&header, image.data(), length_bytes);
  if (header > limits.header_bytes || header > image.size() - length_bytes) {
    return refuse(out.name_, "the header's length is " + std::to_string(header) + "; the limit is " +
                                 std::to_string(std::min<std::uint64_t>(limits.header_bytes,
                                                                        image.size() - length_bytes)));
  }
  const std::string_view text(reinterpret_cast<const char*>(image.data()) + length_bytes, header);
  if (!text.starts_with('{')) return refuse(out.name_, "the header does not begin with '{'");
  auto tensors = read_header(out.name_, text, limits);
  if (!tensors) return tensors.error();
  out.tensors_ = std::move(*tensors);
  std::sort(out.tensors_.begin(), out.tensors_.end(), [](const safetensor& a, const safetensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  const std::uint64_t begin = length_bytes + header;
  if (auto checked = check_places(out.name_, out.tensors_, image.size() - begin); !checked)
    return checked.error();
  for (safetensor& tensor : out.tensors_) tensor.offset += begin;
  out.by_name_.resize(out.tensors_.size());
  std::iota(out.by_name_.begin(), out.by_name_.end(), 0U);
  std::sort(out.by_name_.begin(), out.by_name_.end(),
            [&](auto a, auto b) { return out.tensors_[a].name < out.tensors_[b].name; });
  const auto twice = std::adjacent_find(out.by_name_.begin(), out.by_name_.end(), [&](auto a, auto b) {
    return out.tensors_[a].name == out.tensors_[b].name;
  });
  if (twice == out.by_name_.end()) return out;
  return refuse(out.name_, "there are two tensors " + in_quotes(out.tensors_[*twice].name));
}

result<safetensors_file> safetensors_file::open(const std::string& path, const safetensors_limits& limits) {
  auto mapping = mapped_file::open({model_location::kind::path, path}, path);
  if (!mapping) return mapping.error();
  auto out = parse(mapping->image(), path, limits);
  if (!out) return out;
  out->mapping_ = std::move(*mapping);
  if (auto intact = out->check_intact(); !intact) return intact.error();
  return out;
}

const safetensor* safetensors_file::find(std::string_view name) const noexcept {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](auto i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
}

const safetensor* safetensors_file::at_offset(std::uint64_t offset) const noexcept {
  const auto at = std::partition_point(tensors_.begin(), tensors_.end(), [&](const safetensor& t) {
    return t.offset < offset || (t.offset == offset && t.bytes == 0);
  });
  return at == tensors_.end() || at->offset != offset ? nullptr : &*at;
}

result<void> safetensors_file::check_intact() const {
  if (!mapping_) return {};
  const file_stamp now = stamp_of(mapping_->descriptor());
  if (mapping_->intact() && !may_have_been_written(mapping_->stamp(), now, {.written = false, .moved = true}))
    return {};
  return refuse(name_, "was cut or written to while it was read");
}

}  // namespace orcd::engine
