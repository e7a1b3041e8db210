#include "engine/gguf/gguf_file.hpp"

#include <algorithm>
#include <utility>

#include "engine/gguf/gguf_parser.hpp"
#include "engine/gguf/gguf_state.hpp"
#include "engine/gguf/location.hpp"

namespace orcd::engine {

gguf_file::gguf_file(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
gguf_file::gguf_file(gguf_file&&) noexcept = default;
gguf_file& gguf_file::operator=(gguf_file&&) noexcept = default;
gguf_file::~gguf_file() = default;

result<gguf_file> gguf_file::open(std::string_view location, const gguf_limits& limits) {
  const auto where = parse_location(location);
  if (!where) return where.error();
  auto contents = std::make_unique<state>();
  contents->location = location;
  auto mapping = mapped_file::open(*where, location);
  if (!mapping) return mapping.error();
  contents->mappings.push_back(std::move(*mapping));
  auto added = add_part(*contents, contents->mappings.front().image(), contents->location, limits);
  if (added) added = add_siblings(*contents, *where, limits);
  gguf_file out(std::move(contents));
  // A file cut short while it was read gave zeros: say so rather than what the zeros looked like.
  if (auto intact = out.check_intact(); !intact) return intact.error();
  if (!added) return added.error();
  return out;
}

result<gguf_file> gguf_file::parse(std::span<const std::byte> image, std::string name,
                                   const gguf_limits& limits) {
  auto contents = std::make_unique<state>();
  contents->location = std::move(name);
  if (auto added = add_part(*contents, image, contents->location, limits); !added) return added.error();
  const model_location nowhere{model_location::kind::shared_memory, {}};
  if (auto added = add_siblings(*contents, nowhere, limits); !added) return added.error();
  return gguf_file(std::move(contents));
}

result<void> gguf_file::check_intact() const {
  for (std::size_t i = 0; i < state_->mappings.size(); ++i) {
    const mapped_file& mapping = state_->mappings[i];
    if (mapping.intact() && mapping.unchanged()) continue;
    return model_error(state_->location, "the file (part " + std::to_string(i + 1) + " of " +
                                             std::to_string(state_->mappings.size()) +
                                             ") was changed or truncated while it was in use");
  }
  return {};
}

std::string_view gguf_file::location() const noexcept {
  return state_->location;
}

std::uint64_t gguf_file::file_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& image : state_->images) sum += image.size();
  return sum;
}

std::uint64_t gguf_file::tensor_bytes() const noexcept {
  std::uint64_t sum = 0;  // no overflow: payloads are distinct ranges of the images
  for (const tensor_view& tensor : state_->tensors) sum += tensor.bytes;
  return sum;
}

std::uint32_t gguf_file::version() const noexcept {
  return state_->version;
}
std::uint32_t gguf_file::alignment() const noexcept {
  return state_->alignment;
}
std::span<const gguf_entry> gguf_file::entries() const noexcept {
  return state_->entries;
}
std::span<const tensor_view> gguf_file::tensors() const noexcept {
  return state_->tensors;
}
std::span<const std::span<const std::byte>> gguf_file::parts() const noexcept {
  return state_->images;
}

const gguf_value* gguf_file::find(std::string_view key) const noexcept {
  const auto at = state_->entry_index.find(key);
  return at == state_->entry_index.end() ? nullptr : &state_->entries[at->second].value;
}

const tensor_view* gguf_file::find_tensor(std::string_view name) const noexcept {
  const auto at = state_->tensor_index.find(name);
  return at == state_->tensor_index.end() ? nullptr : &state_->tensors[at->second];
}

}  // namespace orcd::engine
