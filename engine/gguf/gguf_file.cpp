#include "engine/gguf/gguf_file.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/gguf/gguf_contents.hpp"
#include "engine/gguf/gguf_parser.hpp"
#include "engine/gguf/location.hpp"
#include "engine/gguf/model_folder.hpp"

namespace orcd::engine {
namespace {

/// Adds the first part, which may lie behind a header.
result<void> add_first_part(gguf_contents& to, std::span<const std::byte> image, const gguf_limits& limits) {
  const auto inside = unwrap_model(image, to.location);
  if (!inside) return inside.error();
  if (auto added = add_part(to, inside->gguf, to.location, limits); !added) return added;
  to.header_architecture = inside->architecture;
  const auto at = to.entry_index.find("general.architecture");
  const auto* name = at == to.entry_index.end()
                         ? nullptr
                         : std::get_if<std::string_view>(&to.entries[at->second].value.value);
  if (same_architecture(inside->architecture, name == nullptr ? std::string_view() : *name)) return {};
  return model_error(to.location,
                     "architecture of the TRLM header is " + std::to_string(inside->architecture) +
                         ", but general.architecture is " + (name == nullptr ? "absent" : in_quotes(*name)));
}

}  // namespace

gguf_file::gguf_file(std::unique_ptr<gguf_contents> contents) noexcept : contents_(std::move(contents)) {}
gguf_file::gguf_file(gguf_file&&) noexcept = default;
gguf_file& gguf_file::operator=(gguf_file&&) noexcept = default;
gguf_file::~gguf_file() = default;

result<gguf_file> gguf_file::open(std::string_view location, const gguf_limits& limits) {
  const auto given = parse_location(location);
  if (!given) return given.error();
  const auto where = find_model_file(*given);
  if (!where) return where.error();
  auto contents = std::make_unique<gguf_contents>();
  contents->location = where->name == given->name ? std::string(location) : where->name;
  auto mapping = mapped_file::open(*where, contents->location);
  if (!mapping) return mapping.error();
  contents->mappings.push_back(std::move(*mapping));
  auto added = add_first_part(*contents, contents->mappings.front().image(), limits);
  if (added) added = add_siblings(*contents, *where, limits);
  contents->watch = std::make_unique<file_watch>();
  for (const auto& m : contents->mappings) contents->watch->add(m.descriptor(), m.stamp());
  gguf_file out(std::move(contents));
  // If the file was truncated while it was read, report that and not what the zeros looked like.
  if (auto intact = out.check_intact(); !intact) return intact.error();
  if (!added) return added.error();
  return out;
}

result<gguf_file> gguf_file::parse(std::span<const std::byte> image, std::string name,
                                   const gguf_limits& limits) {
  auto contents = std::make_unique<gguf_contents>();
  contents->location = std::move(name);
  if (auto added = add_first_part(*contents, image, limits); !added) return added.error();
  const model_location nowhere{model_location::kind::shared_memory, {}};
  if (auto added = add_siblings(*contents, nowhere, limits); !added) return added.error();
  return gguf_file(std::move(contents));
}

result<void> gguf_file::check_intact() const {
  const auto& mappings = contents_->mappings;
  const auto cut = std::find_if(mappings.begin(), mappings.end(), [](const auto& m) { return !m.intact(); });
  std::optional<std::size_t> damaged;
  if (cut != mappings.end()) damaged = static_cast<std::size_t>(cut - mappings.begin());
  if (!damaged && contents_->watch) damaged = contents_->watch->first_written();
  if (!damaged) return {};
  return model_error(contents_->location, "the file (part " + std::to_string(*damaged + 1) + " of " +
                                              std::to_string(mappings.size()) +
                                              ") was changed or truncated while it was in use");
}

std::string gguf_file::identity() const {
  std::string out;
  for (const auto& mapping : contents_->mappings) {
    const file_stamp& stamp = mapping.stamp();
    if (!out.empty()) out += ' ';
    out += std::to_string(stamp.device) + ':' + std::to_string(stamp.inode) + ':' +
           std::to_string(stamp.bytes) + ':' + std::to_string(stamp.modified_ns);
  }
  return out;
}

std::string_view gguf_file::location() const noexcept {
  return contents_->location;
}

std::uint64_t gguf_file::file_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& image : contents_->images) sum += image.size();
  return sum;
}

std::uint64_t gguf_file::tensor_bytes() const noexcept {
  std::uint64_t sum = 0;  // no overflow: payloads are distinct ranges of the images
  for (const tensor_view& tensor : contents_->tensors) sum += tensor.bytes;
  return sum;
}

std::uint32_t gguf_file::version() const noexcept {
  return contents_->version;
}
std::uint32_t gguf_file::alignment() const noexcept {
  return contents_->alignment;
}
std::uint32_t gguf_file::header_architecture() const noexcept {
  return contents_->header_architecture;
}
std::span<const gguf_entry> gguf_file::entries() const noexcept {
  return contents_->entries;
}
std::span<const tensor_view> gguf_file::tensors() const noexcept {
  return contents_->tensors;
}
std::span<const std::span<const std::byte>> gguf_file::parts() const noexcept {
  return contents_->images;
}

const gguf_value* gguf_file::find(std::string_view key) const noexcept {
  const auto at = contents_->entry_index.find(key);
  return at == contents_->entry_index.end() ? nullptr : &contents_->entries[at->second].value;
}

const tensor_view* gguf_file::find_tensor(std::string_view name) const noexcept {
  const auto at = contents_->tensor_index.find(name);
  return at == contents_->tensor_index.end() ? nullptr : &contents_->tensors[at->second];
}

}  // namespace orcd::engine
